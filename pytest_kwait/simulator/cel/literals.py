"""Literals that can never be what the function they are given to makes of them, or do not fit.

Source: github.com/google/cel-go cel/validator.go; k8s.io/apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.checked_trees import read_positions, read_tree
from pytest_kwait.simulator.cel.literal_types import type_faults
from pytest_kwait.simulator.cel.moments import read_duration, read_moment
from pytest_kwait.simulator.go_regexp import pattern_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.cel.checked_trees import Node

__all__ = ["literal_faults", "may_have_literals"]

_WRONG: dict[str, Callable[[str], bool]] = {
    "duration": lambda text: read_duration(text) is None,
    "timestamp": lambda text: read_moment(text) is None,
    "matches": lambda text: bool(pattern_fault(text)),
}
"""By function, which for patterns is a member: whether a literal is wrong for it."""

_CALLED = re.compile(rf"\b(?:{'|'.join(_WRONG)})\s*\(|[\[{{]")


def may_have_literals(text: str) -> bool:
    """Whether an expression may have literals that are looked at: of lists, maps, or arguments."""
    return _CALLED.search(text) is not None


def literal_faults(text: str, checked: bytes) -> str:
    """What is wrong with literals, in the words of the compiler; empty for nothing.

    Args:
        text: the expression.
        checked: what the checker made of it, as a message.
    """
    wrong: dict[int, str] = {}
    tree = read_tree(checked)
    for node, why in type_faults(tree):
        wrong.setdefault(node.number, why)
    for node in _calls(tree.root):
        for literal in node.parts[-1:]:
            value = literal.value
            if literal.kind == "literal" and isinstance(value, str) and _WRONG[node.name](value):
                wrong[literal.number] = f"invalid {node.name} argument"
    if not wrong:
        return ""
    positions = read_positions(checked)
    found = sorted((positions.get(number, 0), why) for number, why in wrong.items())
    return "\n".join(_shown(why, text, offset) for offset, why in found)


def _calls(node: Node) -> Iterator[Node]:
    if node.name in _WRONG and (node.name == "matches") == (node.target is not None):
        yield node
    if node.target is not None:
        yield from _calls(node.target)
    for part in node.parts:
        yield from _calls(part)


def _shown(why: str, text: str, offset: int) -> str:
    line = text.count("\n", 0, offset)
    column = offset - (text.rfind("\n", 0, offset) + 1)
    source = text.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {why}\n | {source}\n | {'.' * column}^"
