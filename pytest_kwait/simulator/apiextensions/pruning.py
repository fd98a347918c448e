"""Objects without what their schema does not know.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go,
pkg/apiserver/schema/defaulting/{algorithm,prunenulls}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["drop_nulls", "fill_defaults", "prune"]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT64_LIMIT = 2**63
_MAX_EXACT_INTEGER = 2**53
_METADATA_KEYS = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Any, schema: Obj, path: str = "", unknown: list[str] | None = None) -> Any:
    """A copy of `value` without fields that `schema` does not have.

    Args:
        value: anything.
        schema: what it is to be.
        path: where it stands, empty or with a dot at its end.
        unknown: gets the paths of what is left out.
    """
    gone = [] if unknown is None else unknown
    if isinstance(value, dict):
        keeps = bool(schema.get(_PRESERVE))
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        clean: Obj = {}
        for key, item in value.items():
            if schema.get("x-kubernetes-embedded-resource") and key in _METADATA_KEYS:
                clean[key] = clone(item)
            elif key in properties:
                clean[key] = prune(item, properties[key], f"{path}{key}.", gone)
            elif isinstance(more, dict):
                clean[key] = prune(item, more, f"{path}{key}.", gone)
            elif more is not None and not keeps:
                # Anything may stand here, and nothing is known of what is in it.
                clean[key] = prune(item, {}, f"{path}{key}.", gone)
            elif keeps:
                clean[key] = clone(item)
            else:
                gone.append(f"{path}{key}")
        return clean
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            if schema.get(_PRESERVE):
                return clone(value)
            items = {}
        elif schema.get(_PRESERVE) and not items.get(_PRESERVE):
            items = {**items, _PRESERVE: True}
        return [
            prune(item, items, f"{path.rstrip('.')}[{index}].", gone)
            for index, item in enumerate(value)
        ]
    if isinstance(value, int) and not -_INT64_LIMIT <= value < _INT64_LIMIT:
        return float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT_INTEGER:
        return int(value)  # as the server writes it
    return value


def drop_nulls(value: Any, schema: Obj) -> None:
    """Take out nulls where there may be none and no default takes their place."""
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
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def fill_defaults(value: Any, schema: Obj) -> None:
    """Set what is not given and has a default; a null that may not be one counts as not given."""
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
