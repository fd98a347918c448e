"""Objects within objects: `x-kubernetes-embedded-resource`.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import FieldError, invalid_value, required
from pytest_kwait.simulator.scheme import Kind
from pytest_kwait.simulator.validation.formats import dns_1035_texts
from pytest_kwait.simulator.validation.objectmeta import metadata_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["coerce_embedded_metadata", "embedded_errors"]

_METADATA_KINDS = {
    within: Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", within)
    for within in (False, True)
}
"""A kind whose names only have to fit into a path, without a namespace and with one."""


_METADATA_FIELDS = frozenset(
    [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
)


def coerce_embedded_metadata(
    value: Any, schema: Obj, unknown: list[str], at: str = ""
) -> FieldError | None:
    """Take what is no metadata out of the metadata of embedded objects.

    Args:
        value: what they are in; it is changed.
        schema: its schema.
        unknown: gets the paths of what is taken out.
        at: where it stands.

    Returns:
        The first embedded kind, version or metadata that is none at all; None if all are.
    """
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            for field in ("apiVersion", "kind"):
                if not isinstance(value.get(field, ""), str):
                    return invalid_value(f"{at}.{field}", value[field], "must be a string")
            metadata = value.get("metadata", {})
            if not isinstance(metadata, dict):
                text = f"json: cannot unmarshal {_go_json(metadata)} into Go value of type v1.ObjectMeta"
                return invalid_value(f"{at}.metadata", metadata, text)
            for field in sorted(metadata.keys() - _METADATA_FIELDS):
                unknown.append(f"{at}.metadata.{field}")
                del metadata[field]
        for key, item in value.items():
            inner = (schema.get("properties") or {}).get(key, schema.get("additionalProperties"))
            if isinstance(inner, dict) and (
                found := coerce_embedded_metadata(
                    item, inner, unknown, f"{at}.{key}" if at else key
                )
            ):
                return found
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if found := coerce_embedded_metadata(item, schema["items"], unknown, f"{at}[{index}]"):
                return found
    return None


def _go_json(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array"


def embedded_errors(value: Any, schema: Obj, at: str) -> list[FieldError]:
    """What keeps embedded objects in `value` from being objects; `at` is where it stands."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
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
        where = f"{at}.{field}"
        if field not in value:
            yield required(where)
            continue
        text = value[field]
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
        for error in metadata_errors(named, _METADATA_KINDS[bool(metadata.get("namespace"))]):
            yield FieldError(error.reason, f"{at}.{error.field}", error.message)
