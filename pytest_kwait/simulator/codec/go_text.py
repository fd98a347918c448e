"""Go's reading of numbers, quantities and regular expressions, with its error messages.

Numbers are ASCII digits within 64 bits. Quantities are written back canonically: `1.5` becomes
`1500m`, `1500Mi` stays. Patterns are matched by the RE2 that the CEL library brings, loaded with
the first pattern: no pattern can keep the server busy. Where it is not installed Python's own
patterns stand in.
Source: Go's strconv.ParseInt, strconv.ParseUint, strconv.Atoi and regexp/syntax/parse.go;
k8s.io/apimachinery pkg/api/resource/quantity.go (ParseQuantity), suffix.go.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import MAX_LENGTH, Quantity, parse_quantity

if TYPE_CHECKING:
    from cel_expr_python.cel import Expression

__all__ = [
    "atoi",
    "canonicalize_quantity",
    "find_pattern_error",
    "matches_pattern",
    "parse_int",
    "parse_uint",
    "round_quantity",
]

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DIGITS = 20
"""No number in range has more, zeros before it aside; more are not even converted."""


def parse_int(text: str) -> int:
    """The signed number that `text` spells.

    Raises:
        ValueError: it spells none that has 64 bits; the text is Go's.
    """
    return _parse_number("ParseInt", text, _INT, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """The number without a sign that `text` spells.

    Raises:
        ValueError: it spells none that has 64 bits; the text is Go's.
    """
    return _parse_number("ParseUint", text, _UINT, 0, 2**64 - 1)


def atoi(text: str) -> int:
    """The same as `parse_int`, in another function's name.

    Raises:
        ValueError: it spells none that has 64 bits; the text is Go's.
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


_QUANTITY_PARTS = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<rest>\d*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?\d*)"
)
_EXPONENT = re.compile(r"[eE][+-]?\d+")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_QUANTITY_DIGITS = 18
"""How many digits the server reads without arithmetic of any size."""
_SUFFIX_ERROR = "unable to parse quantity's suffix"
_FORMAT_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@lru_cache(maxsize=4096)
def canonicalize_quantity(text: str) -> str:
    """The quantity that `text` writes, in the server's form.

    Raises:
        ValueError: it writes none; the text is the server's.
    """
    text = text.strip()
    match = _QUANTITY_PARTS.fullmatch(text) if text else None
    if match is None:
        raise ValueError(_FORMAT_ERROR)
    whole, rest, suffix = match["whole"] or "0", match["rest"] or "", match["suffix"]
    binary = suffix in _BINARY
    if not binary and suffix not in _POWERS and not _EXPONENT.fullmatch(suffix):
        raise ValueError(_SUFFIX_ERROR)
    exponent = "" if suffix in _POWERS or binary else suffix[1:]
    if len(exponent) > _MAX_QUANTITY_DIGITS or abs(int(exponent or 0)) > MAX_LENGTH:
        raise ValueError(_SUFFIX_ERROR)
    if len(text) > MAX_LENGTH:
        raise ValueError("unable to parse numeric part of quantity")
    if _keep_as_written(whole, rest, suffix, binary=binary):
        return text
    number = f"{match['sign']}{whole}.{rest or '0'}{suffix}"
    parsed = parse_quantity(number)
    if binary and 0 < parsed.amount < 1:
        parsed = Quantity(parsed.amount)
    if binary and parsed.amount > 2**63 - 1:
        parsed = Quantity(Fraction(2**63 - 1), "BinarySI")
    return str(parsed)


@lru_cache(maxsize=4096)
def round_quantity(text: str) -> str:
    """A resource's quantity in the server's form: to the thousandth, away from zero.

    Raises:
        ValueError: it is none; the text is the server's.

    Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_ResourceList.
    """
    canonical = canonicalize_quantity(text)
    if canonical[-1] not in "nu":
        return canonical
    amount = parse_quantity(canonical).amount
    thousandths = math.ceil(abs(amount) * 1000)
    return str(Quantity(Fraction(thousandths if amount > 0 else -thousandths, 1000)))


def _keep_as_written(whole: str, rest: str, suffix: str, *, binary: bool) -> bool:
    """Whether the text is canonical as far as the server looks."""
    digits = whole + rest
    if binary:
        room = 15 - len(whole) - (_BINARY.index(suffix) + 1) * 3 - 1
        return not rest and room >= 0 and int(whole) % 8 != 0
    power = int(suffix[1:]) if suffix not in _POWERS else _POWERS[suffix]
    scale = power - len(rest)
    if len(digits) > _MAX_QUANTITY_DIGITS or scale < -9:
        return False
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


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
"""What RE2 says, and what Go says to the same."""


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
    """Why `pattern` is none, as Go says it; empty if it is one."""
    if not _has_re2():
        return _find_python_error(pattern)
    said = _compile().eval(data={"text": "", "pattern": pattern}).value()
    if isinstance(said, bool):
        return ""
    fault, _, part = str(said).removeprefix(_RE2_PREFIX).partition(": ")
    text = f"error parsing regexp: {_GO_MESSAGES.get(fault, fault)}"
    # Go names the whole pattern where a bracket too many or too few is met.
    part = pattern if fault in ("missing )", "unexpected )") else part
    return f"{text}: `{part}`" if part else f"{text}: ``"


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`; one that is none is found nowhere."""
    if not _has_re2():
        return not find_pattern_error(pattern) and re.search(pattern, text, re.ASCII) is not None
    return _compile().eval(data={"text": text, "pattern": pattern}).value() is True


def _find_python_error(pattern: str) -> str:
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        return f"error parsing regexp: {error.msg}: `{pattern}`"
    return ""
