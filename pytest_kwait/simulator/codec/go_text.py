"""Quantities as the server writes them back: `1.5` becomes `1500m`, `1500Mi` stays.

Source: k8s.io/apimachinery pkg/api/resource/quantity.go, ParseQuantity; suffix.go.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from pytest_kwait.apimachinery.quantities import MAX_LENGTH, Quantity, parse_quantity

__all__ = ["canonicalize_quantity", "round_quantity"]

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
