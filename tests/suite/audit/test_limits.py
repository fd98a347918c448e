from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.suite.audit.limits import collect_limits, render_limits, suggest_limit
from pytest_kwait.suite.report.records import WaitRecord


def wait(seconds: float = 1.0, limit: float = 600.0, **more: Any) -> WaitRecord:
    values: dict[str, Any] = {
        "name": "wait_for_pod_ready",
        "site": "test_a.py:3",
        "outcome": "met",
    } | more
    return WaitRecord(
        id="1",
        run="r",
        subject="pod ns/a",
        goal="be ready",
        started=1.0,
        seconds=seconds,
        limit=limit,
        **values,
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, 5), (1.6, 5), (1.7, 10), (25.0, 90), (1000.0, 3600), (1300.0, 5400)],
)
def test_limit_is_three_times_the_duration_rounded_up(seconds: float, expected: float) -> None:
    assert suggest_limit(seconds) == expected


def test_percentiles_of_many_waits() -> None:
    (row,) = collect_limits([wait(float(n), limit_name="pod") for n in range(1, 101)])
    assert (row.name, row.waits, row.median, row.p95, row.p99, row.longest) == (
        "pod",
        100,
        50.0,
        95.0,
        99.0,
        100.0,
    )
    assert (row.limit, row.suggested) == (600.0, 300.0)


def test_tables_and_lines_to_copy() -> None:
    named = [wait(1.26, limit_name="pod")] * 11 + [wait(4.0, 5.0, limit_name="crd")] * 10
    own = [wait(3.0, 10.0)] * 9 + [wait(10.0, 10.0, outcome="timed out")]
    few = [wait(0.2, 5.0, site="test_b.py:8")]
    assert render_limits(collect_limits(named + own + few)) == [
        "name in the timeout table  waits  median   p95   p99   max  limit  suggested",
        "crd                           10      4s    4s    4s    4s     5s        15s",
        "pod                           11    1.3s  1.3s  1.3s  1.3s    10m         5s",
        "",
        "call with its own limit  waits  median    p95    p99    max  limit  suggested",
        "test_a.py:3 wait_for_pod_ready",
        "                            10      3s    10s    10s    10s    10s        30s"
        "  1 timed out",
        "test_b.py:8 wait_for_pod_ready",
        "                             1   200ms  200ms  200ms  200ms     5s          -",
        "",
        "for the ini file:",
        'kwait_timeout = "crd=15s,pod=5s"',
        "",
        "for the calls:",
        'test_a.py:3 wait_for_pod_ready: timeout="30s"',
        "",
        "a suggestion needs 10 waits: add reports of further runs",
    ]


def test_present_limit_is_not_suggested_again() -> None:
    rows = collect_limits([wait(1.0, 5.0, limit_name="pod")] * 10)
    assert render_limits(rows) == [
        "name in the timeout table  waits  median  p95  p99  max  limit  suggested",
        "pod                           10      1s   1s   1s   1s     5s         5s",
    ]


@pytest.mark.parametrize(
    "more",
    [{"outcome": "failed early"}, {"inner": True}, {"name": ""}, {"limit": 0.0}],
)
def test_other_waits_have_no_limit_to_measure(more: dict[str, Any]) -> None:
    assert collect_limits([wait(**more)]) == []
