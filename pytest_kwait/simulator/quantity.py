"""Resource quantities (`500m`, `1Gi`) as far as validation compares them.

Source: k8s.io/apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["amount", "less", "negative"]

_FORM = re.compile(r"^([+-]?[0-9.]+)([eE][-+]?[0-9]+|[numkKMGTPE]?i?)$")
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix + "i": Fraction(2 ** (10 * power)) for power, suffix in enumerate("KMGTPE", 1)},
}


def amount(quantity: str) -> Fraction:
    """The exact value of a quantity; zero for what is none."""
    found = _FORM.match(quantity)
    if found is None:
        return Fraction(0)
    number, suffix = found.groups()
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1] != "i":
        return Fraction(number) * Fraction(10) ** int(suffix[1:])
    return Fraction(number) * _SUFFIXES.get(suffix, Fraction(0))


def less(left: str, right: str) -> bool:
    """Whether `left` is the smaller one."""
    return amount(left) < amount(right)


def negative(quantity: str) -> bool:
    """Whether the value is below zero."""
    return amount(quantity) < 0
