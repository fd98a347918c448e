"""Write requests: patch types, bodies and options, and validation of the fields of written objects.

Source: kubectl, `--validate`; apiserver, `fieldValidation` of create, update and patch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.transport import Transport
    from pytest_kwait.clock import Deadline


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
# JSON is YAML: the server accepts it under this type, the only one of server-side apply.
APPLY_PATCH = "application/apply-patch+yaml"

Propagation = Literal["Background", "Foreground", "Orphan"]
"""The effect of an owner's deletion on its dependents."""
FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""The server's reaction to unknown and repeated fields of a written object."""

_BY_NAME: dict[object, FieldValidation] = {
    "strict": "Strict",
    "warn": "Warn",
    "ignore": "Ignore",
    True: "Strict",
    False: "Ignore",
}

_TYPED_PATCH = "failed to create typed patch object "
_UNKNOWN = re.compile(r'unknown field "((?:[^"\\]|\\.)+)"')
_UNDECLARED = re.compile(r"(?:^|\): |^ +)\.(\S.*): field not declared in schema$", re.M)
_STEP = re.compile(r'\.?([^.\[]+)|\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\]')

_MAX_NAMES = 12
"""Names of known fields in a message."""


def encode_json(body: object) -> bytes:
    """Return a body as JSON.

    Raises:
        InvalidArgument: a value that JSON cannot represent.
    """
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("body", body, f"values that JSON has ({error})") from error


def write_options(
    field_manager: str, dry_run: bool, field_validation: FieldValidation | None = None
) -> dict[str, Any]:
    """Return the query parameters of a write request; None leaves validation to the server."""
    return {
        "fieldManager": field_manager,
        "dryRun": "All" if dry_run else None,
        "fieldValidation": field_validation,
    }


def delete_options(
    *,
    uid: str | None,
    resource_version: str | None,
    grace_period_seconds: int | None,
    propagation_policy: Propagation | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Return the body of a deletion; None leaves an option to the server."""
    preconditions = _drop_none(uid=uid, resourceVersion=resource_version)
    return _drop_none(
        kind="DeleteOptions",
        apiVersion="v1",
        preconditions=preconditions or None,
        gracePeriodSeconds=grace_period_seconds,
        propagationPolicy=propagation_policy,
        dryRun=["All"] if dry_run else None,
    )


def get_object_name(obj: Mapping[str, Any]) -> str:
    """Return the name of an object.

    Raises:
        InvalidArgument: the object has no name.
    """
    name = _metadata(obj).get("name")
    if not isinstance(name, str) or not name:
        raise InvalidArgument("metadata.name", name, "the name of the object to write")
    return name


def get_object_path(
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of an object, in the given namespace or its own.

    Raises:
        InvalidArgument: the namespace of a namespaced object is missing.
    """
    where = namespace if namespace is not None else _metadata(obj).get("namespace")
    if resource.namespaced and not where:
        raise InvalidArgument("namespace", where, f"{resource.kind} lives in a namespace, name it")
    return resource.path(where, name, subresource)


def _drop_none(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, Any] = {}


class _OpenAPI(msgspec.Struct):
    components: _Components = _Components()


_decoder = msgspec.json.Decoder(_OpenAPI)


def parse_field_validation(value: object) -> FieldValidation:
    """Return the server's value of an argument `validate`.

    Raises:
        InvalidArgument: another value.
    """
    validation = _BY_NAME.get(value) if isinstance(value, str | bool) else None
    if validation is None:
        raise InvalidArgument("validate", value, "use 'strict', 'warn' or 'ignore'")
    return validation


def is_typed_patch_error(error: ApiError) -> bool:
    """Return whether a 500 means that an applied object does not fit its schema.

    Source: apiserver, managedfields/internal/structuredmerge.go, Apply.
    """
    return error.status == 500 and error.message.startswith(_TYPED_PATCH)


def describe_unknown_fields(
    transport: Transport, resource: Resource, error: ApiError, deadline: Deadline
) -> str:
    """Return the unknown fields in a refusal, with the nearest known ones; empty if it has none.

    Args:
        transport: the transport of the request for the kind's schema.
        resource: the kind of the refused object.
        error: the refusal.
        deadline: the deadline of the answer; without one, known fields are left out.
    """
    if is_typed_patch_error(error):
        unknown = _UNDECLARED.findall(error.message)
    elif error.status == 400 and "strict decoding error" in error.message:
        unknown = [path.replace('\\"', '"') for path in _UNKNOWN.findall(error.message)]
    else:
        return ""
    if not unknown:
        return ""
    schemas = _read_schemas(transport, resource, deadline)
    near: list[str] = []
    known = ""
    for path in unknown:
        start, name, names = _find_siblings(schemas, resource, path)
        similar = difflib.get_close_matches(name, names, 1)
        near += [start + name for name in similar]
        if names and not similar and not known:
            names_text = ", ".join(names[:_MAX_NAMES]) + (
                ", ..." if len(names) > _MAX_NAMES else ""
            )
            known = f"fields {f'of {start[:-1]} ' if start else ''}are {names_text}"
    noun = "field" if len(unknown) == 1 else "fields"
    text = f"unknown {noun} " + ", ".join(f'"{path}"' for path in unknown)
    if near:
        return f"{text}; did you mean {', '.join(near)}?"
    return f"{text}; {known}" if known else text


def _read_schemas(transport: Transport, resource: Resource, deadline: Deadline) -> dict[str, Any]:
    """Return the schemas of the kind's group and version; empty if they cannot be read."""
    group = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
    try:
        answer = transport.send("GET", f"/openapi/v3/{group}", deadline=deadline)
        document = _decoder.decode(answer.data)
    except (ApiError, DeadlineExceeded, msgspec.DecodeError):
        return {}
    return document.components.schemas


def _find_siblings(
    schemas: dict[str, Any], resource: Resource, path: str
) -> tuple[str, str, list[str]]:
    """Return the start of a path, its last name, and the names of the known fields beside it."""
    group_version_kind = {
        "group": resource.group,
        "version": resource.version,
        "kind": resource.kind,
    }
    schema: dict[str, Any] = next(
        (
            definition
            for definition in schemas.values()
            if group_version_kind in definition.get("x-kubernetes-group-version-kind", ())
        ),
        {},
    )
    steps = list(_STEP.finditer(path))
    for step in steps[:-1]:
        properties, other_schema = _read_members(schemas, schema)
        schema = properties.get(step[1], other_schema) if step[1] else other_schema
    properties, _ = _read_members(schemas, schema)
    start = path[: steps[-1].start()] + "." if len(steps) > 1 else ""
    return start, steps[-1][1] or "", sorted(properties)


def _read_members(
    schemas: dict[str, Any], schema: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of an object's fields, and that of its other values or items."""
    properties: dict[str, Any] = {}
    other_schema: dict[str, Any] = {}
    for part in _resolve_schemas(schemas, schema):
        properties |= part.get("properties") or {}
        for part_schema in (part.get("items"), part.get("additionalProperties")):
            other_schema = part_schema if isinstance(part_schema, dict) else other_schema
    return properties, other_schema


def _resolve_schemas(schemas: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    parts = [*schema.get("allOf", ()), schema]
    for reference in (part.get("$ref") for part in parts):
        if isinstance(reference, str):
            yield schemas.get(reference.rpartition("/")[2], {})
