from __future__ import annotations

import pytest

from pytest_kwait.apimachinery.times import (
    format_micro_time,
    format_time,
    parse_time,
    parse_time_or_none,
)


@pytest.mark.parametrize(
    ("seconds", "second", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1_767_225_600.75, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.750000Z"),
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
