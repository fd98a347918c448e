"""`test`, `[`, `[[` and `expr`: evaluate an expression; the exit code is its truth."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import TOO_DEEP, WorkMeter, write_error, write_out
from pytest_kwait.simulator.busybox.os.files import Directory, File, Symlink
from pytest_kwait.simulator.busybox.patterns import compile_basic_regex, matches_glob

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext

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


_OPERAND_WORK = 10
"""The work of an operand, in units of a work meter."""


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
        self._meter = WorkMeter()

    def run(self) -> Generator[Effect, None, bool]:
        words = self._words
        if not words:
            return False
        # POSIX decides these cases by the number of arguments.
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 3 and words[1] in _BINARY:
            return (yield from self._binary(*words))
        if len(words) == 4 and words[0] == "!" and words[2] in _BINARY:
            return not (yield from self._binary(*words[1:]))
        result = yield from self._or()
        if self._position < len(words):
            raise _ExpressionError(f"{words[self._position]}: unknown operand")
        return result

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._position + ahead
        return self._words[at] if at < len(self._words) else None

    def _or(self) -> Generator[Effect, None, bool]:
        result = yield from self._and()
        while self._peek() == "-o":
            self._position += 1
            right = yield from self._and()
            result = result or right
        return result

    def _and(self) -> Generator[Effect, None, bool]:
        result = yield from self._not()
        while self._peek() == "-a":
            self._position += 1
            right = yield from self._not()
            result = result and right
        return result

    def _not(self) -> Generator[Effect, None, bool]:
        if self._peek() == "!" and self._peek(1) is not None:
            self._position += 1
            return not (yield from self._not())
        return (yield from self._primary())

    def _primary(self) -> Generator[Effect, None, bool]:
        yield from self._meter.spend(_OPERAND_WORK)
        word = self._peek()
        if word is None:
            raise _ExpressionError("argument expected")
        following = self._peek(1)
        if word == "(" and following is not None:
            self._position += 1
            result = yield from self._or()
            if self._peek() != ")":
                raise _ExpressionError("closing paren expected")
            self._position += 1
            return result
        if following in _BINARY:
            right = self._peek(2)
            if right is None:
                raise _ExpressionError(f"{following}: argument expected")
            self._position += 3
            return (yield from self._binary(word, following or "", right))
        if word in _UNARY and following is not None:
            self._position += 2
            return self._unary(word, following)
        self._position += 1
        return bool(word)

    def _binary(self, left: str, operator: str, right: str) -> Generator[Effect, None, bool]:
        if self._patterns and operator in ("=", "==", "!="):
            is_match = yield from matches_glob(right, left, self._meter)
            return is_match == (operator != "!=")
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
        return int(not (yield from expression.run()))
    except (_ExpressionError, RecursionError) as fault:
        yield write_error(f"sh: {TOO_DEEP if isinstance(fault, RecursionError) else fault}")
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
        value = yield from _Expression(args).run()
    except (_ExpressionError, RecursionError) as fault:
        yield write_error(f"expr: {TOO_DEEP if isinstance(fault, RecursionError) else fault}")
        return 2
    yield write_out(f"{value}\n")
    return int(value in ("", "0"))


class _Expression:
    """An expression of `expr`.

    Args:
        words: its operands and operators.
    """

    def __init__(self, words: list[str]) -> None:
        self._words, self._position = words, 0
        self._meter = WorkMeter()

    def run(self) -> Generator[Effect, None, str]:
        """Return the value.

        Raises:
            _ExpressionError: the expression is invalid.
        """
        value = yield from self._evaluate_level(0)
        if self._position < len(self._words):
            raise _ExpressionError("syntax error")
        return value

    def _take(self) -> str:
        if self._position >= len(self._words):
            raise _ExpressionError("syntax error")
        self._position += 1
        return self._words[self._position - 1]

    def _evaluate_level(self, level: int) -> Generator[Effect, None, str]:
        if level == len(_LEVELS):
            return (yield from self._evaluate_operand())
        left = yield from self._evaluate_level(level + 1)
        words = self._words
        while self._position < len(words) and words[self._position] in _LEVELS[level]:
            operator = self._take()
            right = yield from self._evaluate_level(level + 1)
            work = (len(left) + len(right)) // WorkMeter.CHARACTERS
            yield from self._meter.spend(_OPERAND_WORK + work)
            left = _combine(left, operator, right)
        return left

    def _evaluate_operand(self) -> Generator[Effect, None, str]:
        word = self._take()
        left = len(self._words) - self._position
        if word == "(":
            value = yield from self._evaluate_level(0)
            if self._position >= len(self._words) or self._take() != ")":
                raise _ExpressionError("syntax error")
            return value
        if word == "length" and left:
            return str(len(self._take()))
        if word == "substr" and left > 2:
            text = self._take()
            start, length = (int(number) if number.isdigit() else 0 for number in self._take_two())
            return text[start - 1 : start - 1 + length] if start else ""
        if word == "index" and left > 1:
            text, chars = self._take_two()
            positions = [text.find(char) for char in set(chars) if char in text]
            return str(min(positions, default=-1) + 1)
        return word

    def _take_two(self) -> tuple[str, str]:
        return self._take(), self._take()


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
