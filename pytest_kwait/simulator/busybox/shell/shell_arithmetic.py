"""`$((…))`: whole numbers of 64 bits with the operators of C, as busybox has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ShellArithmeticError", "evaluate_arithmetic"]

_ARITHMETIC_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+#[0-9a-zA-Z@_]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))",
    re.ASCII,
)
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_MAX_NESTING = 40
_SYNTAX_ERROR = "arithmetic syntax error"


class ShellArithmeticError(Exception):
    """The expression has no value; `str` is busybox's text."""


def _wrap_int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _divide(left: int, right: int) -> int:
    if not right:
        raise ShellArithmeticError("divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _power(left: int, right: int) -> int:
    if right < 0:
        raise ShellArithmeticError("exponent less than 0")
    return pow(left, right, 1 << 64)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "&": lambda left, right: left & right,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    ">": lambda left, right: int(left > right),
    ">=": lambda left, right: int(left >= right),
    "<<": lambda left, right: left << (right & 63),
    ">>": lambda left, right: left >> (right & 63),
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "**": _power,
}


class _Expression:
    """One expression, read and evaluated from left to right.

    A variable is given as its name: what `_value` makes a number of, and what can be assigned to.
    """

    def __init__(
        self, text: str, get: Callable[[str], str], put: Callable[[str, str], None], depth: int
    ) -> None:
        self._get, self._put, self._depth = get, put, depth
        self._tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _ARITHMETIC_TOKEN.match(text, position)
            if match is None:
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()
        self._position = 0
        self._nesting = 0

    def run(self) -> int:
        if not self._tokens:
            return 0
        value = self._value(self._comma(live=True))
        if self._position < len(self._tokens):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        return value

    def _peek(self) -> str:
        if self._position < len(self._tokens):
            kind, text = self._tokens[self._position]
            return text if kind == "operator" else "x"
        return ""

    def _value(self, found: int | str) -> int:
        if isinstance(found, int):
            return found
        text = self._get(found)
        if not text:
            return 0
        if self._depth >= _MAX_NESTING:
            raise ShellArithmeticError("expression recursion loop detected")
        return _Expression(text, self._get, self._put, self._depth + 1).run()

    def _comma(self, *, live: bool) -> int | str:
        value = self._ternary(live=live)
        while self._peek() == ",":
            self._position += 1
            value = self._ternary(live=live)
        return value

    def _ternary(self, *, live: bool) -> int | str:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise ShellArithmeticError(_SYNTAX_ERROR)
        left = self._binary(1, live=live)
        operator = self._peek()
        if operator in _ASSIGNMENTS:
            if not isinstance(left, str):
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            right = self._value(self._ternary(live=live)) if live else self._skipped()
            if operator != "=" and live:
                right = _wrap_int64(_OPERATIONS[operator[:-1]](self._value(left), right))
            if live:
                self._put(left, str(right))
            left = right
        elif operator == "?":
            self._position += 1
            holds = live and self._value(left) != 0
            first = self._comma(live=holds)
            if self._peek() != ":":
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            second = self._ternary(live=live and not holds)
            left = first if holds else second
        self._nesting -= 1
        return left

    def _skipped(self) -> int:
        self._ternary(live=False)
        return 0

    def _binary(self, least: int, *, live: bool) -> int | str:
        left = self._unary(live=live)
        while (level := _LEVELS.get(operator := self._peek(), 0)) >= least:
            self._position += 1
            if operator in ("&&", "||"):
                decided = live and (self._value(left) != 0) == (operator == "||")
                right = self._binary(level + 1, live=live and not decided)
                left = int(operator == "||") if decided else int(live and self._value(right) != 0)
                continue
            right = self._binary(level + (operator != "**"), live=live)
            left = (
                _wrap_int64(_OPERATIONS[operator](self._value(left), self._value(right)))
                if live
                else 0
            )
        return left

    def _unary(self, *, live: bool) -> int | str:
        if self._position >= len(self._tokens):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind == "number":
            return _parse_number(text)
        if kind == "name":
            if self._peek() in ("++", "--"):
                step = 1 if self._peek() == "++" else -1
                self._position += 1
                value = self._value(text) if live else 0
                if live:
                    self._put(text, str(_wrap_int64(value + step)))
                return value
            return text
        if text == "(":
            value_or_name = self._comma(live=live)
            if self._peek() != ")":
                raise ShellArithmeticError(_SYNTAX_ERROR)
            self._position += 1
            return self._value(value_or_name) if live else 0
        if text not in ("+", "-", "!", "~", "++", "--"):
            raise ShellArithmeticError(_SYNTAX_ERROR)
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise ShellArithmeticError(_SYNTAX_ERROR)
        operand = self._unary(live=live)
        self._nesting -= 1
        if not live:
            return 0
        value = self._value(operand)
        if text in ("++", "--"):
            if not isinstance(operand, str):
                return value
            value = _wrap_int64(value + (1 if text == "++" else -1))
            self._put(operand, str(value))
            return value
        return {"+": value, "-": _wrap_int64(-value), "!": int(not value), "~": ~value}[text]


def _parse_number(text: str) -> int:
    try:
        if "#" in text:
            radix, _, digits = text.partition("#")
            return _wrap_int64(int(digits, int(radix)))
        if text[:2] in ("0x", "0X"):
            return _wrap_int64(int(text, 16))
        return _wrap_int64(int(text, 8) if text[0] == "0" else int(text[:40]))
    except ValueError:
        raise ShellArithmeticError(_SYNTAX_ERROR) from None


def evaluate_arithmetic(
    text: str, get: Callable[[str], str], put: Callable[[str, str], None]
) -> int:
    """Return the value of an expression.

    Args:
        text: the expression, its `$` expanded.
        get: a variable's value; empty where it is unset.
        put: assigns to a variable.

    Raises:
        ArithmeticFault: it has none.
    """
    return _Expression(text, get, put, 0).run()
