"""Lists whose items must differ: `set`, and `map` by its keys.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import FieldError
from pytest_kwait.simulator.apiextensions.findings import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["list_type_errors"]


def list_type_errors(value: Any, schema: Obj, at: str = "") -> Iterator[FieldError]:
    """Items that are there twice, in `value` and in all that is in it."""
    if isinstance(value, dict):
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key, item in value.items():
            if isinstance(more, dict):
                yield from list_type_errors(item, more, f"{at}[{key}]")
            if key in properties:
                yield from list_type_errors(item, properties[key], f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            yield from _duplicate_item_errors(value, at)
        elif kind == "map":
            yield from _duplicate_key_errors(
                value, schema.get("x-kubernetes-list-map-keys") or [], at
            )
        if isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                yield from list_type_errors(item, schema["items"], f"{at}[{index}]")


def _duplicate_item_errors(values: list[Any], at: str) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, item in enumerate(values):
        text = json.dumps(item, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            message = f"Duplicate value: {format_value(item)}"
            yield FieldError("FieldValueDuplicate", f"{at}[{index}]", message)


def _duplicate_key_errors(values: list[Any], keys: list[str], at: str) -> Iterator[FieldError]:
    for index, item in enumerate(values):
        if item is not None and not isinstance(item, dict):
            text = f"Invalid value: {format_value(item)}: must be an object for an array of list-type map"
            yield FieldError("FieldValueInvalid", f"{at}[{index}]", text)
            return
    yield from _duplicate_item_errors(
        [{key: one[key] for key in keys if key in (one or {})} for one in values], at
    )
