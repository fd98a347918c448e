"""`scale`: read, replace, patch and apply the replicas of a workload.

Source: k8s.io/kubernetes pkg/registry/apps/deployment/storage/storage.go, ScaleREST;
k8s.io/apimachinery pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import StatusError, invalid, invalid_value
from pytest_kwait.simulator.apiserver.handlers.patch import (
    APPLY_PATCH,
    apply_patch,
    read_patch_type,
)
from pytest_kwait.simulator.apiserver.request_bodies import (
    SCALE_KIND,
    check_object_name,
    check_subresource_kind,
    read_body,
    read_subresource_object,
)
from pytest_kwait.simulator.apiserver.responses import object_response, to_requested_version
from pytest_kwait.simulator.apiserver.suspended_writes import run_write
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.apply import check_conflicts, read_apply
from pytest_kwait.simulator.managedfields.field_manager import (
    ManagedFieldsEntry,
    read_managed_fields,
    write_managed_fields,
)
from pytest_kwait.simulator.registry.subresources import read_scale, replicas_path, write_scale
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.managedfields.field_sets import Path
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["serve_scale"]

_REPLICAS: Path = ("f:spec", "f:replicas")


async def serve_scale(
    api: Cluster, request: ApiRequest, kind: Kind, target: RequestInfo, verb: str
) -> web.Response:
    """Serve a request on the Scale of a workload.

    Raises:
        StatusError: 404 without the object, 409 for a conflict, 400 or 422 for an invalid Scale.
    """
    namespace = target.namespace or ""
    if verb == "get":
        entry = api.entry(kind, target.name, namespace)
        return object_response(
            request, SCALE_KIND, _scale_of(kind, await to_requested_version(kind, entry.obj))
        )
    caller = request.read_write_options()
    if verb == "update":
        sent = await read_subresource_object(api, request, SCALE_KIND, namespace, caller)
        check_object_name(sent, target.name, namespace)

        def update() -> Obj:
            return _store_scale(api, kind, _find_entry(api, kind, target), lambda _: sent, caller)

        return await _scale_response(request, kind, await run_write(api, update, retry=True))
    media = read_patch_type(request, kind)
    data = await read_body(request)
    if media == APPLY_PATCH:
        applied = read_apply(data, SCALE_KIND, target.name, namespace, caller)
        applied["metadata"].setdefault("name", target.name)
        force = request.flag("force")
        stored = await run_write(
            api,
            lambda: _apply_scale(
                api, kind, _find_entry(api, kind, target), applied, caller, force=force
            ),
            retry=True,
        )
        return await _scale_response(request, kind, stored)

    def patch() -> Obj:
        return _store_scale(
            api,
            kind,
            _find_entry(api, kind, target),
            lambda scale: _patch_scale(api, media, scale, data, caller),
            caller,
        )

    return await _scale_response(request, kind, await run_write(api, patch, retry=True))


async def _scale_response(request: ApiRequest, kind: Kind, stored: Obj) -> web.Response:
    """Return the Scale of the stored object."""
    return object_response(
        request, SCALE_KIND, _scale_of(kind, await to_requested_version(kind, stored))
    )


def _find_entry(api: Cluster, kind: Kind, target: RequestInfo) -> Entry:
    """Return the object in the version of the request."""
    entry = api.entry(kind, target.name, target.namespace or "")
    obj = to_version(kind, entry.obj) if kind.custom else entry.obj
    return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)


def _patch_scale(api: Cluster, media: str, scale: Obj, data: bytes, caller: Caller) -> Obj:
    # JSON patches apply to the stored form, which keeps zeros.
    whole = {**scale, "spec": {"replicas": 0, **scale["spec"]}}
    changed = apply_patch(media, whole, data, SCALE_KIND)
    check_subresource_kind(api, changed, SCALE_KIND)
    try:
        return api.decode(SCALE_KIND, changed, caller)
    except StatusError as error:
        why = error.message.partition(" cannot be handled as a Scale: ")[2]
        if not why:
            raise
        raise invalid("", "", "", [invalid_value("patch", changed, why)]) from None


def _store_scale(
    api: Cluster, kind: Kind, entry: Entry, change: Callable[[Obj], Obj], caller: Caller
) -> Obj:
    """Apply `change` to the Scale, and store and return the object."""
    before = _scale_of(kind, entry.obj)
    wanted = change(before)
    metadata = entry.obj["metadata"]
    attributes = Attributes(
        "UPDATE", kind, metadata.get("namespace", ""), metadata["name"], wanted, before, "scale",
        caller, subresource_kind=SCALE_KIND,
    )  # fmt: skip
    api.admission.admit_subresource(attributes)
    changed = write_scale(kind, entry.obj, attributes.obj or wanted)
    api.admission.validate_subresource(attributes)
    return api.replace(kind, entry, changed, "scale", caller)


def _apply_scale(
    api: Cluster, kind: Kind, entry: Entry, applied: Obj, caller: Caller, *, force: bool
) -> Obj:
    """Apply the Scale's replicas as a field manager; return the object.

    Raises:
        StatusError: 409, another manager owns the replicas and `force` is not given.
    """
    path = _replicas_path(kind)
    wanted = (applied.get("spec") or {}).get("replicas")
    others = read_managed_fields(_scale_of(kind, entry.obj))
    before = read_scale(kind, entry.obj)["spec"].get("replicas", 0)
    others = [one for one in others if (one.name, one.operation) != (caller.manager, "Apply")]
    if wanted is not None and wanted != before:
        check_conflicts(others, {_REPLICAS}, force=force)
    scale = {**applied, "spec": {"replicas": before if wanted is None else wanted}}
    changed = write_scale(kind, entry.obj, api.decode(SCALE_KIND, scale, caller))
    this = ManagedFieldsEntry(
        caller.manager, "Apply", kind.api_version, "scale", api.clock.stamp(),
        {path[:length] for length in range(1, len(path) + 1)} if wanted is not None else set(),
    )  # fmt: skip

    def record(new: Obj) -> None:
        kept = [one for one in read_managed_fields(entry.obj) if one.identity != this.identity]
        if wanted != before:
            for one in kept:
                one.fields.discard(path)
        write_managed_fields(new, [*kept, this])

    new = api.decode(kind, changed, caller)
    return api.replace_decoded(kind, entry, new, "scale", caller, record)


def _scale_of(kind: Kind, obj: Obj) -> Obj:
    """Return the Scale with the managers of the object's replicas."""
    scale, path = read_scale(kind, obj), _replicas_path(kind)
    managers = [one for one in read_managed_fields(obj) if path in one.fields]
    for one in managers:
        one.api_version, one.fields = SCALE_KIND.api_version, {("f:spec",), _REPLICAS}
    write_managed_fields(scale, managers)
    return scale


def _replicas_path(kind: Kind) -> Path:
    return tuple(f"f:{name}" for name in replicas_path(kind))
