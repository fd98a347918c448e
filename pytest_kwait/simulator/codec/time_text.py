"""Times as the server reads and writes them, and what it says of those that are none.

Source: Go's time.Parse; k8s.io/apimachinery pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

__all__ = ["canonicalize_time"]

_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICROS_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME_STEPS = tuple(
    (element, re.compile(form))
    for element, form in (
        ("2006", r"\d{4}"),
        ("-", "-"),
        ("01", r"\d\d"),
        ("-", "-"),
        ("02", r"\d\d"),
        ("T", "T"),
        ("15", r"\d\d"),
        (":", ":"),
        ("04", r"\d\d"),
        (":", ":"),
        ("05", r"\d\d"),
    )
)
_FRACTION = re.compile(r"[.,]\d+")
_SIX = re.compile(r"\.\d{6}")
_TIME_ZONE = re.compile(r"Z|[+-]\d\d:\d\d")
_MONTHS_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@lru_cache(maxsize=4096)
def canonicalize_time(text: str, *, micro: bool = False) -> str:
    """The moment that `text` names, in UTC, to the second or with `micro` to the microsecond.

    Raises:
        ValueError: it names none; the text is the server's.
    """
    if (_MICROS if micro else _SECONDS).fullmatch(text):
        _parse_time(text, micro=micro)
        return text
    moment = _parse_time(text, micro=micro)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _parse_time(text: str, *, micro: bool) -> datetime:
    layout = _MICROS_LAYOUT if micro else _SECONDS_LAYOUT
    at, numbers = 0, []
    for element, form in _TIME_STEPS:
        match = form.match(text, at)
        if match is None:
            raise _parse_time_error(text, layout, text[at:], element)
        if len(element) > 1:
            numbers.append(int(match[0]))
        at = match.end()
    micros = 0
    fraction = (_SIX if micro else _FRACTION).match(text, at)
    if fraction:
        micros = int(fraction[0][1:7].ljust(6, "0"))
        at = fraction.end()
    elif micro:
        raise _parse_time_error(text, layout, text[at:], ".000000")
    zone = _TIME_ZONE.match(text, at)
    if zone is None:
        raise _parse_time_error(text, layout, text[at:], "Z07:00")
    if text[zone.end() :]:
        raise ValueError(f'parsing time "{text}": extra text: "{text[zone.end() :]}"')
    _check_ranges(text, numbers)
    offset = timedelta()
    if zone[0] != "Z":
        hours, minutes = zone[0][1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        offset = -offset if zone[0][0] == "-" else offset
    year, month, day, hour, minute, second = numbers
    return datetime(year, month, day, hour, minute, second, micros, UTC) - offset


def _check_ranges(text: str, numbers: list[int]) -> None:
    year, month, day, hour, minute, second = numbers
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    for name, wrong in (
        ("month", not 1 <= month <= 12),
        ("hour", hour > 23),
        ("minute", minute > 59),
        ("second", second > 59),
        ("day", not 1 <= day <= _MONTHS_DAYS[min(max(month, 1), 12) - 1]),
        ("day", month == 2 and day == 29 and not leap),
        ("year", year == 0),
    ):
        if wrong:
            raise ValueError(f'parsing time "{text}": {name} out of range')


def _parse_time_error(text: str, layout: str, rest: str, element: str) -> ValueError:
    return ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"')
