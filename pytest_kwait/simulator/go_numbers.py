"""Whole numbers as Go reads them: ASCII digits alone, within 64 bits, and its texts for others.

Source: Go's strconv.ParseInt and strconv.ParseUint.
"""

from __future__ import annotations

import re

__all__ = ["parse_int", "parse_uint"]

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DIGITS = 40
"""Longer than any number in range; beyond, the text is not even converted."""


def parse_int(text: str) -> int:
    """The signed number that `text` spells.

    Raises:
        ValueError: it spells none that has 64 bits; the text is Go's.
    """
    return _parsed("ParseInt", text, _INT, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """The number without a sign that `text` spells.

    Raises:
        ValueError: it spells none that has 64 bits; the text is Go's.
    """
    return _parsed("ParseUint", text, _UINT, 0, 2**64 - 1)


def _parsed(reader: str, text: str, form: re.Pattern[str], least: int, most: int) -> int:
    if form.fullmatch(text) is None:
        raise ValueError(f'strconv.{reader}: parsing "{text}": invalid syntax')
    if len(text) > _DIGITS or not least <= (number := int(text)) <= most:
        raise ValueError(f'strconv.{reader}: parsing "{text}": value out of range')
    return number
