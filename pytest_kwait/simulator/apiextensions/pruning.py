"""Pruning and defaulting of objects, and metadata of embedded objects.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go,
pkg/apiserver/schema/defaulting/{algorithm,prunenulls}.go, pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import FieldError, invalid_value, required
from pytest_kwait.apimachinery.validation import dns_1035_texts
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.scheme import Kind
from pytest_kwait.simulator.validation.objectmeta import (
    name_is_path_segment,
    validate_object_meta,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.objects import Obj

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
_INT64_LIMIT = 2**63
_MAX_EXACT_INTEGER = 2**53
METADATA_KEYS = frozenset({"apiVersion", "kind", "metadata"})
"""The fields of an embedded object besides its content."""

_EMBEDDED_KINDS = {
    namespaced: Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced)
    for namespaced in (False, True)
}
"""A kind of embedded objects, without a namespace and with one."""


def prune(value: Any, schema: Obj, path: str = "", unknown: list[str] | None = None) -> Any:
    """Return a copy of `value` without fields that are missing in `schema`.

    Args:
        path: its path, empty or with a final dot.
        unknown: receives the paths of removed fields.
    """
    gone = [] if unknown is None else unknown
    if isinstance(value, dict):
        keeps = bool(schema.get(PRESERVE))
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        clean: Obj = {}
        for key, item in value.items():
            if schema.get(EMBEDDED) and key in METADATA_KEYS:
                clean[key] = clone(item)
            elif key in properties:
                clean[key] = prune(item, properties[key], f"{path}{key}.", gone)
            elif isinstance(more, dict):
                clean[key] = prune(item, more, f"{path}{key}.", gone)
            elif more is not None and not keeps:
                # Preserved fields have no schema for their parts.
                clean[key] = prune(item, {}, f"{path}{key}.", gone)
            elif keeps:
                clean[key] = clone(item)
            else:
                gone.append(f"{path}{key}")
        return clean
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            if schema.get(PRESERVE):
                return clone(value)
            items = {}
        elif schema.get(PRESERVE) and not items.get(PRESERVE):
            items = {**items, PRESERVE: True}
        return [
            prune(item, items, f"{path.rstrip('.')}[{index}].", gone)
            for index, item in enumerate(value)
        ]
    if isinstance(value, int) and not -_INT64_LIMIT <= value < _INT64_LIMIT:
        return float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT_INTEGER:
        return int(value)  # As the server formats it.
    return value


def drop_nulls(value: Any, schema: Obj) -> None:
    """Remove nulls where they are not allowed and no default replaces them."""
    if isinstance(value, dict):
        for key, item in tuple(value.items()):
            inner = _inner_schema(schema, key)
            if item is None and inner is not None and not _allows_null(inner):
                del value[key]
            elif inner is not None:
                drop_nulls(item, inner)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            drop_nulls(item, schema["items"])


def _allows_null(schema: Obj) -> bool:
    return bool(schema.get("nullable")) or schema.get("default") is not None


def _inner_schema(schema: Obj, key: str) -> Obj | None:
    inner_schema = (schema.get("properties") or {}).get(key)
    if inner_schema is None:
        inner_schema = schema.get("additionalProperties")
    return inner_schema if isinstance(inner_schema, dict) else None


def fill_defaults(value: Any, schema: Obj) -> None:
    """Set defaults of missing fields and of nulls that are not allowed."""
    if isinstance(value, dict):
        properties: Obj = schema.get("properties") or {}
        for key, inner in properties.items():
            default = inner.get("default")
            if default is not None and (
                key not in value or (value[key] is None and not inner.get("nullable"))
            ):
                value[key] = clone(default)
        for key in value:
            known = _inner_schema(schema, key)
            if known is not None:
                if value[key] is None and key not in properties and not known.get("nullable"):
                    value[key] = clone(known.get("default"))
                fill_defaults(value[key], known)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = schema["items"]
        for index, item in enumerate(value):
            if item is None and not items.get("nullable"):
                value[index] = clone(items.get("default"))
            fill_defaults(value[index], items)


def coerce_embedded_metadata(
    value: Any, schema: Obj, decode: Callable[[Obj, str], Obj], at: str = ""
) -> FieldError | None:
    """Decode the metadata of embedded objects.

    Args:
        value: the value that contains them; it is changed.
        decode: decodes the metadata at a path; a ValueError is its error.
        at: its path.

    Returns:
        The error of the first invalid kind, apiVersion or metadata.
    """
    if isinstance(value, dict):
        if schema.get(EMBEDDED) and (error := _coerce_embedded_object(value, decode, at)):
            return error
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key, item in value.items():
            where = f"{at}.{key}" if at else key
            inner = properties.get(key)
            if inner is None:
                where, inner = f"{at}[{key}]", more
            if isinstance(inner, dict) and (
                inner_error := coerce_embedded_metadata(item, inner, decode, where)
            ):
                return inner_error
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if inner_error := coerce_embedded_metadata(
                item, schema["items"], decode, f"{at}[{index}]"
            ):
                return inner_error
    return None


def _coerce_embedded_object(
    value: Obj, decode: Callable[[Obj, str], Obj], at: str
) -> FieldError | None:
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field, ""), str):
            return invalid_value(f"{at}.{field}", value[field], "must be a string")
    if "metadata" not in value:
        return None
    where, metadata = f"{at}.metadata", value["metadata"]
    try:
        if metadata is not None and not isinstance(metadata, dict):
            name = _go_json(metadata)
            raise ValueError(f"json: cannot unmarshal {name} into Go value of type v1.ObjectMeta")
        value["metadata"] = decode(metadata or {}, where)
    except ValueError as error:
        return invalid_value(where, metadata, str(error))
    return None


def _go_json(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array"


def embedded_errors(value: Any, schema: Obj, at: str) -> list[FieldError]:
    """Validate the embedded objects in `value`, which is at `at`."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            errors += _object_errors(value, at)
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                errors += embedded_errors(item, properties[key], f"{at}.{key}" if at else key)
            elif isinstance(more, dict):
                errors += embedded_errors(item, more, f"{at}[{key}]")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            errors += embedded_errors(item, schema["items"], f"{at}[{index}]")
    return errors


def _object_errors(value: Obj, at: str) -> Iterator[FieldError]:
    for field in ("apiVersion", "kind"):
        if field not in value:
            yield required(f"{at}.{field}")
    for field in ("apiVersion", "kind"):
        if field not in value:
            continue
        where, text = f"{at}.{field}", value[field]
        if not isinstance(text, str):
            yield invalid_value(where, text, "must be a string")
        elif not text:
            yield invalid_value(where, text, "must not be empty")
        elif field == "apiVersion" and text.count("/") > 1:
            yield invalid_value(where, text, f"unexpected GroupVersion string: {text}")
        elif field == "kind" and (texts := dns_1035_texts(text.lower())):
            why = "may have mixed case, but should otherwise match: " + ",".join(texts)
            yield invalid_value(where, text, why)
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        text = "json: cannot unmarshal value into Go value of type v1.ObjectMeta"
        yield invalid_value(f"{at}.metadata", metadata, text)
    elif metadata:
        named = {"metadata": {**metadata, "name": metadata.get("name") or "fakename"}}
        kind = _EMBEDDED_KINDS[bool(metadata.get("namespace"))]
        for error in validate_object_meta(named, kind, name_is_path_segment):
            yield FieldError(error.reason, f"{at}.{error.field}", error.message)
