"""Sets of field paths: of an object, of a change, as `fieldsV1`; type errors of a value.

A path is a tuple of elements as `fieldsV1` spells them: `f:name` for a field or a key, `k:{...}`
for an item of a list with keys, `v:...` for a member of a set. A configuration is checked against
its type before it is applied, with the server's own messages.
Source: sigs.k8s.io/structured-merge-diff fieldpath, typed/{tofieldset,compare,validate,helpers}.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.codec.schema import Form, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "Changes",
    "Path",
    "Paths",
    "compare_fields",
    "decode_set",
    "encode_set",
    "field_set_of",
    "find_type_errors",
    "format_go_typed",
    "format_go_value",
    "format_path",
    "go_type",
    "is_granular",
    "iter_children",
]

Path = tuple[str, ...]
Paths = set[Path]


class Changes(NamedTuple):
    """The difference of two objects."""

    added: Paths
    modified: Paths
    removed: Paths


def _item_element(item: Any, shape: Shape) -> str:
    if shape.list_type == "set" or not isinstance(item, dict):
        return "v:" + json.dumps(item, separators=(",", ":"))
    fields = shape.item.struct.fields if shape.item.form is Form.STRUCT else {}
    keys = {}
    for key in shape.map_keys:
        value = item.get(key)
        if value is None and key in fields:
            value = fields[key].default
        if value is not None:
            keys[key] = value
    return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True)


def iter_children(value: Any, shape: Shape | None) -> Iterator[tuple[str, Any, Shape | None]]:
    """Yield the separately owned parts of `value`: path element, part, type."""
    if isinstance(value, dict) and is_granular(value, shape):
        for key, part in value.items():
            inner: Shape | None = None
            if shape is not None and shape.form is Form.STRUCT:
                inner = shape.struct.fields.get(key)
            elif shape is not None and shape.form is Form.MAP:
                inner = shape.item
            yield f"f:{key}", part, inner
    elif isinstance(value, list) and shape is not None and is_granular(value, shape):
        for part in value:
            yield _item_element(part, shape), part, shape.item


def is_granular(value: Any, shape: Shape | None) -> bool:
    """Return whether the parts of the value are owned separately."""
    if shape is None or shape.form is Form.ANY:
        return isinstance(value, dict)
    if isinstance(value, list):
        return shape.form is Form.LIST and shape.list_type in ("map", "set")
    return isinstance(value, dict) and not shape.atomic


def field_set_of(value: Any, shape: Shape | None, path: Path = ()) -> Paths:
    """Return the fields that an apply of `value` owns."""
    found: Paths = set()
    _collect(value, shape, path, found, containers=False)
    return found


def _collect(
    value: Any, shape: Shape | None, path: Path, found: Paths, *, containers: bool
) -> None:
    """Collect the fields of `value`, with `containers` their parents, too."""
    if not is_granular(value, shape):
        found.add(path)
        return
    if containers or (isinstance(value, dict) and not value and path):
        found.add(path)
    for element, part, inner in iter_children(value, shape):
        if element[0] == "k":
            found.add((*path, element))
        _collect(part, inner, (*path, element), found, containers=containers)


def compare_fields(old: Any, new: Any, shape: Shape | None) -> Changes:
    """Compare two objects: added, removed and modified fields."""
    changes = Changes(set(), set(), set())
    _compare(old, new, shape, (), changes)
    return changes


def _compare(old: Any, new: Any, shape: Shape | None, path: Path, changes: Changes) -> None:
    if old == new:
        return
    if not is_granular(new, shape) or not is_granular(old, shape) or type(old) is not type(new):
        changes.modified.add(path)
        return
    before = {element: (part, inner) for element, part, inner in iter_children(old, shape)}
    after = {element: (part, inner) for element, part, inner in iter_children(new, shape)}
    for element, (part, inner) in after.items():
        if element in before:
            _compare(before[element][0], part, inner, (*path, element), changes)
        else:
            _collect(part, inner, (*path, element), changes.added, containers=True)
    for element, (part, inner) in before.items():
        if element not in after:
            _collect(part, inner, (*path, element), changes.removed, containers=True)


def encode_set(paths: Iterable[Path]) -> Obj:
    """Encode a set as `fieldsV1`."""
    root: Obj = {}
    members = set(paths)
    for path in sorted(members):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in members:
        node = root
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _sort_set(root)


def _sort_set(node: Obj) -> Obj:
    return {key: _sort_set(node[key]) for key in sorted(node)}


def decode_set(node: Obj, path: Path = ()) -> Paths:
    """Decode `fieldsV1`."""
    found: Paths = set()
    if path and (not node or "." in node):
        found.add(path)
    for element, inner in node.items():
        if element != ".":
            found |= decode_set(inner or {}, (*path, element))
    return found


def format_path(path: Path) -> str:
    """Format a path for messages: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = json.loads(rest)
            text += (
                "["
                + ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(keys.items()))
                + "]"
            )
        else:
            text += f"[={rest}]"
    return text


_ANY_SCALAR = (Form.QUANTITY, Form.INT_OR_TEXT)
_NUMBERS = (Form.INTEGER, Form.NUMBER)
_GO_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}


def find_type_errors(configuration: Obj, shape: Shape) -> list[str]:
    """Return the type errors of `configuration` with their paths."""
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
    """Return Go's name of the type of a decoded value."""
    return _GO_TYPES.get(type(value), "map[string]interface {}")


def format_go_typed(value: Any) -> str:
    """Format a value with its type as Go's `%!s`: `int64=5`."""
    return f"{go_type(value)}={format_go_value(value)}"


def format_go_value(value: Any) -> str:
    """Format a value as Go's `%v`: `map[a:1]`, `[a b]`, `true`."""
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
    """Format a value as Go's `%#v`."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(key)}:{_format_go_literal(value[key])}" for key in sorted(value)
        )
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_format_go_literal(one) for one in value)}}}"
    return "interface {}(nil)" if value is None else json.dumps(value)
