from __future__ import annotations

import re

import pytest

from pytest_kwait.simulator.codec.time_text import canonicalize_time

LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.75Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:30:00+02:00", "2025-12-31T22:30:00Z"),
        ("2026-01-01T00:30:00-00:30", "2026-01-01T01:00:00Z"),
    ],
)
def test_times_are_written_in_utc_to_the_second(given: str, written: str) -> None:
    assert canonicalize_time(given) == written


def test_micro_times_keep_microseconds() -> None:
    given = "2026-01-01T00:00:00.123456+01:00"
    assert canonicalize_time(given, micro=True) == "2025-12-31T23:00:00.123456Z"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", f'parsing time "" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("2020", f'parsing time "2020" as "{LAYOUT}": cannot parse "" as "-"'),
        ("2020-01-01", f'parsing time "2020-01-01" as "{LAYOUT}": cannot parse "" as "T"'),
        (
            "2020-01-01T00:00:00",
            f'parsing time "2020-01-01T00:00:00" as "{LAYOUT}": cannot parse "" as "Z07:00"',
        ),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2021-02-29T00:00:00Z", 'parsing time "2021-02-29T00:00:00Z": day out of range'),
        ("2021-02-20T24:00:00Z", 'parsing time "2021-02-20T24:00:00Z": hour out of range'),
        ("2021-02-20T20:00:00Zx", 'parsing time "2021-02-20T20:00:00Zx": extra text: "x"'),
    ],
)
def test_what_is_no_time_is_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_time(given)


def test_micro_times_need_six_digits() -> None:
    why = (
        'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": '
        'cannot parse "Z" as ".000000"'
    )
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_time("2026-01-01T00:00:00Z", micro=True)
