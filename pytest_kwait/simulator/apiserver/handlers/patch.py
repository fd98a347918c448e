"""PATCH: read the patch type, apply the patch, store the result.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import forbidden_field, invalid_value, required
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    invalid,
    unsupported_media_type,
)
from pytest_kwait.simulator.apiserver.filters import explore_update
from pytest_kwait.simulator.apiserver.request_bodies import (
    check_object_type,
    find_repeated_fields,
    kind_error,
    read_body,
    run_in_thread_if_large,
)
from pytest_kwait.simulator.apiserver.responses import object_response, to_requested_version
from pytest_kwait.simulator.codec.json_yaml import check_depth, not_a_map_message
from pytest_kwait.simulator.codec.schema import go_fields, shape_of
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.apply import apply_object, read_apply
from pytest_kwait.simulator.managedfields.field_manager import format_go_value
from pytest_kwait.simulator.patch import (
    apply_merge_patch,
    apply_strategic_merge,
    from_unstructured_error,
    read_patch,
)
from pytest_kwait.simulator.registry.generic_store import run_write
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


def read_patch_type(request: ApiRequest, kind: Kind) -> str:
    """Return the media type of the patch.

    Raises:
        StatusError: 415 for an unsupported type, 422 for options that do not fit it.
    """
    media = request.header("Content-Type").partition(";")[0].strip()
    forms = (
        [JSON_PATCH, MERGE_PATCH]
        if kind.custom
        else [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH]
    )
    forms.append(APPLY_PATCH)
    if media not in (APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if media not in forms:
        raise unsupported_media_type(", ".join(forms))
    errors = []
    if media == APPLY_PATCH:
        if not request.query.get("fieldManager"):
            errors.append(required("fieldManager", "is required for apply patch"))
    elif "force" in request.query:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid("meta.k8s.io", "PatchOptions", "", errors)
    return media


def apply_patch(media: str, target: Obj, data: bytes, kind: Kind) -> Obj:
    """Apply the patch in `data` to `target`.

    Raises:
        StatusError: 400 or 422, the patch is invalid.
    """
    patch = read_patch(data, "" if media == STRATEGIC_MERGE_PATCH else "error decoding patch: ")
    if media == JSON_PATCH:
        # The library is loaded with the first JSON patch.
        from pytest_kwait.simulator.patch import apply_json_patch

        result = apply_json_patch(target, patch)
    elif media == MERGE_PATCH:
        if patch is None:
            raise bad_request("Invalid JSON Patch")
        if not isinstance(patch, dict):
            raise bad_request(f"error decoding patch: {not_a_map_message(patch)}")
        result = apply_merge_patch(target, patch)
    else:
        result = apply_strategic_merge(target, patch, shape_of(kind.group, kind.version, kind.kind))
    if not isinstance(result, dict):
        raise bad_request("the patched object is no object")
    try:
        check_depth(result)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    return result


async def patch_object(
    cluster: ApiServerCluster, request: ApiRequest, kind: Kind, target: RequestInfo
) -> web.Response:
    """Serve a PATCH of an object or of its status.

    Raises:
        StatusError: the patch is rejected.
    """
    _ = request.form
    caller = request.read_write_options()
    media = read_patch_type(request, kind)
    data = await read_body(request)
    subresource = target.subresource or None
    if media == APPLY_PATCH:
        configuration = await run_in_thread_if_large(
            data, lambda: read_apply(data, kind, target.name, target.namespace or "", caller)
        )
        _resolve_name(cluster, kind, configuration, target)
        key = key_of(target.name, target.namespace or "" if kind.namespaced else "")
        entry = cluster.store.get(kind.bucket, key)
        if entry is not None:
            _check_uid(kind, configuration, entry.obj)
        force = request.flag("force")
        stored, created = await run_write(
            cluster,
            lambda: apply_object(cluster, kind, configuration, subresource, caller, force=force),
            retry=True,
            size=request.write_size(entry),
        )
        status = 201 if created else 200
        return await object_response(
            request, kind, await to_requested_version(kind, stored), status
        )
    if cluster.clock.exploration is not None and media != JSON_PATCH:
        # Not at import: few clusters explore.
        from pytest_kwait.simulator.exploration.requests import find_patch_version

        await explore_update(cluster, request, kind, target, find_patch_version(data))
    key = key_of(target.name, target.namespace or "" if kind.namespaced else "")
    stored = await run_write(
        cluster,
        lambda: _patch(cluster, kind, target, media, data, caller),
        retry=True,
        size=request.write_size(cluster.store.get(kind.bucket, key)),
    )
    return await object_response(request, kind, await to_requested_version(kind, stored))


def _patch(
    cluster: ApiServerCluster,
    kind: Kind,
    target: RequestInfo,
    media: str,
    data: bytes,
    caller: Caller,
) -> Obj:
    """Apply the patch to the current object."""
    entry = cluster.entry(kind, target.name, target.namespace or "")
    before = to_version(kind, entry.obj)
    with beside_loop():
        result = apply_patch(media, before, data, kind)
        if caller.field_validation != "Ignore":
            caller.strict_errors = _repeated_fields(media, data)
    metadata = result.get("metadata")
    if not isinstance(metadata, dict | None):
        _decode_result(
            cluster, kind, result, caller, data if media == STRATEGIC_MERGE_PATCH else None
        )
    if not isinstance(metadata, dict) or metadata.get("name") != target.name:
        body_name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise bad_request(
            f"the name of the object ({body_name}) does not match the name on the URL "
            f"({target.name})"
            if body_name
            else f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if kind.custom:
        check_object_type(result, kind)
    with beside_loop():
        new = _decode_result(
            cluster, kind, result, caller, data if media == STRATEGIC_MERGE_PATCH else None
        )
    _check_uid(kind, new, entry.obj)
    return cluster.replace_decoded(kind, entry, new, target.subresource or None, caller)


def _repeated_fields(media: str, data: bytes) -> list[str]:
    """Return the errors of strict decoding of the patch itself."""
    repeated_fields = find_repeated_fields(data)
    return (
        [f"json patch {text}" for text in repeated_fields]
        if media == JSON_PATCH
        else repeated_fields
    )


def _check_uid(kind: Kind, new: Obj, stored_object: Obj) -> None:
    """Check that the patch keeps the object's UID.

    Raises:
        StatusError: 422, the UID differs.
    """
    uid = new["metadata"].get("uid")
    if uid and uid != stored_object["metadata"]["uid"]:
        error = invalid_value("metadata.uid", uid, "field is immutable")
        errors = [error] if kind.custom else [error] * 2
        raise invalid(kind.group, kind.kind, stored_object["metadata"]["name"], errors)


def _resolve_name(
    cluster: ApiServerCluster, kind: Kind, configuration: Obj, target: RequestInfo
) -> None:
    """Set the name of an applied configuration without one; the object must exist.

    Raises:
        StatusError: 400, it does not exist.
    """
    if configuration["metadata"].get("name"):
        return
    key = key_of(target.name, target.namespace or "" if kind.namespaced else "")
    if cluster.store.get(kind.bucket, key) is None and not target.subresource:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    configuration["metadata"]["name"] = target.name


def _decode_result(
    cluster: ApiServerCluster, kind: Kind, result: Obj, caller: Caller, strategic: bytes | None
) -> Obj:
    """Decode the patched object; errors are reported against the patch.

    Errors show a strategic merge patch as sent, and of other patches the result.
    """
    why = ""
    if strategic is None and not kind.custom:
        version, name = result.get("apiVersion"), result.get("kind")
        why = kind_error(kind, version or kind.api_version, name or kind.kind)
    try:
        if not why:
            return cluster.decode(kind, result, caller)
    except StatusError as error:
        why = error.message.partition(f" cannot be handled as a {kind.kind}: ")[2]
        if not why:
            raise
    ordered_object = {name: result[name] for name in sorted(result)}
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        ordered = [name for name in go_fields(_META) if name in metadata]
        ordered_object["metadata"] = {
            name: metadata[name] for name in dict.fromkeys([*ordered, *metadata])
        }
    # Custom objects are maps, whose fields Go sorts; of others, nested fields keep their order.
    text = json.dumps(ordered_object, separators=(",", ":"), sort_keys=kind.custom)
    if strategic is not None:
        text = format_go_value(_strip_directives(read_patch(strategic)))
        why = from_unstructured_error(result, shape_of(kind.group, kind.version, kind.kind)) or why
    raise invalid("", "", "", [invalid_value("patch", text, why)])


def _strip_directives(patch: Any) -> Any:
    """Remove the directives from a strategic merge patch."""
    if isinstance(patch, dict):
        value_by_name = {name: value for name, value in patch.items() if name != "$retainKeys"}
        return {name: _strip_directives(value) for name, value in value_by_name.items()}
    return [_strip_directives(element) for element in patch] if isinstance(patch, list) else patch
