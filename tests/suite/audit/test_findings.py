from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.suite.audit.findings import AuditCounts, render_findings
from pytest_kwait.suite.report.records import AuditRecord, WaitRecord


def wait(name: str = "wait_for_pod_running", site: str = "test_a.py:3", **more: Any) -> WaitRecord:
    values: dict[str, Any] = {
        "test": "test_a.py::test_a",
        "outcome": "met",
        "seconds": 0.5,
        "limit": 60.0,
    }
    values |= {"audit": AuditRecord()} | more
    return WaitRecord(
        id="1", run="r", subject="pod ns/a", goal="run", started=1.0, name=name, site=site, **values
    )


def broken(after: float = 0.2, reason: str = "the pod has failed", **more: Any) -> WaitRecord:
    return wait(audit=AuditRecord("", after, reason), **more)


def lines(*waits: WaitRecord, **options: Any) -> list[str]:
    counts = AuditCounts()
    counts.add_records(waits)
    return render_findings(counts, more="elsewhere", **options)


def instead(*waits: WaitRecord) -> list[str]:
    counts = AuditCounts()
    counts.add_records(waits)
    return [finding.instead for finding in counts.findings()]


def test_transient_is_a_finding() -> None:
    assert lines(broken(0.9), broken(0.248), wait()) == [
        "test_a.py:3: wait_for_pod_running",
        "  in test_a.py::test_a",
        "  met by a transient in 2 of 3 observed: held for 248ms, then the pod has failed",
        '  instead: wait_for_pod_ready, or stable_for="1s"',
        "3 met waits of 1 call; 3 observed afterwards",
    ]


def test_tests_of_a_helper_are_counted() -> None:
    rows = lines(broken(test="t::a"), broken(test="t::b"), broken(test="t::b"), wait(test="t::c"))
    assert rows[1:3] == [
        "  in t::b and 1 more",
        "  met by a transient in 3 of 4 observed: held for 200ms, then the pod has failed",
    ]


@pytest.mark.parametrize(
    ("name", "reason", "expected"),
    [
        ("wait_for_pod_running", "failed", 'wait_for_pod_ready, or stable_for="1s"'),
        (
            "wait_for_pod_running",
            "the pod has succeeded",
            "wait_for_pod_success, as the program ends by itself",
        ),
        ("wait_for", "a", 'stable_for="1s", or consistently(…) where the state must last'),
        (
            "wait_for_deployment_complete",
            "a",
            'stable_for="1s", or a wait for the state that lasts',
        ),
        ("create_and_wait", "a", 'a wait after it with stable_for="1s"'),
    ],
)
def test_what_to_write_instead_of_a_transient(name: str, reason: str, expected: str) -> None:
    assert instead(broken(name=name, reason=reason)) == [expected]


def test_suggested_waits_exist() -> None:
    from pytest_kwait.framework.registry import WAITS
    from pytest_kwait.suite.audit import findings

    for table in (findings._LASTING, findings._FOR_ENDED):
        for name, better in table.items():
            assert name in WAITS
            assert better.partition(" ")[0] in WAITS


def test_more_than_half_of_the_limit_is_a_finding() -> None:
    half = wait(seconds=5.0, limit=10.0)
    assert instead(half) == []
    assert lines(half, wait(seconds=5.1, limit=10.0))[2:4] == [
        "  used 51 % of its limit: 5.1s of 10s",
        '  instead: timeout="20s"',
    ]
    assert instead(wait(seconds=200.0, limit=300.0, limit_name="pod")) == [
        '--kwait-timeout pod=10m, or timeout="10m" there'
    ]


def test_wait_always_met_at_the_first_look_is_a_finding() -> None:
    early = wait(first_look=True)
    assert lines(early, early, early)[2:4] == [
        "  met at the first look in all of 3 runs",
        "  instead: a wait for what the line before changes, or none",
    ]
    assert instead(early, early, early, wait()) == []
    gone = wait("wait_for_pod_not_found", first_look=True)
    assert instead(gone, gone, gone) == [
        "a wait that it is there before it is deleted, or none",
    ]


def test_few_first_looks_are_counted_alone() -> None:
    early = wait(first_look=True)
    assert lines(early, early) == [
        "no findings",
        "2 met waits of 1 call; 2 observed afterwards; 1 call met at the first look in",
        "  fewer than 3 runs, which may be chance",
    ]


@pytest.mark.parametrize("more", [{"precondition": True}, {"name": "scale"}])
def test_markers_and_verbs_may_be_met_at_the_first_look(more: dict[str, Any]) -> None:
    early = wait(first_look=True, **more)
    assert instead(early, early, early) == []


@pytest.mark.parametrize("more", [{"outcome": "timed out"}, {"name": ""}, {"inner": True}])
def test_other_waits_do_not_count(more: dict[str, Any]) -> None:
    counts = AuditCounts()
    counts.add_records([broken(**more)])
    assert counts.calls == {}


def test_waits_that_were_not_observed_are_counted_by_reason() -> None:
    poll = wait(audit=AuditRecord("poll mode watches nothing"))
    assert lines(poll, poll, wait(audit=None), wait()) == [
        "no findings",
        "4 met waits of 1 call; 1 observed afterwards; 2 not: poll mode watches nothing",
    ]


def test_transients_come_first_and_no_more_than_twenty_findings_are_shown() -> None:
    slow = [wait(site=f"slow.py:{n:02}", seconds=59.0) for n in range(30)]
    rows = lines(*slow, broken(site="z.py:1"))
    assert rows[0] == "z.py:1: wait_for_pod_running"
    assert rows[4] == "slow.py:00: wait_for_pod_running"
    assert sum(row.startswith("  instead: ") for row in rows) == 20
    assert rows[80:] == [
        "11 more findings: elsewhere",
        "31 met waits of 31 calls; 31 observed afterwards",
    ]
    assert sum(row.startswith("  instead: ") for row in lines(*slow, show_all=True)) == 30


def test_lines_fit_eighty_columns() -> None:
    reason = "container main " * 40
    rows = lines(broken(reason=reason, site=f"{'e2e/' * 12}test_a.py:100", test="test " * 30))
    assert max(map(len, rows)) <= 80
