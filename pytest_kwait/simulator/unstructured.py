"""Why a patched object does not fit its type, in the words that strategic merge patches get.

Source: k8s.io/apimachinery pkg/runtime/converter.go, fromUnstructured: it reads the fields in the
order of the Go type, and knows other texts than the decoder of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.codec.go_types import go_fields
from pytest_kwait.simulator.codec.schema import Form

if TYPE_CHECKING:
    from pytest_kwait.simulator.codec.schema import Shape

__all__ = ["from_unstructured_error"]

_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string", list: "slice", dict: "map"}
_PLAIN = {Form.TEXT: "string", Form.BOOL: "bool", Form.NUMBER: "float64"}


def from_unstructured_error(value: Any, shape: Shape) -> str:
    """Why `value` cannot be made one of the type `shape`; empty if it can, or by a reader's words.

    Types that read themselves (quantities, times, `5` or `"5%"`) are left to the decoder.
    """
    if value is None or shape.form is Form.ANY:
        return ""
    given = _KINDS[type(value)]
    if shape.form is Form.STRUCT:
        return _struct_error(value, shape, given)
    if shape.form is Form.MAP:
        if given != "map":
            return f"cannot restore map from {given}"
        return _first_text(from_unstructured_error(one, shape.item) for one in value.values())
    if shape.form is Form.LIST:
        if given != "slice":
            return f"cannot restore slice from {given}"
        return _first_text(from_unstructured_error(one, shape.item) for one in value)
    if shape.form is Form.INTEGER or shape.form in _PLAIN:
        return _scalar_error(value, shape, given)
    return ""


def _first_text(texts: Any) -> str:
    return next((text for text in texts if text), "")


def _struct_error(value: Any, shape: Shape, given: str) -> str:
    if given != "map":
        return f"cannot restore struct from: {given}"
    fields = shape.struct.fields
    order = go_fields(shape.struct.name) or fields
    return _first_text(
        from_unstructured_error(value[name], fields[name])
        for name in order
        if name in value and name in fields
    )


def _scalar_error(value: Any, shape: Shape, given: str) -> str:
    wanted = _PLAIN.get(shape.form, str(shape.node.get("format", "int64")))
    numeric = wanted not in ("string", "bool")
    if given == wanted or (numeric and given == "int64"):
        return ""
    if given == "float64" and numeric:
        whole = value == int(value)
        return "" if whole else f"cannot convert float64 to {shape.go}"
    if given == "int64" and wanted == "string":
        # Go could make a letter of a number, and so this has a text of its own.
        return f"cannot convert int64 to {shape.go}"
    return f"unrecognized type: {wanted}"
