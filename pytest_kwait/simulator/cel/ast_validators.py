"""Checks of literals in a CEL expression, beyond type checking.

Literal arguments that a function can never convert, lists and maps of mixed types, and arguments
that do not fit a format string.

Source: github.com/google/cel-go cel/validator.go, func homogeneousAggregateLiteralValidator;
ext/formatting.go, func stringFormatChecker; checker/format.go, func FormatCELType;
k8s.io/apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.ast import decode_checked_expr, decode_positions
from pytest_kwait.simulator.cel.stdlib.strings import FORMATTABLE_TYPES, parse_clauses
from pytest_kwait.simulator.cel.values import parse_duration, parse_timestamp
from pytest_kwait.simulator.codec.go_text import find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.cel.ast import CheckedAst, Expr, Type

__all__ = [
    "find_literal_errors",
    "find_literal_type_errors",
    "format_cel_type",
    "may_have_literals",
]

_STRING_KINDS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null", "string"}
    | {"timestamp", "uint"}
)
_INTEGER_KINDS = frozenset({"dyn", "int", "uint"})
_CLAUSE_KINDS = {
    "s": (_STRING_KINDS, f"string clause can only be used on {FORMATTABLE_TYPES}"),
    "d": (_INTEGER_KINDS, "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "dyn", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "dyn", "string"}), "scientific clause can only be used on doubles"),
    "b": (_INTEGER_KINDS | {"bool"}, "only integers and bools can be formatted as binary"),
    "x": (
        _INTEGER_KINDS | {"bytes", "string"},
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (_INTEGER_KINDS, "octal clause can only be used on integers"),
}
"""By clause: the kinds it accepts, and the message about others."""

_TYPE_DISPLAY_NAMES = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


def find_literal_type_errors(tree: CheckedAst) -> Iterator[tuple[Expr, str]]:
    """Yield type errors of literals, each with its node.

    Args:
        tree: the checked expression.
    """
    yield from _find_errors(tree.root, tree, formatted=False)


def _find_errors(node: Expr, tree: CheckedAst, *, formatted: bool) -> Iterator[tuple[Expr, str]]:
    called = node.kind == "call" and node.name == "format"
    if called and node.target is not None:
        yield from _find_format_errors(node, node.target, tree)
    if not formatted and node.kind == "list":
        yield from _find_mixed_types(tree, node.parts, node.optional)
    if not formatted and node.kind == "map":
        yield from _find_mixed_types(tree, node.parts[::2], every=True)
        yield from _find_mixed_types(tree, node.parts[1::2], node.optional, every=True)
    for part in (*(() if node.target is None else (node.target,)), *node.parts):
        yield from _find_errors(part, tree, formatted=formatted or called)


def _find_mixed_types(
    tree: CheckedAst,
    parts: list[Expr],
    optional: frozenset[int] = frozenset(),
    *,
    every: bool = False,
) -> Iterator[tuple[Expr, str]]:
    """Return the nodes that differ in type from the first; for a list, only the first such node."""
    first: Type | None = None
    for place, part in enumerate(parts):
        kind = tree.types.get(part.number)
        if kind is not None and place in optional and kind.of:
            kind = kind.of[0]
        if kind is None:
            return
        if _is_dynamic(kind) and not _is_untyped(part):
            continue
        if first is None:
            first = kind
        elif kind != first:
            yield (
                part,
                f"expected type '{format_cel_type(first)}' but found '{format_cel_type(kind)}'",
            )
            if not every:
                return


def _is_dynamic(kind: Type) -> bool:
    """Return whether a type is, or contains, `dyn`."""
    return kind.kind == "dyn" or any(map(_is_dynamic, kind.of))


def _is_untyped(part: Expr) -> bool:
    """Return whether kube-apiserver has no type for the node either.

    The checker here has no maps of lists and no lists of lists, and so no types for their items.
    """
    if part.kind == "ident":
        return part.name in ("object", "oldObject", "params")
    if part.kind == "select" or part.name == "_[_]":
        return _is_untyped(part.parts[0])
    return part.kind == "call" and part.name == "dyn"


def format_cel_type(kind: Type) -> str:
    """Return a type as error messages show it."""
    own = kind.name or kind.kind
    return f"{own}({', '.join(map(format_cel_type, kind.of))})" if kind.of else own


def _find_format_errors(node: Expr, text: Expr, tree: CheckedAst) -> Iterator[tuple[Expr, str]]:
    if text.kind != "literal" or not isinstance(text.value, str):
        return
    if len(node.parts) != 1 or node.parts[0].kind != "list":
        return
    items, count = node.parts[0].parts, 0
    for clause in parse_clauses(text.value):
        if clause is None:
            yield node, "unexpected end of string"
            return
        if count >= len(items):
            yield node, f"index {count} out of range"
            return
        wanted = _CLAUSE_KINDS.get(clause.lower() if clause == "X" else clause)
        if wanted is None:
            why = f'unrecognized formatting clause "{clause}"'
            yield node, f"could not parse formatting clause: {why}"
            return
        wrong = _find_unformattable(items[count], wanted[0], tree, within=clause == "s")
        if wrong is not None:
            given = _get_format_kind(tree.types.get(wrong.number))
            yield wrong, f"error during formatting: {wanted[1]}, was given {given}"
            return
        count += 1
    if count < len(items):
        given = f"(expected {count}, got {len(items)})"
        yield node, f"too many arguments supplied to string.format {given}"


def _find_unformattable(
    node: Expr, kinds: frozenset[str], tree: CheckedAst, *, within: bool
) -> Expr | None:
    """Return the first node of an argument, or of its items, that has none of these kinds."""
    kind = tree.types.get(node.number)
    if kind is not None and kind.kind not in kinds:
        return node
    for part in node.parts if within and node.kind in ("list", "map") else ():
        if (wrong := _find_unformattable(part, kinds, tree, within=True)) is not None:
            return wrong
    return None


def _get_format_kind(kind: Type | None) -> str:
    if kind is None:
        return "dyn"
    return kind.name or _TYPE_DISPLAY_NAMES.get(kind.kind, kind.kind)


_IS_INVALID_ARGUMENT: dict[str, Callable[[str], bool]] = {
    "duration": lambda text: parse_duration(text) is None,
    "timestamp": lambda text: parse_timestamp(text) is None,
    "matches": lambda text: bool(find_pattern_error(text)),
}
"""By function: whether a literal argument is invalid."""

_MAYBE_LITERAL = re.compile(rf"\b(?:{'|'.join(_IS_INVALID_ARGUMENT)})\s*\(|[\[{{]")


def may_have_literals(text: str) -> bool:
    """Return whether an expression may have literals that need validation."""
    return _MAYBE_LITERAL.search(text) is not None


def find_literal_errors(text: str, checked: bytes) -> str:
    """Return the compiler's errors about literals; empty if there are none.

    Args:
        text: the expression.
        checked: the serialized checked expression.
    """
    wrong: dict[int, str] = {}
    tree = decode_checked_expr(checked)
    for node, why in find_literal_type_errors(tree):
        wrong.setdefault(node.number, why)
    for node in _iterate_calls(tree.root):
        for literal in node.parts[-1:]:
            value = literal.value
            if (
                literal.kind == "literal"
                and isinstance(value, str)
                and _IS_INVALID_ARGUMENT[node.name](value)
            ):
                wrong[literal.number] = f"invalid {node.name} argument"
    if not wrong:
        return ""
    positions = decode_positions(checked)
    found = sorted((positions.get(number, 0), why) for number, why in wrong.items())
    return "\n".join(_format_error(why, text, offset) for offset, why in found)


def _iterate_calls(node: Expr) -> Iterator[Expr]:
    if node.name in _IS_INVALID_ARGUMENT and (node.name == "matches") == (node.target is not None):
        yield node
    if node.target is not None:
        yield from _iterate_calls(node.target)
    for part in node.parts:
        yield from _iterate_calls(part)


def _format_error(why: str, text: str, offset: int) -> str:
    line = text.count("\n", 0, offset)
    column = offset - (text.rfind("\n", 0, offset) + 1)
    source = text.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {why}\n | {source}\n | {'.' * column}^"
