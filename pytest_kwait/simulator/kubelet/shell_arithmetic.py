"""`$((…))`: whole numbers and variables."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["evaluate"]

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: int(left / right),
    ast.Mod: lambda left, right: left - right * int(left / right),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def evaluate(expression: str, env: dict[str, str]) -> int:
    """Return the value of an expression; unset variables are 0.

    Raises:
        SyntaxError: it is none.
        ValueError: it uses more than `+ - * / %` and comparisons.
        ZeroDivisionError: it divides by zero.
    """

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(int() as number):
                return int(number)
            case ast.Name(name):
                return int(env.get(name) or 0)
            case ast.BinOp(left, joint, right) if type(joint) in _OPERATIONS:
                return _OPERATIONS[type(joint)](value(left), value(right))
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
                return int(_COMPARISONS[type(comparison)](value(left), value(right)))
        raise ValueError(expression)

    return value(ast.parse(expression.replace("$", "").strip(), mode="eval").body)
