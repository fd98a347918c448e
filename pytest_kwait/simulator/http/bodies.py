"""Request bodies as objects.

Source: k8s.io/apimachinery pkg/runtime/serializer, k8s.io/apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.objects import Repeated
from pytest_kwait.simulator.protobuf import MAGIC, decode_envelope
from pytest_kwait.simulator.status_error import (
    StatusError,
    bad_request,
    unsupported_media_type,
)
from pytest_kwait.simulator.yaml_text import read_yaml

if TYPE_CHECKING:
    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["MEDIA_TYPES", "read_body", "read_delete_options", "read_object"]

MEDIA_TYPES = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)
_OPTION_FIELDS = (
    "gracePeriodSeconds",
    "orphanDependents",
    "propagationPolicy",
    "dryRun",
    "preconditions",
)


async def read_body(request: ApiRequest) -> bytes:
    """The whole body."""
    data: bytes = await request.http.read()
    return data


def _media_type(request: ApiRequest) -> str:
    return request.header("Content-Type").partition(";")[0].strip() or "application/json"


async def read_object(request: ApiRequest, kind: Kind, *, any_kind: bool = False) -> Obj:
    """The object in the body.

    Args:
        request: the request.
        kind: what the path says the object is.
        any_kind: whether the body may be something else (a subresource's own kind).

    Raises:
        StatusError: 415 for a media type that is not read, 400 for what is no such object.
    """
    data = await read_body(request)
    media = _media_type(request)
    if media not in MEDIA_TYPES:
        raise unsupported_media_type(", ".join(MEDIA_TYPES))
    obj: Any
    if media == "application/vnd.kubernetes.protobuf" or data.startswith(MAGIC):
        obj = decode_envelope(data)
    elif media == "application/yaml":
        obj, repeated = _yaml(data)
        if repeated and request.query.get("fieldValidation") == "Strict":
            repeated = ["yaml: unmarshal errors:\n  " + "\n  ".join(repeated)]
        request.caller.complaints = repeated
    else:
        obj = _json(data, kind)
        if request.query.get("fieldValidation") != "Ignore":
            obj = _with_repetitions(obj, data)
    if not isinstance(obj, dict):
        name = {list: "array", str: "string", bool: "bool"}.get(type(obj), "number")
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {name} into Go "
            'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind '
            'string "json:\\"kind,omitempty\\"" }'
        )
    if not any_kind:
        _check_kind(obj, kind, data)
    return obj


def _json(data: bytes, kind: Kind) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unrecognized(kind, data, _json_error(data)) from None


def _unrecognized(kind: Kind, data: bytes, why: str) -> StatusError:
    shown = data.decode(errors="replace") or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({shown})"
    )


def _json_error(data: bytes) -> str:
    text = data.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            found = "unexpected end of JSON input"
        else:
            sign = text[error.pos]
            found = f"invalid character '{sign}' {_expectation(error, text)}"
        return "couldn't get version/kind; json parse error: " + found
    return "couldn't get version/kind; json parse error: invalid UTF-8"


def _expectation(error: json.JSONDecodeError, text: str) -> str:
    before = text[: error.pos].rstrip()
    if error.msg.startswith("Expecting property name"):
        return "looking for beginning of object key string"
    if error.msg.startswith("Expecting ':'"):
        return "after object key"
    if error.msg.startswith("Expecting ','"):
        return "after object key:value pair" if before.count("{") else "after array element"
    return "looking for beginning of value"


def _yaml(data: bytes) -> tuple[Any, list[str]]:
    try:
        return read_yaml(data)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _with_repetitions(obj: Any, data: bytes) -> Any:
    """`obj`, which `data` spells, with the fields that `data` gives more than once."""
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(items)
        if len(result) == len(items):
            return result
        repeated = True
        return Repeated(items)

    again = json.loads(data, object_pairs_hook=pairs)
    return again if repeated else obj


def _check_kind(obj: Obj, kind: Kind, data: bytes) -> None:
    version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.custom and not (version and name):
        missing = "apiVersion" if name else "Kind"
        text = data.decode(errors="replace")
        raise _unrecognized(kind, data, f"Object '{missing}' is missing in '{text}'")
    for field, value in (("apiVersion", version), ("kind", name)):
        if value is not None and not isinstance(value, str):
            why = f"couldn't get version/kind; json parse error: {field} is no string"
            raise _unrecognized(kind, data, why)
    given = version or kind.api_version
    if name and name != kind.kind and given == kind.api_version:
        package = kind.group.partition(".")[0] or "core"
        raise bad_request(
            f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: converting '
            f"({kind.version}.{name}) to ({package}.{kind.kind}): unknown conversion"
        )
    if given != kind.api_version:
        raise bad_request(
            f'{name or kind.kind} in version "{given.rpartition("/")[2]}" cannot be handled as a '
            f'{kind.kind}: no kind "{name or kind.kind}" is registered for version "{given}" in '
            'scheme "pkg/runtime/scheme.go:111"'
        )


async def read_delete_options(request: ApiRequest) -> Obj:
    """The options of a deletion, from the body or else from the query.

    Raises:
        StatusError: 400 or 415 for a body that is none.
    """
    data = await read_body(request)
    options: Obj = {}
    if data.strip():
        media = _media_type(request)
        if media not in MEDIA_TYPES:
            raise unsupported_media_type(", ".join(MEDIA_TYPES))
        if data.startswith(MAGIC):
            options = decode_envelope(data)
        elif media == "application/yaml":
            options, _ = _yaml(data)
        else:
            try:
                options = msgspec.json.decode(data)
            except msgspec.DecodeError:
                raise bad_request(_json_error(data)) from None
        if not isinstance(options, dict):
            raise bad_request("the body of a deletion must be DeleteOptions")
    else:
        grace = request.number("gracePeriodSeconds")
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if "orphanDependents" in request.query:
            options["orphanDependents"] = request.flag("orphanDependents")
        if request.query.get("propagationPolicy"):
            options["propagationPolicy"] = request.query["propagationPolicy"]
        preconditions = {
            name: request.query[f"preconditions.{name}"]
            for name in ("uid", "resourceVersion")
            if request.query.get(f"preconditions.{name}")
        }
        if preconditions:
            options["preconditions"] = preconditions
    dry_run = options.get("dryRun")
    if dry_run:
        request.caller.dry_run = "All" in dry_run
    if request.query.get("dryRun") == "All":
        request.caller.dry_run = True
    if not isinstance(options.get("gracePeriodSeconds", 0), int):
        raise StatusError(400, "BadRequest", "gracePeriodSeconds is no number")
    return {name: options[name] for name in _OPTION_FIELDS if options.get(name) is not None}
