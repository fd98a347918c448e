"""Cron schedules: five fields or an @word, and a time zone.

Source: github.com/robfig/cron v3 parser.go (`ParseStandard`), spec.go;
pkg/apis/batch/validation/validation.go (`validateScheduleFormat`, `validateTimeZone`).
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from pytest_kwait.apimachinery.go_values import parse_duration
from pytest_kwait.simulator.codec.go_text import atoi

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MINUTE = timedelta(minutes=1)
_MAX_YEARS = 5
_EVERY = "@every "
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


@dataclass(frozen=True, slots=True)
class ConstantDelaySchedule:
    """A fixed delay between times.

    Args:
        seconds: at least one.
    """

    seconds: int

    def after(self, moment: float) -> float | None:
        """Return the next time after `moment`; both are seconds since the epoch."""
        return float(int(moment)) + self.seconds


@dataclass(frozen=True, slots=True)
class SpecSchedule:
    """Minutes selected by the clock and the calendar.

    Args:
        minutes: of an hour.
        hours: of a day.
        days: of a month.
        months: of a year.
        weekdays: 0 is Sunday.
        either: whether one of `days` and `weekdays` is enough, as neither was `*`.
        zone: the time zone.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    zone: tzinfo

    def _has(self, day: datetime) -> bool:
        month, week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (month or week if self.either else month and week)

    def after(self, moment: float) -> float | None:
        """Return the next time after `moment`, seconds since the epoch; None within five years.

        An hour that the clock skips has no times, one that it repeats has them twice.
        """
        start = datetime.fromtimestamp(moment, UTC).replace(second=0, microsecond=0) + _MINUTE
        now = start
        while now.year <= start.year + _MAX_YEARS:
            local = now.astimezone(self.zone)
            if not self._has(local):
                morrow = local.date() + timedelta(days=1)
                midnight = datetime(morrow.year, morrow.month, morrow.day, tzinfo=self.zone)
                now = max(midnight.astimezone(UTC), now + _MINUTE)
            elif local.hour not in self.hours:
                now += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                now += _MINUTE
            else:
                return now.timestamp()
        return None


def parse_schedule(text: str, zone: tzinfo = UTC) -> SpecSchedule | ConstantDelaySchedule:
    """Parse a schedule.

    Args:
        text: the schedule; a time zone that it begins with counts.
        zone: the time zone otherwise.

    Raises:
        ValueError: it spells none; the text is that of the parser upstream.
    """
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, text = text.partition(" ")
        name = prefix.partition("=")[2]
        named = _load_zone(name)
        if named is None:
            raise ValueError(f"provided bad location {name}: unknown time zone {name}")
        zone, text = named, text.strip()
    if text.startswith(_EVERY):
        return ConstantDelaySchedule(max(1, int(_parse_pause(text.removeprefix(_EVERY)))))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        fields_text = " ".join(fields)
        raise ValueError(
            f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{fields_text}]"
        )
    read = [_parse_field(field, *rule) for field, rule in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (chosen for chosen, _ in read)
    either = not read[2][1] and not read[4][1]
    return SpecSchedule(minutes, hours, days, months, weekdays, either, zone)


def find_schedule_problem(schedule: str) -> str:
    """Return the error of a schedule; empty if it is valid."""
    try:
        parse_schedule(schedule)
    except ValueError as error:
        return str(error)
    return ""


def _parse_pause(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"failed to parse duration {_EVERY}{text}: {error}") from None


def _parse_field(
    text: str, low: int, high: int, names: dict[str, int]
) -> tuple[frozenset[int], bool]:
    """Return the values of a field, and whether it was a star."""
    chosen: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        values, is_star = _parse_range(part, low, high, names)
        chosen.update(values)
        star = star or is_star
    return frozenset(chosen), star


def _parse_range(part: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    span, *steps = part.split("/")
    first, *lasts = span.split("-")
    star = first in ("*", "?")
    if star:
        start, end = low, high
    else:
        start = _parse_number(first, names)
        end = _parse_number(lasts[0], names) if len(lasts) == 1 else start
        if len(lasts) > 1:
            raise ValueError(f"too many hyphens: {part}")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _parse_number(steps[0], {}) if steps else 1
    if steps and not lasts:
        end = high
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {part}")
    return range(start, end + 1, step), star and step == 1


def _parse_number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    try:
        number = atoi(text)
    except ValueError as error:
        raise ValueError(f"failed to parse int from {text}: {error}") from None
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def find_time_zone_problem(zone: str) -> list[str]:
    """Return the errors of a time zone; empty if it is valid."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [f"unknown time zone {zone}"]
    texts = []
    if zone.lower() == "local":
        texts.append(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    if zone != "Local" and _load_zone(zone) is None:
        texts.append(f"unknown time zone {zone}")
    return texts


def _load_zone(name: str) -> tzinfo | None:
    if name in ("UTC", ""):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
