"""Request bodies decoded to objects, delete options, Evictions, Bindings and Scales.

Source: k8s.io/apimachinery pkg/runtime/serializer, k8s.io/apiserver pkg/endpoints/handlers
(create.go for the objects of subresources).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aiohttp.web import RequestPayloadError

from pytest_kwait.apimachinery.field_errors import invalid_value, not_supported
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    invalid,
    unsupported_media_type,
)
from pytest_kwait.simulator.codec.decode import list_repeated_fields
from pytest_kwait.simulator.codec.json_yaml import json_type_name, read_json, read_yaml
from pytest_kwait.simulator.codec.protobuf import MAGIC, decode_envelope
from pytest_kwait.simulator.codec.schema import is_known, unserved_kinds
from pytest_kwait.simulator.objects import DuplicateKeysObj
from pytest_kwait.simulator.registry.generic_store import LARGE_BYTES
from pytest_kwait.simulator.scheme import Kind
from pytest_kwait.simulator.validation.objectmeta import validate_delete_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

Result = TypeVar("Result")

MEDIA_TYPES = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)
EVICTION_KIND = Kind("policy", "v1", "evictions", "Eviction", namespaced=True)
BINDING_KIND = Kind("", "v1", "bindings", "Binding", namespaced=True)

CREATED_STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
"""The response to a request that creates no object of its own."""

_PROTOBUF = MEDIA_TYPES[2]
_NO_JSON = "couldn't get version/kind; json parse error: "
_SCHEME = "pkg/runtime/scheme.go:111"
_MAX_BODY_BYTES = 3 * 1024 * 1024
"""Bytes; source: k8s.io/apiserver pkg/server/config.go, `MaxRequestBodyBytes`."""

_BODY_SECONDS = 60.0
_SUMMARY_BYTES = 30
"""The number of bytes of a body in an error message."""
_PRECONDITIONS = {"uid": "types.UID", "resourceVersion": "string"}
_OPTION_FIELDS: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
    "preconditions": (dict, "v1.Preconditions"),
}
_OWN_SCHEMES = {
    "apiextensions.k8s.io": "apiextensions.k8s.io/",
    "apiregistration.k8s.io": "apiregistration.k8s.io/",
}
"""The groups whose servers know no kinds of other groups."""

_OTHER_API_VERSIONS = {EVICTION_KIND.kind: ("policy/v1beta1",)}
"""Other versions that a body may have."""


async def read_body(request: ApiRequest) -> bytes:
    """Read the whole body.

    Raises:
        StatusError: 413 if it is too large, 504 if it is incomplete, 500 if its encoding is broken.
    """
    http = request.http
    if (http.content_length or 0) > _MAX_BODY_BYTES:
        raise _too_large_error()
    if http.headers.get("Expect", "").lower() == "100-continue":
        await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        http.writer.output_size = 0
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in http.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > _MAX_BODY_BYTES:
                    raise _too_large_error()
    except TimeoutError:
        text = "Timeout: request did not complete within the allotted timeout"
        raise StatusError(504, "Timeout", text, {}) from None
    except RequestPayloadError:
        raise StatusError(500, "", "malformed chunked encoding") from None
    request.body_size = size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large_error() -> StatusError:
    text = f"Request entity too large: limit is {_MAX_BODY_BYTES}"
    return StatusError(413, "RequestEntityTooLarge", text)


def _read_media_type(request: ApiRequest) -> str:
    """Return the body's media type.

    Raises:
        StatusError: 415, it is not supported.
    """
    content_type = request.header("Content-Type")
    media = content_type.partition(";")[0].strip().lower() if content_type else MEDIA_TYPES[0]
    if media not in MEDIA_TYPES:
        raise unsupported_media_type(", ".join(MEDIA_TYPES))
    return media


async def read_object(request: ApiRequest, kind: Kind, *, any_kind: bool = False) -> Obj:
    """Decode the object in the body.

    Args:
        kind: the kind in the path.
        any_kind: whether other kinds are allowed (a subresource's own kind).

    Raises:
        StatusError: 415 for an unsupported media type, 400 for an invalid object.
    """
    data = await read_body(request)
    media = _read_media_type(request)
    obj: Any
    try:
        if media == _PROTOBUF or data.startswith(MAGIC):
            obj = _decode_protobuf(data)
        elif media == "application/yaml":
            obj, repeated = await _decode_yaml(data)
            if repeated and request.query.get("fieldValidation") == "Strict":
                repeated = ["yaml: unmarshal errors:\n  " + "\n  ".join(repeated)]
            request.caller.strict_errors = repeated
        else:
            marks = request.query.get("fieldValidation") != "Ignore"
            obj = await run_in_thread_if_large(data, lambda: _decode_json(data, marks=marks))
        obj = _require_type_meta(obj)
        if not any_kind:
            _check_kind(obj, kind, data)
    except _DecodeError as error:
        raise _unrecognized_error(kind, data, str(error)) from None
    return cast("Obj", obj)


class _DecodeError(Exception):
    pass


def _decode_json(data: bytes, *, marks: bool = False) -> Any:
    """Decode JSON; with `marks` the object has its repeated fields."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise _DecodeError(f"{_NO_JSON}{error}") from None
    return _mark_repeated_fields(value, data) if marks else value


def _decode_protobuf(data: bytes) -> Any:
    if not data.startswith(MAGIC):
        raise _DecodeError(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, MAGIC))}]"
        )
    return decode_envelope(data)


def _require_type_meta(obj: Any) -> Obj:
    """Require an object with kind and version."""
    if obj is None:
        return {}
    if not isinstance(obj, dict):
        name = json_type_name(obj)
        raise _DecodeError(
            f"{_NO_JSON}json: cannot unmarshal {name} into Go value of type struct {{ APIVersion "
            'string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if value is not None and not isinstance(value, str):
            raise _DecodeError(
                f"{_NO_JSON}json: cannot unmarshal {json_type_name(value)} into Go "
                f"struct field .{field} of type string"
            )
    version = obj.get("apiVersion") or ""
    if version.count("/") > 1:
        raise _DecodeError(f"unexpected GroupVersion string: {version}")
    return obj


def _unrecognized_error(kind: Kind, data: bytes, why: str) -> StatusError:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} "
        f"({_summarize_body(data)})"
    )


def _summarize_body(data: bytes) -> str:
    """Return the beginning of a body for an error message."""
    if not data:
        return "<empty>"
    start = data[:_SUMMARY_BYTES]
    text = start.decode(errors="replace") if data[0] == ord("{") else start.hex()
    return f"{text} ..." if len(data) > _SUMMARY_BYTES else text


async def _decode_yaml(data: bytes) -> tuple[Any, list[str]]:
    try:
        return await run_in_thread_if_large(data, lambda: read_yaml(data))
    except ValueError as error:
        # This decoder names no conversion, unlike that of applied configurations.
        text = str(error).removeprefix("error converting YAML to JSON: ")
        raise _DecodeError(text) from None


async def run_in_thread_if_large(data: bytes, read: Callable[[], Result]) -> Result:
    """Run `read(data)`; in a thread if the data is large."""
    if len(data) < LARGE_BYTES:
        return read()
    return await asyncio.to_thread(read)


def find_repeated_fields(data: bytes) -> list[str]:
    """Return the errors of strict decoding for the repeated fields of JSON without a schema."""
    return list_repeated_fields(_mark_repeated_fields(None, data))


def _mark_repeated_fields(obj: Any, data: bytes) -> Any:
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(items)
        if len(result) == len(items):
            return result
        repeated = True
        return DuplicateKeysObj(items)

    try:
        again = json.loads(data, object_pairs_hook=pairs)
    except ValueError:  # Invalid UTF-8 was replaced.
        again = json.loads(data.decode(errors="replace"), object_pairs_hook=pairs)
    return again if repeated else obj


def _check_kind(obj: Obj, kind: Kind, data: bytes) -> None:
    version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.custom:
        if not name:
            text = data.decode(errors="replace")
            raise _DecodeError(f"Object 'Kind' is missing in '{text}'")
        if version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({version or ''}) does not match the expected API "
                f"version ({kind.api_version})"
            )
        check_object_type(obj, kind)
        return
    why = kind_error(kind, version or kind.api_version, name or kind.kind)
    if why and name in (None, "", kind.kind) and is_decodable(version or "", kind.kind):
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if why:
        version_name = (version or kind.api_version).rpartition("/")[2]
        raise bad_request(
            f'{name or kind.kind} in version "{version_name}" cannot be handled as a {kind.kind}: '
            f"{why}"
        )


def check_object_type(obj: Obj, kind: Kind) -> None:
    """Check a custom object's kind and version.

    Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/validator.go, func
    ValidateTypeMeta.

    Raises:
        StatusError: 422, they differ from the path's.
    """
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    errors = []
    if name != kind.kind:
        errors.append(invalid_value("kind", name, f"must be {kind.kind}"))
    if version != kind.api_version:
        errors.append(invalid_value("apiVersion", version, f"must be {kind.api_version}"))
    if errors:
        metadata = obj.get("metadata")
        own = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise invalid(str(version).rpartition("/")[0], str(name), own, errors)


def kind_error(kind: Kind, version: str, name: str) -> str:
    """Explain why `name` of `version` is not `kind`; empty if it is."""
    if (version, name) == (kind.api_version, kind.kind):
        return ""
    own = _OWN_SCHEMES.get(kind.group)
    if is_decodable(version, name) and (own is None or version.startswith(own)):
        package = kind.group.partition(".")[0] or "core"
        short = version.rpartition("/")[2]
        return f"converting ({short}.{name}) to ({package}.{kind.kind}): unknown conversion"
    return _unregistered_text(name, version)


def is_decodable(version: str, name: str) -> bool:
    """Return whether the server can decode a kind of a version, served or not."""
    group, _, short = version.rpartition("/")
    return (
        is_known(group, short, name)
        or f"{version} {name}" in unserved_kinds()
        or (version, name) == ("v1", "List")
    )


def _unregistered_text(name: str, version: str) -> str:
    return f'no kind "{name}" is registered for version "{version}" in scheme "{_SCHEME}"'


async def read_delete_options(request: ApiRequest) -> Obj:
    """Read delete options from the body, or else from the query.

    Raises:
        StatusError: 400 or 415 for an invalid body, 422 for invalid options.
    """
    data = await read_body(request)
    has_body = bool(data.strip())
    options = (
        await _decode_body_options(request, data) if has_body else _read_query_options(request)
    )
    errors = validate_delete_options(options)
    dry_run = options.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    request.caller.dry_run = bool(dry_run)
    return {name: options[name] for name in _OPTION_FIELDS if options.get(name) is not None}


def _read_query_options(request: ApiRequest) -> Obj:
    options: Obj = {}
    grace = request.integer("gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if "orphanDependents" in request.query:
        options["orphanDependents"] = request.flag("orphanDependents")
    if "propagationPolicy" in request.query:
        options["propagationPolicy"] = request.query["propagationPolicy"]
    preconditions = {
        name: request.query[f"preconditions.{name}"]
        for name in ("uid", "resourceVersion")
        if request.query.get(f"preconditions.{name}")
    }
    if preconditions:
        options["preconditions"] = preconditions
    dry_run = [value for name, value in request.queries if name == "dryRun"]
    if dry_run:
        options["dryRun"] = dry_run
    return options


async def _decode_body_options(request: ApiRequest, data: bytes) -> Obj:
    media = _read_media_type(request)
    try:
        if media == _PROTOBUF or data.startswith(MAGIC):
            options = _decode_protobuf(data)
        elif media == "application/yaml":
            options, _ = await _decode_yaml(data)
        else:
            options = await run_in_thread_if_large(data, lambda: _decode_json(data))
        options = _require_type_meta(options)
    except _DecodeError as error:
        raise bad_request(str(error)) from None
    name = options.get("kind") or "DeleteOptions"
    if name != "DeleteOptions":
        raise bad_request(_unregistered_text(name, options.get("apiVersion") or "v1"))
    for field, (kind, type_name) in _OPTION_FIELDS.items():
        value = options.get(field)
        if value is not None and type(value) is not kind:
            json_type = json_type_name(value)
            if json_type == "number" and kind is int:
                json_type = f"number {value}"
            raise bad_request(
                f"json: cannot unmarshal {json_type} into Go struct field DeleteOptions.{field} of "
                f"type {type_name}"
            )
    for field, value in (options.get("preconditions") or {}).items():
        if field in _PRECONDITIONS and not isinstance(value, str | None):
            raise bad_request(
                f"json: cannot unmarshal {json_type_name(value)} into Go struct field "
                f"Preconditions.preconditions.{field} of type {_PRECONDITIONS[field]}"
            )
    return options


async def read_subresource_object(
    cluster: Cluster, request: ApiRequest, kind: Kind, namespace: str, caller: Caller
) -> Obj:
    """Decode the object in the body, in the path's namespace.

    Raises:
        StatusError: 400 for another kind or namespace, 415 for an unsupported media type.
    """
    obj = await read_object(request, kind, any_kind=True)
    check_subresource_kind(cluster, obj, kind)
    clean = cluster.decode(kind, obj, caller)
    if clean["metadata"].get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    clean["metadata"]["namespace"] = namespace
    return clean


def check_subresource_kind(cluster: Cluster, obj: Obj, kind: Kind) -> None:
    """Check the kind of a body; a missing kind is allowed.

    Raises:
        StatusError: 400, it is another kind.
    """
    name, api_version = obj.get("kind") or kind.kind, obj.get("apiVersion") or kind.api_version
    if name == kind.kind and api_version in (
        kind.api_version,
        *_OTHER_API_VERSIONS.get(kind.kind, ()),
    ):
        return
    version = str(api_version).rpartition("/")[2]
    if cluster.kinds.of_kind(str(api_version), str(name)) is None:
        why = (
            f'no kind "{name}" is registered for version "{api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    else:
        package = kind.group.partition(".")[0] or "core"
        why = f"converting ({version}.{name}) to ({package}.{kind.kind}): unknown conversion"
    raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def check_object_name(obj: Obj, name: str, namespace: str) -> None:
    """Set the object's name and namespace from the path.

    Raises:
        StatusError: 400, the object has others.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    body_name = metadata.get("name")
    if not body_name:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if body_name != name:
        raise bad_request(
            f"the name of the object ({body_name}) does not match the name on the URL ({name})"
        )
    if namespace:
        there = metadata.get("namespace") or namespace
        if there != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        metadata["namespace"] = namespace
