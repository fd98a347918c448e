from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from pytest_kwait.apimachinery.times import (
    MAX_SECONDS,
    format_duration,
    format_micro_time,
    format_time,
    parse_time,
    parse_time_or_none,
    to_seconds,
)
from pytest_kwait.errors import InvalidArgument, describe_value

FORMS = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.5, 0.5),
        (timedelta(minutes=2), 120.0),
        ("0", 0.0),
        ("90", 90.0),
        ("1.5", 1.5),
        (".5s", 0.5),
        ("5.s", 5.0),
        (" 2s ", 2.0),
        ("+2s", 2.0),
        ("-0s", 0.0),
        ("1m30s", 90.0),
        ("1h2m3.5s", 3723.5),
        ("100ms", 0.1),
        ("1s100ms", 1.1),
        ("30s1m", 90.0),
        ("250us", 250e-6),
        ("250µs", 250e-6),  # micro sign
        ("250μs", 250e-6),  # Greek mu
        ("10ns", 10e-9),
    ],
)
def test_a_duration_in_every_form(value: Any, seconds: float) -> None:
    assert to_seconds(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *("", "s", "5 min", "1d", "1m 30s", "1e3", "--2s", "one", "٣s", "9" * 400 + "s"),
        *(True, None, b"2s", [2], math.nan, math.inf, 10**400),
    ],
)
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_seconds(value, what="timeout")
    assert str(caught.value) == f"timeout={describe_value(value)} is not valid: {FORMS}"


@pytest.mark.parametrize("value", [-1, -0.001, timedelta(seconds=-1), "-1s", "-1m30s"])
def test_negative_durations_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_seconds(value)
    assert str(caught.value) == f"duration={value!r} is not valid: {FORMS}, not below zero"


@pytest.mark.parametrize("value", ["2562047h47m16.854775807s", 9.2e9, timedelta(days=106_000)])
def test_durations_are_as_long_as_those_of_go(value: Any) -> None:
    assert 9e9 < to_seconds(value) <= MAX_SECONDS


@pytest.mark.parametrize("value", ["3000000h", 9.3e9, timedelta.max, "9" * 300 + "ns1h"])
def test_longer_durations_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_seconds(value, what="timeout")
    assert str(caught.value) == (
        f"timeout={describe_value(value)} is not valid: {FORMS}, at most 2562047h47m16s"
    )
    with pytest.raises(InvalidArgument, match=r": use .*, at most 24h0m0s$"):
        to_seconds("24h1s", at_most=24 * 3600)
    assert to_seconds("24h", at_most=24 * 3600) == 86400


def test_sums_beyond_every_number_are_no_durations() -> None:
    with pytest.raises(InvalidArgument):
        to_seconds(f"{'9' * 308}ns{'9' * 308}ns")


@pytest.mark.parametrize("value", [0, "0s", timedelta(0), -1])
def test_zero_is_refused_where_it_means_nothing(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_seconds(value, what="poll", source="env KWAIT_POLL", allow_zero=False)
    assert str(caught.value) == (
        f"poll={value!r} (from env KWAIT_POLL) is not valid: {FORMS}, above zero"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.1e-6, "1.1µs"),
        (2.2e-3, "2.2ms"),
        (0.35, "350ms"),
        (1, "1s"),
        (3.3, "3.3s"),
        (90, "1m30s"),
        (120, "2m0s"),
        (3600, "1h0m0s"),
        (3723.5, "1h2m3.5s"),
        (-1.5, "-1.5s"),
        (-1e-12, "0s"),
        (59.9999999999, "1m0s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [0.000001, 0.25, 7.0, 61.5, 86_400.0])
def test_what_is_printed_can_be_read_again(seconds: float) -> None:
    assert to_seconds(format_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "second", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1_767_225_600.75, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.750000Z"),
        (-62_135_596_798, "0001-01-01T00:00:02Z", "0001-01-01T00:00:02.000000Z"),
        (1_767_225_599.999, "2025-12-31T23:59:59Z", "2025-12-31T23:59:59.999000Z"),
    ],
)
def test_format(seconds: float, second: str, micro: str) -> None:
    assert format_time(seconds) == second
    assert format_micro_time(seconds) == micro


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:00:00.750000Z", 1_767_225_600.75),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600.0),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("value", [None, "", "soon", 3, "2026-01-01T00:00:00"])
def test_other_values(value: object) -> None:
    assert parse_time_or_none(value) is None
    with pytest.raises(ValueError, match=r"Invalid isoformat|no time zone"):
        parse_time(str(value))
