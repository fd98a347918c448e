"""Points in time and lengths of it, to the nanosecond.

Source: github.com/google/cel-go common/types/{timestamp,duration}.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["Duration", "Timestamp", "parse_duration", "parse_timestamp"]

_NANOS = 1_000_000_000
_UNITS = {
    "h": 3600 * _NANOS,
    "m": 60 * _NANOS,
    "s": _NANOS,
    "ms": 1_000_000,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ns": 1,
}
_MAX_DIGITS = 19
_DURATION_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([-+]?)((?:{_DURATION_PART})+|0)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A length of time."""

    nanos: int

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.nanos + other.nanos)

    def __str__(self) -> str:
        sign = "-" if self.nanos < 0 else ""
        seconds, rest = divmod(abs(self.nanos), _NANOS)
        part = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{seconds}{part}s"


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A point in time, with the seconds that the text it is read from is ahead of UTC."""

    nanos: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        rest = self.nanos % _NANOS
        part = f".{rest:09d}".rstrip("0") if rest else ""
        zone = "Z"
        if self.offset:
            hours, minutes = divmod(abs(self.offset) // 60, 60)
            zone = f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
        here = self._at(timezone(timedelta(seconds=self.offset)))
        return f"{here:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + part + zone

    @property
    def is_within_bounds(self) -> bool:
        """Whether it is of the years 1 to 9999."""
        return _MIN_SECONDS <= self.nanos // _NANOS <= _MAX_SECONDS

    def _at(self, zone: tzinfo) -> datetime:
        start = datetime(1970, 1, 1, tzinfo=UTC)
        return (start + timedelta(seconds=self.nanos // _NANOS)).astimezone(zone)

    def part(self, name: str, zone: str = "UTC") -> int:
        """What a function such as `getHours` gives of it.

        Args:
            name: of the function.
            zone: the name of a time zone, or how far it is ahead of UTC (`-02:30`).

        Raises:
            ValueError: there is no such zone.
        """
        here = self._at(_parse_zone(zone))
        if name == "getMilliseconds":
            return self.nanos % _NANOS // 1_000_000
        if name == "getDayOfWeek":
            return here.isoweekday() % 7
        if name == "getDayOfYear":
            return here.timetuple().tm_yday - 1
        return {
            "getFullYear": here.year,
            "getMonth": here.month - 1,
            "getDate": here.day,
            "getDayOfMonth": here.day - 1,
            "getHours": here.hour,
            "getMinutes": here.minute,
            "getSeconds": here.second,
        }[name]


def _parse_zone(name: str) -> tzinfo:
    if found := _OFFSET.fullmatch(name):
        length = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-length if found[1] == "-" else length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def parse_duration(text: str) -> Duration | None:
    """The length that a text such as `1h30m` says, None for none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = 0
    for number, unit in re.findall(_DURATION_PART, found[2]):
        whole, _, rest = number.partition(".")
        whole, rest = whole.lstrip("0"), rest[:_MAX_DIGITS]
        if len(whole) > _MAX_DIGITS:
            return None
        part = int(rest or 0) * _UNITS[unit] // 10 ** len(rest)
        total += int(whole or 0) * _UNITS[unit] + part
    total = -total if found[1] == "-" else total
    return Duration(total) if -(2**63) <= total < 2**63 else None


def parse_timestamp(text: str) -> Timestamp | None:
    """The point in time that a text by RFC 3339 says, None for none."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[at]) for at in range(1, 7))
    offset = 0
    if found[8] not in "Zz":
        sign, hours, minutes = found[8][0], int(found[8][1:3]), int(found[8][4:])
        offset = (hours * 60 + minutes) * (-60 if sign == "-" else 60)
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((local - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) - offset
    nanos = int((found[7] or "").ljust(9, "0")[:9])
    return Timestamp(seconds * _NANOS + nanos, offset)
