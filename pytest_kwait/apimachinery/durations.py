"""Durations: seconds, `timedelta`, or Go duration strings such as `1m30s`."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

from pytest_kwait.errors import InvalidArgument

__all__ = ["NANOSECONDS", "Duration", "format_duration", "to_seconds"]

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

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_TERM = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TERMS = re.compile(rf"(?:{_TERM.pattern})+", re.ASCII)
_SECONDS = re.compile(_NUMBER, re.ASCII)
_FORMS = "seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"


def to_seconds(
    value: Duration, *, what: str = "duration", source: str | None = None, allow_zero: bool = True
) -> float:
    """Return `value` in finite, non-negative seconds.

    Args:
        value: seconds, a `timedelta`, or a string: digits (seconds) or a Go duration.
        what: the name of the setting or argument, for the message.
        source: the origin of the value, for the message; None for a call's argument.
        allow_zero: whether 0 is a valid value.

    Raises:
        InvalidArgument: the value is no duration, is not finite, or is below the minimum.

    Source: time.ParseDuration of Go for the string form.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidArgument(what, value, f"use {_FORMS}", source)
    if seconds < 0 or (seconds == 0 and not allow_zero):
        least = "not below zero" if allow_zero else "above zero"
        raise InvalidArgument(what, value, f"use {_FORMS}, {least}", source)
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
    return sign * math.fsum(float(number) * NANOSECONDS[unit] for number, unit in terms) / 10**9


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
