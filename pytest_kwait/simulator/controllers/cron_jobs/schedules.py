"""Schedules as kube-controller-manager reads them: five fields, or a word with an at sign.

Source: github.com/robfig/cron, parser.go, spec.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ["Every", "Schedule", "parse_schedule"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MINUTE = timedelta(minutes=1)
_YEARS_MOST = 5
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?)(h|ms|us|ns|m|s)")
_DURATION = re.compile(rf"(?:{_AMOUNT.pattern})+")
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed pause.

    Args:
        seconds: at least one.
    """

    seconds: int

    def after(self, moment: float) -> float | None:
        """Return the next time after `moment`; both are seconds since the epoch."""
        return float(int(moment)) + self.seconds


@dataclass(frozen=True, slots=True)
class Schedule:
    """Minutes that are chosen by the clock and the calendar.

    Args:
        minutes: of an hour.
        hours: of a day.
        days: of a month.
        months: of a year.
        weekdays: 0 is Sunday.
        either: whether a day of the month or of the week is enough: neither was `*`.
        zone: whose clock and calendar.
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
        while now.year <= start.year + _YEARS_MOST:
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


def _duration(text: str) -> float:
    """Return the seconds of a duration as Go spells it."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'failed to parse duration @every {text}: time: invalid duration "{text}"')
    return sum(float(one[1]) * _UNITS[one[2]] for one in _AMOUNT.finditer(text))


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"failed to parse int from {text}")
    return int(text)


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """Return what a field chooses, and whether it was a star."""
    chosen: set[int] = set()
    star = False
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            start, end = low, high
            star = star or not slash or step == "1"
        else:
            start = _number(first, names)
            end = _number(last, names) if dash else start
            if slash and not dash:
                end = high
        pause = _number(step, {}) if slash else 1
        if start < low:
            raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
        if end > high:
            raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
        if start > end:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        if pause == 0:
            raise ValueError(f"step of range should be a positive number: {part}")
        chosen.update(range(start, end + 1, pause))
    return frozenset(chosen), star


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule | Every:
    """Return the schedule that `text` spells.

    Raises:
        ValueError: it spells none.
    """
    text = text.strip()
    if text.startswith("@every "):
        return Every(max(1, int(_duration(text.removeprefix("@every ")))))
    if text.startswith("@") and text not in _WORDS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _WORDS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    read = [_field(one, *rule) for one, rule in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (chosen for chosen, _ in read)
    either = not read[2][1] and not read[4][1]
    return Schedule(minutes, hours, days, months, weekdays, either, zone)
