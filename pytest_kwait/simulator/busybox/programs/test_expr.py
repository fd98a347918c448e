"""`test`, `[`, `[[` and `expr`: evaluate an expression; the exit code is its truth."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import write_error, write_out
from pytest_kwait.simulator.busybox.os.files import Directory, File, Symlink
from pytest_kwait.simulator.busybox.patterns import compile_basic_regex, matches_glob

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.syscalls import Process, ProcessContext

_UNARY = frozenset("-b -c -d -e -f -g -h -k -L -n -O -G -p -r -s -S -t -u -w -x -z".split())  # noqa: SIM905
_NUMERIC = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}  # fmt: skip
_TEXTUAL = {
    "=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, ">": lambda a, b: a > b,
}  # fmt: skip
_BINARY = frozenset({*_NUMERIC, *_TEXTUAL, "-nt", "-ot", "-ef"})
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"|"}), frozenset({"&"}), frozenset({"<", "<=", "=", "==", "!=", ">=", ">"}),
    frozenset({"+", "-"}), frozenset({"*", "/", "%"}), frozenset({":"}),
)  # fmt: skip


class _ExpressionError(Exception):
    """An error in an expression."""


class _Test:
    """An expression of `test`, parsed by recursive descent as in busybox.

    Args:
        words: the expression.
        patterns: whether the right side of `=` is a pattern.
    """

    def __init__(
        self, context: ProcessContext, words: list[str], *, patterns: bool = False
    ) -> None:
        self._context, self._words, self._position = context, words, 0
        self._patterns = patterns

    def run(self) -> bool:
        words = self._words
        if not words:
            return False
        # POSIX decides these cases by the number of arguments.
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 3 and words[1] in _BINARY:
            return self._binary(*words)
        if len(words) == 4 and words[0] == "!" and words[2] in _BINARY:
            return not self._binary(*words[1:])
        result = self._or()
        if self._position < len(words):
            raise _ExpressionError(f"{words[self._position]}: unknown operand")
        return result

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._position + ahead
        return self._words[at] if at < len(self._words) else None

    def _or(self) -> bool:
        result = self._and()
        while self._peek() == "-o":
            self._position += 1
            right = self._and()
            result = result or right
        return result

    def _and(self) -> bool:
        result = self._not()
        while self._peek() == "-a":
            self._position += 1
            right = self._not()
            result = result and right
        return result

    def _not(self) -> bool:
        if self._peek() == "!" and self._peek(1) is not None:
            self._position += 1
            return not self._not()
        return self._primary()

    def _primary(self) -> bool:
        word = self._peek()
        if word is None:
            raise _ExpressionError("argument expected")
        following = self._peek(1)
        if word == "(" and following is not None:
            self._position += 1
            result = self._or()
            if self._peek() != ")":
                raise _ExpressionError("closing paren expected")
            self._position += 1
            return result
        if following in _BINARY:
            right = self._peek(2)
            if right is None:
                raise _ExpressionError(f"{following}: argument expected")
            self._position += 3
            return self._binary(word, following or "", right)
        if word in _UNARY and following is not None:
            self._position += 2
            return self._unary(word, following)
        self._position += 1
        return bool(word)

    def _binary(self, left: str, operator: str, right: str) -> bool:
        if self._patterns and operator in ("=", "==", "!="):
            return matches_glob(right, left) == (operator != "!=")
        textual = _TEXTUAL.get(operator)
        if textual is not None:
            return bool(textual(left, right))
        numeric = _NUMERIC.get(operator)
        if numeric is not None:
            return bool(numeric(_parse_integer(left), _parse_integer(right)))
        files = self._context.files
        left_file, right_file = (
            files.find(self._context.resolve_path(name)) for name in (left, right)
        )
        if operator == "-ef":
            return left_file is not None and left_file is right_file
        before, after = (left_file, right_file) if operator == "-ot" else (right_file, left_file)
        if before is None or after is None:
            return after is not None and operator == "-nt"
        return before.mtime < after.mtime

    def _unary(self, operator: str, text: str) -> bool:
        if operator == "-n":
            return bool(text)
        if operator == "-z":
            return not text
        if operator == "-t":
            return self._context.tty and text in ("0", "1", "2")
        files = self._context.files
        node = (
            files.find(self._context.resolve_path(text), follow=operator not in ("-h", "-L"))
            if text
            else None
        )
        match operator:
            case "-f":
                return isinstance(node, File)
            case "-d":
                return isinstance(node, Directory)
            case "-h" | "-L":
                return isinstance(node, Symlink)
            case "-s":
                return isinstance(node, Directory) or (isinstance(node, File) and bool(node.data))
            case "-x":
                return node is not None and bool(node.mode & 0o111)
            case "-b" | "-p" | "-S" | "-u" | "-g" | "-k":
                return False
            case "-c":
                return node is not None and not isinstance(node, (File, Directory, Symlink))
        return node is not None


def _parse_integer(text: str) -> int:
    if not re.fullmatch(r"\s*[-+]?\d+\s*", text, re.ASCII):
        raise _ExpressionError(f"{text}: bad number")
    digits = text.strip()
    # Longer numbers are out of range anyway.
    number = int(digits) if len(digits.lstrip("+-0")) < 20 else math.inf
    if not -(1 << 63) <= number < 1 << 63:
        raise _ExpressionError(f"{text}: out of range")
    return int(number)


def test(context: ProcessContext, args: list[str]) -> Process:
    """Exit with 0 if the expression is true."""
    return (yield from _run_test(_Test(context, args)))


def _run_test(expression: _Test) -> Process:
    try:
        return int(not expression.run())
    except (_ExpressionError, RecursionError) as fault:
        yield write_error(f"sh: {fault}")
        return 2


def bracket(context: ProcessContext, args: list[str]) -> Process:
    """`[ … ]`."""
    if args[-1:] != ["]"]:
        yield write_error("sh: missing ]")
        return 2
    return (yield from test(context, args[:-1]))


# -- expr


def expr(_: ProcessContext, args: list[str]) -> Process:
    """Print the value of an expression; exit with 1 if it is empty or 0."""
    try:
        value, rest = _evaluate_level(args, 0)
        if rest:
            raise _ExpressionError("syntax error")
    except (_ExpressionError, RecursionError) as fault:
        yield write_error(f"expr: {fault}")
        return 2
    yield write_out(f"{value}\n")
    return int(value in ("", "0"))


def _evaluate_level(words: list[str], level: int) -> tuple[str, list[str]]:
    if level == len(_LEVELS):
        return _take_operand(words)
    left, rest = _evaluate_level(words, level + 1)
    while rest and rest[0] in _LEVELS[level]:
        operator = rest[0]
        right, rest = _evaluate_level(rest[1:], level + 1)
        left = _combine(left, operator, right)
    return left, rest


def _take_operand(words: list[str]) -> tuple[str, list[str]]:
    if not words:
        raise _ExpressionError("syntax error")
    if words[0] == "(":
        value, rest = _evaluate_level(words[1:], 0)
        if rest[:1] != [")"]:
            raise _ExpressionError("syntax error")
        return value, rest[1:]
    if words[0] == "length" and len(words) > 1:
        return str(len(words[1])), words[2:]
    if words[0] == "substr" and len(words) > 3:
        start, length = (int(word) if word.isdigit() else 0 for word in words[2:4])
        return (words[1][start - 1 : start - 1 + length] if start else ""), words[4:]
    if words[0] == "index" and len(words) > 2:
        positions = [words[1].find(char) for char in words[2] if char in words[1]]
        return str(min(positions, default=-1) + 1), words[3:]
    return words[0], words[1:]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text, re.ASCII) is not None


def _combine(left: str, operator: str, right: str) -> str:
    if operator == "|":
        return left if left not in ("", "0") else right
    if operator == "&":
        return left if left not in ("", "0") and right not in ("", "0") else "0"
    if operator == ":":
        expression = compile_basic_regex(right)
        match = expression.match(left)
        if match is None:
            return "" if "\\(" in right else "0"
        return (match[1] or "") if expression.groups else str(match.end())
    numbers = _is_number(left) and _is_number(right)
    if operator in _LEVELS[2]:
        order = (
            (int(left) > int(right)) - (int(left) < int(right))
            if numbers
            else (left > right) - (left < right)
        )
        holds = {
            "<": order < 0, "<=": order <= 0, "=": order == 0, "==": order == 0, "!=": order != 0,
            ">=": order >= 0, ">": order > 0,
        }  # fmt: skip
        return str(int(holds[operator]))
    if not numbers:
        raise _ExpressionError("non-numeric argument")
    left_number, right_number = int(left), int(right)
    if operator in "/%":
        if not right_number:
            raise _ExpressionError("division by zero")
        quotient = (
            abs(left_number)
            // abs(right_number)
            * (1 if (left_number < 0) == (right_number < 0) else -1)
        )
        return str(quotient if operator == "/" else left_number - right_number * quotient)
    return str(
        {
            "+": left_number + right_number,
            "-": left_number - right_number,
            "*": left_number * right_number,
        }[operator]
    )


def double_bracket(context: ProcessContext, args: list[str]) -> Process:
    """`[[ … ]]`, whose `=` takes a pattern."""
    if args[-1:] != ["]]"]:
        yield write_error("sh: missing ]]")
        return 2
    return (yield from _run_test(_Test(context, args[:-1], patterns=True)))
