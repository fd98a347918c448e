"""The checked AST of a CEL expression, decoded from the library's `CheckedExpr` message.

Only what costs, plans and literal checks depend on is decoded.

Source: github.com/google/cel-spec proto/cel/expr/{checked,syntax}.proto.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTH_DELIMITED, _BITS_64, _BITS_32 = 2, 1, 5
_SCALARS = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "any", 2: "timestamp", 3: "duration"}


@dataclass(frozen=True, slots=True)
class Type:
    """A CEL type: its kind, its name if any, and its type parameters."""

    kind: str
    name: str = ""
    of: tuple[Type, ...] = ()


@dataclass(slots=True)
class Expr:
    """One node of an expression.

    Args:
        number: the node's identifier.
        kind: `literal`, `ident`, `select`, `call`, `list`, `map`, `struct` or `loop`.
        name: the variable, field or function.
        parts: the child nodes: the operand; the arguments; the items; keys and values; a loop's
            range, initial value, condition, step and result.
        target: the receiver of a member function.
        value: a literal's value; None for null.
        test: whether a selection only tests for presence.
        names: a loop's variables: the accumulator, and one or two iteration variables.
        optional: the items of a list, or entries of a map, that are left out if they have no value.
    """

    number: int
    kind: str = ""
    name: str = ""
    parts: list[Expr] = field(default_factory=list)
    target: Expr | None = None
    value: object = None
    test: bool = False
    names: tuple[str, ...] = ()
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CheckedAst:
    """A type-checked expression.

    Args:
        root: the root node.
        types: the types of nodes, by number.
        overloads: the resolved overloads of calls, by number.
    """

    root: Expr
    types: dict[int, Type]
    overloads: dict[int, list[str]]


def decode_parsed_expr(data: bytes) -> Expr:
    """Return the tree of a serialized `ParsedExpr` in an `Any`."""
    return _decode_expr(_get_message(_get_message(data, 2), 2))


def decode_checked_expr(data: bytes) -> CheckedAst:
    """Return the tree of a serialized `CheckedExpr` in an `Any`."""
    message = _get_message(data, 2)
    types: dict[int, Type] = {}
    overloads: dict[int, list[str]] = {}
    root = Expr(0)
    for number, content in _decode_fields(message):
        if not isinstance(content, bytes):
            continue
        if number == 2:
            reference = _get_message(content, 2)
            overloads[_get_number(content, 1)] = [
                overload_id.decode()
                for at, overload_id in _decode_fields(reference)
                if at == 3 and isinstance(overload_id, bytes)
            ]
        elif number == 3:
            types[_get_number(content, 1)] = _decode_type(_get_message(content, 2))
        elif number == 4:
            root = _decode_expr(content)
    return CheckedAst(root, types, overloads)


def decode_positions(data: bytes) -> dict[int, int]:
    """Return the text offsets of the nodes of a serialized `CheckedExpr`, by number."""
    source = _get_message(_get_message(data, 2), 5)
    return {
        _get_number(entry, 1): _get_number(entry, 2)
        for at, entry in _decode_fields(source)
        if at == 4 and isinstance(entry, bytes)
    }


def _decode_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message in order; fixed-size and varint fields stay numbers."""
    at = 0
    while at < len(data):
        key, at = _decode_varint(data, at)
        number, form = key >> 3, key & 7
        if form == _LENGTH_DELIMITED:
            length, at = _decode_varint(data, at)
            yield number, data[at : at + length]
            at += length
        elif form == _BITS_64:
            yield number, int.from_bytes(data[at : at + 8], "little")
            at += 8
        elif form == _BITS_32:
            yield number, int.from_bytes(data[at : at + 4], "little")
            at += 4
        else:
            value, at = _decode_varint(data, at)
            yield number, value


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _get_message(data: bytes, field_number: int) -> bytes:
    for number, content in _decode_fields(data):
        if number == field_number and isinstance(content, bytes):
            return content
    return b""


def _get_number(data: bytes, field_number: int) -> int:
    for number, content in _decode_fields(data):
        if number == field_number and isinstance(content, int):
            return content
    return 0


def _decode_type(data: bytes) -> Type:
    for number, content in _decode_fields(data):
        if isinstance(content, int):
            if number in (3, 4):
                return Type(_SCALARS.get(content, "dyn"))
            if number == 5:
                return Type(_WELL_KNOWN.get(content, "dyn"))
            return Type("null" if number == 2 else "dyn")
        if number == 6:
            return Type("list", "", (_decode_type(_get_message(content, 1)),))
        if number == 7:
            return Type(
                "map",
                "",
                (_decode_type(_get_message(content, 1)), _decode_type(_get_message(content, 2))),
            )
        if number == 9:
            return Type("struct", content.decode())
        if number == 14:
            parameters = tuple(
                _decode_type(parameter)
                for at, parameter in _decode_fields(content)
                if at == 2 and isinstance(parameter, bytes)
            )
            return Type("opaque", _get_message(content, 1).decode(), parameters)
        if number == 10:
            return Type("parameter", content.decode())
        return Type("dyn")
    return Type("dyn")


def _decode_expr(data: bytes) -> Expr:
    node = Expr(_get_number(data, 2))
    for number, content in _decode_fields(data):
        if not isinstance(content, bytes):
            continue
        match number:
            case 3:
                node.kind, node.value = "literal", _decode_constant(content)
            case 4:
                node.kind, node.name = "ident", _get_message(content, 1).decode()
            case 5:
                node.kind, node.name = "select", _get_message(content, 2).decode()
                node.parts, node.test = (
                    [_decode_expr(_get_message(content, 1))],
                    bool(_get_number(content, 3)),
                )
            case 6:
                _decode_call(node, content)
            case 7:
                node.kind = "list"
                node.parts = [
                    _decode_expr(element)
                    for at, element in _decode_fields(content)
                    if at == 1 and isinstance(element, bytes)
                ]
                node.optional = _decode_indices(content)
            case 8:
                _decode_struct(node, content)
            case 9:
                node.kind = "loop"
                node.parts = [_decode_expr(_get_message(content, at)) for at in (2, 4, 5, 6, 7)]
                names = [_get_message(content, at).decode() for at in (3, 1, 8)]
                node.names = tuple(name for name in names if name)
    return node


def _decode_indices(data: bytes) -> frozenset[int]:
    packed = _get_message(data, 2)
    indices = {
        content for at, content in _decode_fields(data) if at == 2 and isinstance(content, int)
    }
    at = 0
    while at < len(packed):
        index, at = _decode_varint(packed, at)
        indices.add(index)
    return frozenset(indices)


def _decode_constant(data: bytes) -> object:
    for number, content in _decode_fields(data):
        if number == 6 and isinstance(content, bytes):
            return content.decode()
        if number == 3 and isinstance(content, int):
            return content - (1 << 64) if content >= 1 << 63 else content
        if number == 2:
            return bool(content)
        if number == 4 and isinstance(content, int):
            return Uint(content)
        if number == 5 and isinstance(content, int):
            return struct.unpack("<d", content.to_bytes(8, "little"))[0]
        return None if number == 1 else content
    return None


def _decode_call(node: Expr, data: bytes) -> None:
    node.kind = "call"
    for number, content in _decode_fields(data):
        if not isinstance(content, bytes):
            continue
        if number == 1:
            node.target = _decode_expr(content)
        elif number == 2:
            node.name = content.decode()
        elif number == 3:
            node.parts.append(_decode_expr(content))


def _decode_struct(node: Expr, data: bytes) -> None:
    node.name = _get_message(data, 1).decode()
    node.kind = "struct" if node.name else "map"
    for number, entry in _decode_fields(data):
        if number == 2 and isinstance(entry, bytes):
            entry_fields = (4,) if node.name else (3, 4)
            node.parts += [_decode_expr(_get_message(entry, at)) for at in entry_fields]
            if _get_number(entry, 5):
                node.optional |= {len(node.parts) // len(entry_fields) - 1}
