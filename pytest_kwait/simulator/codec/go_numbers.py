"""Whole numbers as Go reads them: ASCII digits alone, within 64 bits, and its texts for others.

Source: Go's strconv.ParseInt, strconv.ParseUint and strconv.Atoi.
"""

from __future__ import annotations

import re

__all__ = ["atoi", "parse_int", "parse_uint"]

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
