"""A configuration held to its type before it is applied, with the server's own texts.

Source: sigs.k8s.io/structured-merge-diff typed/{validate,helpers}.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.codec.schema import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj

__all__ = ["find_type_errors", "format_go_typed", "format_go_value", "go_type"]

_ANY_SCALAR = (Form.QUANTITY, Form.INT_OR_TEXT)
_NUMBERS = (Form.INTEGER, Form.NUMBER)
_GO_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}


def find_type_errors(configuration: Obj, shape: Shape) -> list[str]:
    """Why `configuration` is not of the type `shape`, each with its place; empty if it is."""
    return sorted(f"{path}: {why}" for path, why in _iter_type_errors(configuration, shape, ""))


def _iter_type_errors(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    form = shape.form
    if value is None or form is Form.ANY:
        return
    if form in (Form.STRUCT, Form.MAP):
        if not isinstance(value, dict):
            yield path, f"expected map, got {_format_pointer(value)}"
        elif form is Form.MAP:
            for key, item in value.items():
                yield from _iter_type_errors(item, shape.item, f"{path}.{key}")
        else:
            yield from _struct_errors(value, shape, path)
    elif form is Form.LIST:
        if not isinstance(value, list):
            yield path, f"expected list, got {_format_pointer(value)}"
        else:
            yield from _list_errors(value, shape, path)
    else:
        yield from _scalar_errors(value, form, path)


def _struct_errors(value: Obj, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    fields = shape.struct.fields
    for name, item in value.items():
        if name not in fields:
            yield f"{path}.{name}", "field not declared in schema"
            return  # the server looks no further in this map
        yield from _iter_type_errors(item, fields[name], f"{path}.{name}")


def _list_errors(value: list[Any], shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    kind, keys, seen = shape.list_type, shape.map_keys, set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind == "map":
            if not isinstance(item, dict):
                text = "associative list with keys may not have non-map elements"
                yield path, f"element {index}: {text}"
                return
            fields = shape.item.struct.fields
            found = {
                key: item.get(key, fields[key].default if key in fields else None) for key in keys
            }
            inner = ",".join(f"{key}={json.dumps(found[key])}" for key in sorted(keys))
            place = f"[{inner}]"
        elif kind == "set":
            place = f"[={json.dumps(item)}]"
        if kind != "atomic":
            if place in seen:
                yield path, f"duplicate entries for key {place}"
                return
            seen.add(place)
        yield from _iter_type_errors(item, shape.item, path + place)


def _scalar_errors(value: Any, form: Form, path: str) -> Iterator[tuple[str, str]]:
    if form is Form.BOOL:
        if not isinstance(value, bool):
            yield path, f"expected boolean, got {_format_pointer(value)}"
    elif form in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            given = go_type(value)
            yield path, f"expected numeric (int or float), got {given}"
    elif form in _ANY_SCALAR or form is Form.TIME:
        if isinstance(value, dict | list):
            yield path, f"expected any scalar, got {_format_pointer(value)}"
    elif not isinstance(value, str):
        yield (
            path,
            f"expected string, got &value.valueUnstructured{{Value:{_format_go_literal(value)}}}",
        )


def _format_pointer(value: Any) -> str:
    return f"&{{{format_go_value(value)}}}"


def go_type(value: Any) -> str:
    """What Go calls the type of a decoded value."""
    return _GO_TYPES.get(type(value), "map[string]interface {}")


def format_go_typed(value: Any) -> str:
    """A value with its type, as Go prints what does not fit a verb: `int64=5`."""
    return f"{go_type(value)}={format_go_value(value)}"


def format_go_value(value: Any) -> str:
    """A value as Go prints it: `map[a:1]`, `[a b]`, `true`."""
    if isinstance(value, dict):
        return (
            "map[" + " ".join(f"{key}:{format_go_value(value[key])}" for key in sorted(value)) + "]"
        )
    if isinstance(value, list):
        return "[" + " ".join(format_go_value(one) for one in value) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_go_literal(value: Any) -> str:
    """A value as Go writes it in a program."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(key)}:{_format_go_literal(value[key])}" for key in sorted(value)
        )
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_format_go_literal(one) for one in value)}}}"
    return "interface {}(nil)" if value is None else json.dumps(value)
