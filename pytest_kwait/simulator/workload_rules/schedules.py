"""When cron jobs run: five fields or a descriptor, and a time zone.

Source: github.com/robfig/cron v3 parser.go, ParseStandard; pkg/apis/batch/validation/validation.go,
validateScheduleFormat, validateTimeZone.
"""

from __future__ import annotations

import re
import zoneinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["schedule_problem", "time_zone_texts"]

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
_BOUNDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = (
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
)
_EVERY = "@every "
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_PAIR = 2


def schedule_problem(schedule: str) -> str:
    """Why nothing can be scheduled by it, empty if something can."""
    try:
        _parse(schedule)
    except _Unreadable as error:
        return str(error)
    return ""


class _Unreadable(Exception):
    """A schedule, or a part of one, that means nothing."""


def _parse(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        name = zone.partition("=")[2]
        if not _known(name):
            raise _Unreadable(f"provided bad location {name}: unknown time zone {name}")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        _parse_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        shown = " ".join(fields)
        raise _Unreadable(f"expected exactly {len(_BOUNDS)} fields, found {len(fields)}: [{shown}]")
    for field, bounds in zip(fields, _BOUNDS, strict=True):
        for part in field.split(","):
            if part:
                _parse_range(part, *bounds)


def _parse_descriptor(descriptor: str) -> None:
    if descriptor in _DESCRIPTORS:
        return
    if descriptor.startswith(_EVERY):
        duration = descriptor.removeprefix(_EVERY)
        if _DURATION.fullmatch(duration):
            return
        why = f'time: invalid duration "{duration}"'
        if re.fullmatch(r"[-+]?\d+\.?\d*", duration):
            why = f'time: missing unit in duration "{duration}"'
        raise _Unreadable(f"failed to parse duration {descriptor}: {why}")
    raise _Unreadable(f"unrecognized descriptor: {descriptor}")


def _parse_range(part: str, least: int, most: int, names: Mapping[str, int]) -> None:
    steps = part.split("/")
    ends = steps[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = least, most
    else:
        start = _number(ends[0], names)
        end = _number(ends[1], names) if len(ends) == _PAIR else start
        if len(ends) > _PAIR:
            raise _Unreadable(f"too many hyphens: {part}")
    step = 1
    if len(steps) > _PAIR:
        raise _Unreadable(f"too many slashes: {part}")
    if len(steps) == _PAIR:
        step = _number(steps[1], {})
        if len(ends) == 1:
            end = most
    if start < least:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({least}): {part}")
    if end > most:
        raise _Unreadable(f"end of range ({end}) above maximum ({most}): {part}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _Unreadable(f"step of range should be a positive number: {part}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[-+]?[0-9]+", text):
        why = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise _Unreadable(f"failed to parse int from {text}: {why}")
    number = int(text)
    if abs(number) >= 1 << 63:
        why = f'strconv.Atoi: parsing "{text}": value out of range'
        raise _Unreadable(f"failed to parse int from {text}: {why}")
    if number < 0:
        raise _Unreadable(f"negative number ({number}) not allowed: {text}")
    return number


def time_zone_texts(zone: str) -> list[str]:
    """Why it is no time zone; empty if it is one."""
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
    if zone != "Local" and not _known(zone):
        texts.append(f"unknown time zone {zone}")
    return texts


def _known(zone: str) -> bool:
    if zone in ("UTC", ""):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
