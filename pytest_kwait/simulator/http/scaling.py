"""The `scale` subresource over HTTP: read, replaced, patched, applied.

Source: k8s.io/kubernetes pkg/registry/apps/deployment/storage/storage.go, ScaleREST;
k8s.io/apimachinery pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.admission.webhook_calls import consulted
from pytest_kwait.simulator.apply import check_conflicts, read_apply
from pytest_kwait.simulator.http.answer import object_answer
from pytest_kwait.simulator.http.bodies import read_body
from pytest_kwait.simulator.http.contents import SCALES, check_kind, check_name, read_content
from pytest_kwait.simulator.http.patching import APPLY, patched, read_patch_form
from pytest_kwait.simulator.http.versions import shown
from pytest_kwait.simulator.kind_view import seen
from pytest_kwait.simulator.ownership import Manager, managers_of, write_managers
from pytest_kwait.simulator.scales import read_scale, replicas_path, write_scale
from pytest_kwait.simulator.status_error import StatusError, invalid, invalid_value
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.field_sets import Path
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["serve_scale"]

_REPLICAS: Path = ("f:spec", "f:replicas")


async def serve_scale(
    api: ClusterApi, request: ApiRequest, kind: Kind, target: Target, verb: str
) -> web.Response:
    """Answer with the Scale, as it is or as it has become.

    Raises:
        StatusError: 404 without the object, 409 where it is newer, 400 or 422 for what is no
            Scale of it.
    """
    namespace = target.namespace or ""
    if verb == "get":
        entry = api.entry(kind, target.name, namespace)
        return object_answer(request, SCALES, _scale_of(kind, await shown(kind, entry.obj)))
    caller = request.writer()
    if verb == "update":
        sent = await read_content(api, request, SCALES, namespace, caller)
        check_name(sent, target.name, namespace)

        def update() -> Obj:
            return _write(api, kind, _entry(api, kind, target, caller), lambda _: sent, caller)

        return await _answer(request, kind, await consulted(caller, update))
    media = read_patch_form(request, kind)
    data = await read_body(request)
    if media == APPLY:
        applied = read_apply(data, SCALES, target.name, namespace, caller)
        applied["metadata"].setdefault("name", target.name)
        force = request.flag("force")
        stored = await consulted(
            caller,
            lambda: _apply(
                api, kind, _entry(api, kind, target, caller), applied, caller, force=force
            ),
        )
        return await _answer(request, kind, stored)

    def patch() -> Obj:
        return _write(
            api,
            kind,
            _entry(api, kind, target, caller),
            lambda scale: _patched(api, media, scale, data, caller),
            caller,
        )

    return await _answer(request, kind, await consulted(caller, patch))


async def _answer(request: ApiRequest, kind: Kind, stored: Obj) -> web.Response:
    """The Scale of what was stored."""
    return object_answer(request, SCALES, _scale_of(kind, await shown(kind, stored)))


def _entry(api: ClusterApi, kind: Kind, target: Target, caller: Caller) -> Entry:
    """The object, in the version of the request."""
    entry = api.entry(kind, target.name, target.namespace or "")
    obj = seen(kind, entry.obj, caller) if kind.custom else entry.obj
    return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)


def _patched(api: ClusterApi, media: str, scale: Obj, data: bytes, caller: Caller) -> Obj:
    # JSON patches see what the server keeps, in which a number of 0 is one like any other.
    whole = {**scale, "spec": {"replicas": 0, **scale["spec"]}}
    changed = patched(media, whole, data, SCALES)
    check_kind(api, changed, SCALES)
    try:
        return api.decode(SCALES, changed, caller)
    except StatusError as error:
        why = error.message.partition(" cannot be handled as a Scale: ")[2]
        if not why:
            raise
        raise invalid("", "", "", [invalid_value("patch", changed, why)]) from None


def _write(
    api: ClusterApi, kind: Kind, entry: Entry, change: Callable[[Obj], Obj], caller: Caller
) -> Obj:
    """Store what `change` makes of the object's Scale; returns the object."""
    before = _scale_of(kind, entry.obj)
    wanted = change(before)
    metadata = entry.obj["metadata"]
    asked = Attributes(
        "UPDATE", kind, metadata.get("namespace", ""), metadata["name"], wanted, before, "scale",
        caller, content=SCALES,
    )  # fmt: skip
    api.admission.admit_content(asked)
    changed = write_scale(kind, entry.obj, asked.obj or wanted)
    api.admission.validate_content(asked)
    return api.replace(kind, entry, changed, "scale", caller)


def _apply(
    api: ClusterApi, kind: Kind, entry: Entry, applied: Obj, caller: Caller, *, force: bool
) -> Obj:
    """Store the Scale's replicas as the manager's own; returns the object.

    Raises:
        StatusError: 409 where another manager has set another number, and `force` is not given.
    """
    path = _path(kind)
    wanted = (applied.get("spec") or {}).get("replicas")
    others = managers_of(_scale_of(kind, entry.obj))
    before = read_scale(kind, entry.obj)["spec"].get("replicas", 0)
    others = [one for one in others if (one.name, one.operation) != (caller.manager, "Apply")]
    if wanted is not None and wanted != before:
        check_conflicts(others, {_REPLICAS}, force=force)
    scale = {**applied, "spec": {"replicas": before if wanted is None else wanted}}
    changed = write_scale(kind, entry.obj, api.decode(SCALES, scale, caller))
    this = Manager(
        caller.manager, "Apply", kind.api_version, "scale", api.clock.stamp(),
        {path[:length] for length in range(1, len(path) + 1)} if wanted is not None else set(),
    )  # fmt: skip

    def record(new: Obj) -> None:
        kept = [one for one in managers_of(entry.obj) if one.identity != this.identity]
        if wanted != before:
            for one in kept:
                one.fields.discard(path)
        write_managers(new, [*kept, this])

    new = api.decode(kind, changed, caller)
    return api.replace_decoded(kind, entry, new, "scale", caller, record)


def _scale_of(kind: Kind, obj: Obj) -> Obj:
    """The Scale, with those managers of the object who have set its replicas."""
    scale, path = read_scale(kind, obj), _path(kind)
    managers = [one for one in managers_of(obj) if path in one.fields]
    for one in managers:
        one.api_version, one.fields = SCALES.api_version, {("f:spec",), _REPLICAS}
    write_managers(scale, managers)
    return scale


def _path(kind: Kind) -> Path:
    return tuple(f"f:{name}" for name in replicas_path(kind))
