from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pytest_kwait.simulator.cron import parse_schedule

MANY = "9" * 5000


def _times(text: str, start: str, count: int = 3, zone: str = "UTC") -> list[str]:
    schedule = parse_schedule(text, ZoneInfo(zone))
    moment, times = datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp(), []
    for _ in range(count):
        following = schedule.after(moment)
        assert following is not None
        moment = following
        times.append(datetime.fromtimestamp(moment, UTC).strftime("%m-%dT%H:%M:%S"))
    return times


@pytest.mark.parametrize(
    ("text", "zone", "start", "times"),
    [
        ("*/20 * * * *", "UTC", "2026-01-01T00:00", ["01-01T00:20", "01-01T00:40", "01-01T01:00"]),
        ("5 4 * * *", "UTC", "2026-01-01T04:05", ["01-02T04:05", "01-03T04:05", "01-04T04:05"]),
        (
            "0 9-17/4 * * 1-5",
            "UTC",
            "2026-01-02T13:00",
            ["01-02T17:00", "01-05T09:00", "01-05T13:00"],
        ),
        ("0 0 13 * fri", "UTC", "2026-02-01T00:00", ["02-06T00:00", "02-13T00:00", "02-20T00:00"]),
        ("0 0 29 feb ?", "UTC", "2026-01-01T00:00", ["02-29T00:00"]),
        ("@monthly", "UTC", "2026-01-01T00:00", ["02-01T00:00", "03-01T00:00", "04-01T00:00"]),
        (
            "10,30/20 0 * * *",
            "UTC",
            "2026-01-01T00:00",
            ["01-01T00:10", "01-01T00:30", "01-01T00:50"],
        ),
        # The clock skips this hour, and repeats that one.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", ["03-28T01:30", "03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-25T01:30"]),
        ("@every 1h30m", "UTC", "2026-01-01T00:00", ["01-01T01:30", "01-01T03:00", "01-01T04:30"]),
    ],
)
def test_times_of_a_schedule(text: str, zone: str, start: str, times: list[str]) -> None:
    wanted = [f"{time}:00" for time in times]
    assert _times(text, start, len(times), zone) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("@often", "unrecognized descriptor: @often"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        (
            "x * * * *",
            'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax',
        ),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("TZ=No/Where @daily", "provided bad location No/Where: unknown time zone No/Where"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        (
            "@every 1e9h",
            'failed to parse duration @every 1e9h: time: unknown unit "e" in duration "1e9h"',
        ),
        (
            f"@every {MANY}s",
            f'failed to parse duration @every {MANY}s: time: invalid duration "{MANY}s"',
        ),
        (
            f"*/{MANY} * * * *",
            f'failed to parse int from {MANY}: strconv.Atoi: parsing "{MANY}": value out of range',
        ),
    ],
)
def test_invalid_schedules(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared whole
        parse_schedule(text)
    assert str(caught.value) == why


def test_schedule_without_times() -> None:
    assert parse_schedule("0 0 31 2 *").after(0) is None


def test_time_zone_prefix_counts() -> None:
    assert _times("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00:01", 1) == ["01-02T00:00:00"]


def test_pauses_are_at_least_a_second() -> None:
    assert parse_schedule("@every -5m").after(10.5) == 11
    assert parse_schedule("@every 1.5m300ms").after(10.5) == 100
