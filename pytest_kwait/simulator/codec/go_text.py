"""Go's reading of numbers, quantities and regular expressions, with its error messages.

Numbers are ASCII digits within 64 bits. Quantities are written back canonically: `1.5` becomes
`1500m`, `1500Mi` stays. Patterns are matched by the RE2 that the CEL library brings, loaded with
the first pattern: no pattern can keep the server busy. Where it is not installed, Python's `re` is
used, and an automaton for what could take long.
Source: Go's strconv.ParseInt, strconv.ParseUint, strconv.Atoi and regexp/syntax/parse.go;
k8s.io/apimachinery pkg/api/resource/quantity.go (ParseQuantity), suffix.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_kwait.simulator.linear_regex import Regex, RegexLimitError

if TYPE_CHECKING:
    from cel_expr_python.cel import Expression

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_PATTERN_PIECE = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?:|\(\?|.", re.DOTALL
)
_DIGITS = 20
"""No number in range has more, zeros before it aside; more are not even converted."""
_RE2_PREFIX = "INVALID_ARGUMENT: invalid regular expression: "
_GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
}
"""Go's text of an invalid pattern, by RE2's."""


def parse_int(text: str) -> int:
    """Parse a signed 64-bit number.

    Raises:
        ValueError: with Go's message, the number is invalid or out of range.
    """
    return _parse_number("ParseInt", text, _INT, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """Parse an unsigned 64-bit number.

    Raises:
        ValueError: with Go's message, the number is invalid or out of range.
    """
    return _parse_number("ParseUint", text, _UINT, 0, 2**64 - 1)


def atoi(text: str) -> int:
    """As `parse_int`, with `Atoi` in the message.

    Raises:
        ValueError: with Go's message, the number is invalid or out of range.
    """
    return _parse_number("Atoi", text, _INT, -(2**63), 2**63 - 1)


def _parse_number(reader: str, text: str, form: re.Pattern[str], least: int, most: int) -> int:
    if form.fullmatch(text) is None:
        raise ValueError(f'strconv.{reader}: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits[: _DIGITS + 1] or 0) * (-1 if text.startswith("-") else 1)
    if not least <= number <= most:
        raise ValueError(f'strconv.{reader}: parsing "{text}": value out of range')
    return number


@lru_cache(maxsize=1)
def _compile() -> Expression:
    from cel_expr_python import cel

    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(variables=variables).compile("text.matches(pattern)")


@lru_cache(maxsize=1)
def _has_re2() -> bool:
    return find_spec("cel_expr_python") is not None


@lru_cache(maxsize=512)
def find_pattern_error(pattern: str) -> str:
    """Return Go's error for an invalid pattern; empty for a valid one."""
    if not _has_re2():
        return _find_python_error(pattern)
    result = _compile().eval(data={"text": "", "pattern": pattern}).value()
    if isinstance(result, bool):
        return ""
    fault, _, part = str(result).removeprefix(_RE2_PREFIX).partition(": ")
    text = f"error parsing regexp: {_GO_MESSAGES.get(fault, fault)}"
    # Go names the whole pattern where a bracket too many or too few is met.
    part = pattern if fault in ("missing )", "unexpected )") else part
    return f"{text}: `{part}`" if part else f"{text}: ``"


def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether `pattern` matches in `text`; an invalid pattern does not."""
    if not _has_re2():
        try:
            return not find_pattern_error(pattern) and _compile_python(pattern).is_in(text)
        except RegexLimitError:
            return False
    return _compile().eval(data={"text": text, "pattern": pattern}).value() is True


def _find_python_error(pattern: str) -> str:
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        return f"error parsing regexp: {error.msg}: `{pattern}`"
    try:
        _compile_python(pattern)
    except ValueError:
        return f"error parsing regexp: not supported without the extra `cel`: `{pattern}`"
    return ""


@lru_cache(maxsize=512)
def _compile_python(pattern: str) -> Regex:
    """Return the matcher of a pattern; lazy quantifiers are greedy ones, which match alike.

    Raises:
        ValueError: it has flags, or what Go's patterns have not.
    """
    pieces: list[str] = []
    for match in _PATTERN_PIECE.finditer(pattern):
        piece = match[0]
        if piece.startswith("(?"):
            if not (piece == "(?:" or piece.startswith("(?P<")):
                raise ValueError(piece)
            pieces.append("(")
        elif len(piece) == 2 and piece[1] in "123456789":
            raise ValueError(piece)
        else:
            pieces.append(piece)
    return Regex(pieces, flags=re.ASCII)
