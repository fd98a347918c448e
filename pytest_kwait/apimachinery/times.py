"""Durations and times, read and written as Go and the API do.

A duration is a number of seconds, a `timedelta`, or a Go duration string such as `1m30s`. The API
writes a `Time` in seconds and a `MicroTime` in microseconds.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from pytest_kwait.errors import InvalidArgument

Duration: TypeAlias = float | int | timedelta | str
"""Seconds as a number or digits, a `timedelta`, or a Go duration string."""

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu: Go accepts both
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Units of Go durations."""

MAX_SECONDS = (2**63 - 1) / 10**9
"""The longest duration of Go, about 292 years; a longer limit cannot be waited for."""

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_TERM = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TERMS = re.compile(rf"(?:{_TERM.pattern})+", re.ASCII)
_SECONDS = re.compile(_NUMBER, re.ASCII)
_FORMS = "seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"


def to_seconds(
    value: Duration,
    *,
    what: str = "duration",
    source: str | None = None,
    allow_zero: bool = True,
    at_most: float = MAX_SECONDS,
) -> float:
    """Return `value` in finite, non-negative seconds.

    Args:
        value: seconds, a `timedelta`, or a string: digits (seconds) or a Go duration.
        what: the name of the setting or argument, for the message.
        source: the origin of the value, for the message; None for a call's argument.
        allow_zero: whether 0 is a valid value.
        at_most: the longest valid duration, in seconds.

    Raises:
        InvalidArgument: the value is no duration, is not finite, or is out of range.

    Source: time.ParseDuration of Go for the string form.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidArgument(what, value, f"use {_FORMS}", source)
    if seconds < 0 or (seconds == 0 and not allow_zero):
        least = "not below zero" if allow_zero else "above zero"
        raise InvalidArgument(what, value, f"use {_FORMS}, {least}", source)
    if seconds > at_most:
        most = format_duration(float(int(at_most)))
        raise InvalidArgument(what, value, f"use {_FORMS}, at most {most}", source)
    return seconds


def format_duration(seconds: float) -> str:
    """Format a duration as Go does: `1m30s`, `2m0s`, `1.5s`, `350ms`, `0s`.

    Args:
        seconds: any finite number; fractions of a nanosecond are rounded.

    Source: Duration.String of Go.
    """
    total = round(abs(seconds) * 1e9)
    sign = "-" if seconds < 0 and total else ""
    if total < 1_000_000_000:
        return sign + _format_fraction(total)
    whole, rest = divmod(total, 1_000_000_000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{_trim(f'{second}.{rest:09d}')}s"
    if hours:
        text = f"{hours}h{minute}m{text}"
    elif minute:
        text = f"{minute}m{text}"
    return sign + text


def _seconds(value: object) -> float | None:
    """Return the number behind `value`; None without one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:  # an int beyond the range of a float
            return None
    if isinstance(value, str):
        return _parse(value.strip())
    return None


def _parse(text: str) -> float | None:
    sign = -1.0 if text.startswith("-") else 1.0
    text = text[1:] if text[:1] in ("-", "+") else text
    if _SECONDS.fullmatch(text):
        return sign * float(text)
    if not _TERMS.fullmatch(text):
        return None
    # Divided once at the end, so that 350ms is the float 0.35 exactly.
    terms = _TERM.findall(text)
    try:
        return sign * math.fsum(float(number) * NANOSECONDS[unit] for number, unit in terms) / 10**9
    except OverflowError:
        return math.inf


def _format_fraction(nanoseconds: int) -> str:
    """Format less than a second, in the largest unit with a digit before the point."""
    if nanoseconds == 0:
        return "0s"
    for unit, size in (("ms", 1_000_000), ("µs", 1_000)):
        if nanoseconds >= size:
            whole, rest = divmod(nanoseconds, size)
            return f"{_trim(f'{whole}.{rest:0{len(str(size)) - 1}d}')}{unit}"
    return f"{nanoseconds}ns"


def _trim(number: str) -> str:
    return number.rstrip("0").rstrip(".")


def format_time(seconds: float) -> str:
    """Format seconds since the epoch as a `Time`, `2006-01-02T15:04:05Z`, truncating fractions."""
    return _format_second(int(seconds))


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    # Cached: many calls share a second.
    return format_moment(datetime.fromtimestamp(second, UTC))


def format_micro_time(seconds: float) -> str:
    """Format seconds since the epoch as a `MicroTime`, `2006-01-02T15:04:05.000000Z`."""
    return format_moment(datetime.fromtimestamp(seconds, UTC), micro=True)


def format_moment(moment: datetime, *, micro: bool = False) -> str:
    """Format a time in UTC as a `Time`, or with `micro` as a `MicroTime`."""
    # Of a year before 1000, `strftime` writes fewer than four digits.
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds")
    return f"{text}Z"


def parse_time(text: str) -> float:
    """Return a time of the API as seconds since the epoch.

    Raises:
        ValueError: the text is not an RFC 3339 time, or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return moment.timestamp()


def parse_time_or_none(value: object) -> float | None:
    """Return a time of the API as seconds since the epoch; otherwise None."""
    try:
        return parse_time(str(value))
    except ValueError:
        return None
