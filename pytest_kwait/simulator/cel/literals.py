"""Literals that can never be what the function they are given to makes of them, or do not fit.

Source: github.com/google/cel-go cel/validator.go; k8s.io/apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.ast import decode_checked_expr, decode_positions
from pytest_kwait.simulator.cel.ast_validators import find_literal_type_errors
from pytest_kwait.simulator.cel.moments import parse_duration, parse_timestamp
from pytest_kwait.simulator.codec.go_regexp import find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.cel.ast import Expr

__all__ = ["find_literal_errors", "may_have_literals"]

_IS_INVALID_ARGUMENT: dict[str, Callable[[str], bool]] = {
    "duration": lambda text: parse_duration(text) is None,
    "timestamp": lambda text: parse_timestamp(text) is None,
    "matches": lambda text: bool(find_pattern_error(text)),
}
"""By function, which for patterns is a member: whether a literal is wrong for it."""

_MAYBE_LITERAL = re.compile(rf"\b(?:{'|'.join(_IS_INVALID_ARGUMENT)})\s*\(|[\[{{]")


def may_have_literals(text: str) -> bool:
    """Whether an expression may have literals that are looked at: of lists, maps, or arguments."""
    return _MAYBE_LITERAL.search(text) is not None


def find_literal_errors(text: str, checked: bytes) -> str:
    """What is wrong with literals, in the words of the compiler; empty for nothing.

    Args:
        text: the expression.
        checked: what the checker made of it, as a message.
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
