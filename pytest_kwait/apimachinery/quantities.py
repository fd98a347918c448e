"""Kubernetes quantities (`100m`, `1.5Gi`, `2e3`) with exact arithmetic."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING, Literal

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

_Notation = Literal["BinarySI", "DecimalExponent", "DecimalSI"]

_VALID = (
    "a quantity is a decimal number and one of the suffixes n, u, m, k, M, G, T, P, E, "
    "Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
)
_PARTS = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MAX_LENGTH = 2000
"""Maximum length of a text, and maximum exponent, which bound the computation."""

_NANO = Fraction(1, 10**9)
_SERVER_PARTS = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<rest>\d*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?\d*)",
    re.ASCII,
)
_EXPONENT = re.compile(r"[eE][+-]?\d+", re.ASCII)
# They are escaped in JSON, so that upstream does not strip them as it does blanks.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f]")
_MAX_QUANTITY_DIGITS = 18
"""Digits that upstream parses without arbitrary precision."""
_SUFFIX_ERROR = "unable to parse quantity's suffix"
_FORMAT_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number of cores, bytes, pods and so on, with its notation.

    Equality compares numbers, not notations.

    Args:
        amount: the exact number, in the resource's unit (cores, bytes).
        notation: the family of suffixes that `str` uses.
    """

    amount: Fraction
    notation: _Notation = "DecimalSI"

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, in the notation of the first nonzero operand (as upstream's `Add`)."""
        return Quantity(
            self.amount + other.amount, self.notation if self.amount else other.notation
        )

    def __sub__(self, other: Quantity) -> Quantity:
        """Return the difference, in the notation of the first nonzero operand."""
        return Quantity(
            self.amount - other.amount, self.notation if self.amount else other.notation
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount == other.amount

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount

    def __hash__(self) -> int:
        return hash(self.amount)

    def __str__(self) -> str:
        """Return the canonical form: no fraction, the largest suffix that needs none.

        Source: apimachinery, api/resource/quantity.go, `CanonicalizeBytes`.
        """
        if not self.amount:
            return "0"
        notation = self.notation
        if notation == "BinarySI" and (abs(self.amount) < 1024 or self.amount.denominator != 1):
            notation = "DecimalSI"
        if notation == "BinarySI":
            return _scaled(self.amount, [(suffix, 2**power) for suffix, power in _BINARY.items()])
        if notation == "DecimalExponent":
            return _format_exponent(self.amount)
        return _scaled(self.amount, [(suffix, 10**power) for suffix, power in _DECIMAL.items()])


def _scaled(amount: Fraction, steps: list[tuple[str, int | float]]) -> str:
    best_suffix, best = "", amount
    for suffix, factor in steps:
        exact = Fraction(factor) if isinstance(factor, int) else Fraction(str(factor))
        scaled = amount / exact
        if scaled.denominator == 1:
            best_suffix, best = suffix, scaled
    return f"{best}{best_suffix}"


def _format_exponent(amount: Fraction) -> str:
    """Return a number, in billionths, with the largest exponent that is a multiple of three."""
    billionths = math.ceil(abs(amount) / _NANO)
    number, power = billionths if amount > 0 else -billionths, -9
    while number % 1000 == 0:
        number, power = number // 1000, power + 3
    return f"{number}e{power}" if power else f"{number}"


@lru_cache(maxsize=4096, typed=True)
def parse_quantity(text: str | float) -> Quantity:
    """Parse a quantity; JSON numbers are accepted too.

    Fractions finer than a billionth are rounded away from zero, as upstream.

    Raises:
        InvalidArgument: `text` is not a quantity.

    Source: apimachinery, api/resource/quantity.go, `ParseQuantity`.
    """
    match = _PARTS.fullmatch(str(text))
    if match is None or len(str(text)) > MAX_LENGTH:
        raise InvalidArgument("quantity", text, _VALID)
    sign, number, suffix = match["sign"], match["number"], match["suffix"] or ""
    amount = Fraction(number.rstrip(".") if number.endswith(".") else number)
    notation: _Notation = "DecimalSI"
    if suffix in _BINARY:
        amount, notation = amount * 2 ** _BINARY[suffix], "BinarySI"
    elif suffix in _DECIMAL:
        amount *= Fraction(10) ** _DECIMAL[suffix]
    else:
        exponent = int(suffix[1:])
        if abs(exponent) > MAX_LENGTH:
            raise InvalidArgument("quantity", text, _VALID)
        amount, notation = amount * Fraction(10) ** exponent, "DecimalExponent"
    billionths = amount / _NANO
    if billionths.denominator != 1:
        amount = -(-billionths.numerator // billionths.denominator) * _NANO
    return Quantity(-amount if sign == "-" else amount, notation)


@lru_cache(maxsize=4096, typed=True)
def parse_value(text: str | float) -> int:
    """Return the quantity in whole units, fractions rounded up."""
    amount = parse_quantity(text).amount
    return -(-amount.numerator // amount.denominator)


@lru_cache(maxsize=4096, typed=True)
def parse_milli_value(text: str | float) -> int:
    """Return the quantity in thousandths of its unit, fractions rounded up."""
    amount = parse_quantity(text).amount * 1000
    return -(-amount.numerator // amount.denominator)


def sum_quantities(quantities: Iterable[Quantity]) -> Quantity:
    """Return the exact sum; zero for none."""
    total = Quantity(Fraction(0))
    for quantity in quantities:
        total = total + quantity
    return total


def resolve_int_or_percent(value: object, total: int, *, up: bool) -> int:
    """Return an int unchanged, a percentage as its share of `total`, otherwise 0.

    Args:
        value: an int, or a string such as `25%`.
        total: the base of a percentage.
        up: whether a share is rounded up; down otherwise.

    Source: apimachinery, pkg/util/intstr/intstr.go, `GetScaledValueFromIntOrPercent`.
    """
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        hundredths = int(value[:-1]) * total
        return -(-hundredths // 100) if up else hundredths // 100
    return value if isinstance(value, int) else 0


@lru_cache(maxsize=4096)
def canonicalize_quantity(text: str) -> str:
    """Return a quantity as the API server stores it.

    Raises:
        ValueError: `text` is not a quantity; with the server's message.
    """
    has_control = _CONTROL_CHARACTER.search(text) is not None
    text = text.strip()
    match = _SERVER_PARTS.fullmatch(text) if text and not has_control else None
    if match is None:
        raise ValueError(_FORMAT_ERROR)
    whole, rest, suffix = match["whole"] or "0", match["rest"] or "", match["suffix"]
    binary = suffix in _BINARY
    if not binary and suffix not in _DECIMAL and not _EXPONENT.fullmatch(suffix):
        raise ValueError(_SUFFIX_ERROR)
    exponent = "" if suffix in _DECIMAL or binary else suffix[1:]
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
    """Return a resource's quantity as the API server stores it, rounded up to thousandths.

    Raises:
        ValueError: `text` is not a quantity; with the server's message.

    Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_ResourceList.
    """
    canonical = canonicalize_quantity(text)
    if canonical[-1] not in "nu" and "e-" not in canonical.lower():
        return canonical
    parsed = parse_quantity(canonical)
    thousandths = math.ceil(abs(parsed.amount) * 1000)
    amount = Fraction(thousandths if parsed.amount > 0 else -thousandths, 1000)
    return str(Quantity(amount, parsed.notation))


def _keep_as_written(whole: str, rest: str, suffix: str, *, binary: bool) -> bool:
    """Return whether upstream keeps the text without parsing it."""
    digits = whole + rest
    if binary:
        room = 15 - len(whole) - (list(_BINARY).index(suffix) + 1) * 3 - 1
        return not rest and room >= 0 and int(whole) % 8 != 0
    power = int(suffix[1:]) if suffix not in _DECIMAL else _DECIMAL[suffix]
    scale = power - len(rest)
    if len(digits) > _MAX_QUANTITY_DIGITS or scale < -9:
        return False
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
