from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.suite.report.flakes import (
    FlakeCounts,
    FlakeRun,
    FlakeStatistics,
    judge_history,
    render_flakes,
)
from pytest_kwait.suite.report.records import (
    RecordedVerdict,
    RunRecord,
    TestRecord,
    WaitRecord,
)
from pytest_kwait.suite.report.run_report import VERSION, RunReport

_NIGHT = 1_780_000_000.0
_DAY = 86_400.0
_IN_TURN = "failed and passed in turn, at other or unknown commits"


def night(
    number: int,
    outcome: str,
    *,
    commit: str = "",
    seen: tuple[str, ...] = ("Pending",),
    seconds: float = 2.0,
    passed: tuple[str, ...] = (),
) -> RunReport:
    """A run on one night, whose only test waited for a pod."""
    started = _NIGHT + number * _DAY
    id, namespace = f"n{number}-0a", f"t-web-x{number}k2p"
    run = RunRecord(id, f"n{number}", started, started + 60, commit=commit, passed=list(passed))
    run.tests = {outcome: 1 + (len(passed) if outcome == "passed" else 0)}
    if passed and outcome != "passed":
        run.tests["passed"] = len(passed)
    test = TestRecord(f"{id}.1", id, "test_a.py::test_web", outcome, started + 20, seconds + 1)
    wait = WaitRecord(
        f"{id}.main.1",
        id,
        f"pod {namespace}/web",
        "become ready",
        started + 20 - seconds,
        seconds,
        "met" if outcome == "passed" else "timed out",
        test=test.test,
        changes=[RecordedVerdict(float(at), text) for at, text in enumerate(seen)],
        limit=5.0,
    )
    if outcome != "passed":
        headline = f"pod {namespace}/web did not become ready within 5s: {seen[-1]}"
        test.headline, test.phase, test.namespaces = headline, "call", [namespace]
        wait.headline, wait.evidence = headline, {"seen": seen[-1], "reason": seen[-1]}
    return RunReport(VERSION, [run], [wait], [test])


def statistics(*reports: RunReport) -> FlakeStatistics:
    counts = FlakeCounts()
    for report in reports:
        counts.add(report)
    return counts.statistics()


def test_flaky_test_has_its_rate_and_what_it_saw_only_when_it_failed() -> None:
    found = statistics(
        night(1, "passed", commit="aaaa"),
        night(2, "passed", commit="bbbb", seconds=3.2),
        night(3, "failed", commit="bbbb", seen=("Pending", "0/1 ready: no endpoint of db")),
        night(4, "passed", commit="cccc"),
    )
    assert render_flakes(found) == [
        "failed  runs   rate  verdict",
        "test_a.py::test_web",
        "     1     4    25%  flaky: failed and passed at commit bbbb",
        "  first bad  2026-05-31T20:26:40Z run n3, commit bbbb",
        "  last good  2026-05-30T20:26:40Z run n2, commit bbbb",
        "  1x pod web did not become ready within 5s: 0/1 ready: no endpoint of db",
        "     only failed  0/1 ready: no endpoint of db",
        "     met          after at most 3.2s, limit 5s",
        "1 flaky, of 1 test in 4 runs",
        "from 2026-05-29T20:26:40Z to 2026-06-01T20:26:40Z",
    ]


def test_distinct_failures_are_counted_without_generated_parts() -> None:
    found = statistics(
        night(1, "failed", seen=("ImagePullBackOff",)),
        night(2, "failed", seen=("CrashLoopBackOff: exit code 1",)),
        night(3, "failed", seen=("CrashLoopBackOff: exit code 1",)),
    )
    (flake,) = found.flakes
    assert [(failure.runs, failure.headline) for failure in flake.failures] == [
        (2, "pod web did not become ready within 5s: CrashLoopBackOff: exit code 1"),
        (1, "pod web did not become ready within 5s: ImagePullBackOff"),
    ]
    assert (flake.verdict, flake.reason) == ("broken", "has not passed in these runs")
    assert flake.last_good is None
    # Nothing is said of states where no run has met the wait.
    assert all(failure.only_failed == [] for failure in flake.failures)


@pytest.mark.parametrize(
    ("outcomes", "commits", "verdict", "reason", "first_bad"),
    [
        ("pff", "abc", "broken", "fails since run 1", 1),
        ("fpff", "abcd", "broken", "fails since run 2", 2),
        ("ff", "ab", "broken", "has not passed in these runs", 0),
        ("pffp", "abcd", "fixed", "passes since run 3", 1),
        ("pfpfp", "abcde", "intermittent", _IN_TURN, 1),
        ("pf", "aa", "flaky", "failed and passed at commit a", 1),
        ("pfp", ["", "", ""], "fixed", "passes since run 2", 1),
        ("pfp", ["a-dirty", "a-dirty", "a-dirty"], "fixed", "passes since run 2", 1),
        ("pbp", "abc", "flaky", "failed and passed in run 1", 1),
    ],
)  # fmt: skip
def test_verdict_of_a_history(
    outcomes: str, commits: Any, verdict: str, reason: str, first_bad: int
) -> None:
    history = [
        (FlakeRun(str(place), float(place), commit=commit), outcome in "pb", outcome in "fb")
        for place, (outcome, commit) in enumerate(zip(outcomes, commits, strict=True))
    ]
    assert judge_history(history) == (verdict, reason, first_bad)


def test_runs_are_ordered_by_their_start_and_counted_once() -> None:
    first, second = night(1, "passed", commit="a"), night(2, "failed", commit="b")
    found = statistics(second, first, second)
    (flake,) = found.flakes
    assert [run.name for run in found.runs] == ["n1", "n2"]
    assert (flake.runs, flake.failed, flake.first_bad.name) == (2, 1, "n2")
    assert flake.last_good is not None
    assert flake.last_good.name == "n1"
    assert [failure.runs for failure in flake.failures] == [1]


def test_passed_tests_without_waits_count() -> None:
    found = statistics(night(1, "passed", passed=("test_a.py::test_plain",)))
    assert (found.tests, found.unnamed, found.flakes) == (2, 0, [])
    assert render_flakes(found) == [
        "none failed, of 2 tests in 1 run",
        "from 2026-05-29T20:26:40Z to 2026-05-29T20:26:40Z",
    ]


def test_passed_tests_that_older_reports_only_count_are_reported() -> None:
    old = night(1, "passed")
    old.runs[0].tests = {"passed": 5}
    assert statistics(old).unnamed == 4


def test_test_that_was_run_again_is_flaky_in_one_run() -> None:
    report = night(1, "passed")
    again = night(1, "rerun").tests[0]
    again.id = "again"
    report.tests.insert(0, again)
    (flake,) = statistics(report).flakes
    assert (flake.verdict, flake.runs, flake.rate) == ("flaky", 1, 1.0)
    assert flake.reason == "failed and passed in run n1"


def test_skipped_and_expected_failures_count_as_no_run() -> None:
    report = night(1, "passed")
    report.tests[0].outcome = "xfailed"
    assert statistics(report).tests == 0
