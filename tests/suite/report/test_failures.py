from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.suite.report.failures import FailedPhase, group_failures, list_failures
from pytest_kwait.suite.report.records import (
    RecordedVerdict,
    RunRecord,
    TestRecord,
    WaitRecord,
)
from pytest_kwait.suite.report.run_report import VERSION, RunReport


def failed(test: str, headline: str, *namespaces: str, **more: Any) -> FailedPhase:
    return FailedPhase(f"test_a.py::{test}", headline=headline, namespaces=[*namespaces], **more)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            ("pod t-a-x5d3k/web can no longer become ready: ImagePullBackOff", "t-a-x5d3k"),
            ("pod t-bc-q7w8z/web can no longer become ready: ImagePullBackOff", "t-bc-q7w8z"),
        ),
        (("pod e2e/web is gone", "e2e"), ("pod other/web is gone", "other")),
        (("pod web-6d8f9c7b5d-x7k2p failed",), ("pod web-7c9b8d6f4f-b4n8m failed",)),
        (("job pi did not become complete in 1m30s",), ("job pi did not become complete in 5s",)),
        (
            ("uid 0ab1c2d3-1111-2222-3333-444455556666",),
            ("uid 7ab1c2d3-0000-2222-3333-444455556666",),
        ),
        (("at 2026-11-30T02:10:11Z",), ("at 2026-12-01T17:00:00Z",)),
    ],
    ids=["namespace", "given namespace", "generated name", "duration", "uid", "time"],
)  # fmt: skip
def test_headlines_without_generated_parts_are_one_failure(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    groups = group_failures([failed("test_one", *first), failed("test_two", *second)])
    assert [group.tests for group in groups] == [["test_a.py::test_one", "test_a.py::test_two"]]


def test_crashes_of_workers_are_one_failure() -> None:
    groups = group_failures(
        failed(name, f"worker 'gw1' crashed while running 'test_a.py::{name}'")
        for name in ("test_one", "test_two")
    )
    assert len(groups) == 1


def test_crashes_during_other_waits_are_other_failures() -> None:
    groups = group_failures(
        failed(
            name,
            f"worker 'gw1' crashed while running 'test_a.py::{name}'",
            f"t-{name}-x5d3k",
            phase="crashed",
            waits=[{"subject": f"pod t-{name}-x5d3k/{pod}", "goal": "be ready"}],
        )
        for name, pod in (("one", "web"), ("two", "web"), ("three", "db"))
    )
    assert [len(group.tests) for group in groups] == [2, 1]


def test_other_causes_are_other_failures_and_the_most_frequent_comes_first() -> None:
    groups = group_failures(
        [
            failed("test_one", "pod web failed: exit code 1"),
            failed("test_two", "pod db failed: exit code 1"),
            failed("test_three", "pod db failed: exit code 1"),
        ]
    )
    assert [(group.headline, len(group.tests)) for group in groups] == [
        ("pod db failed: exit code 1", 2),
        ("pod web failed: exit code 1", 1),
    ]


def test_timeouts_differ_by_the_beginning_of_the_last_state_alone() -> None:
    timeout: list[dict[str, Any]] = [{"error": "WaitTimeout"}]
    groups = group_failures(
        [
            failed("test_one", "web did not become ready: Pending: pulling", waits=timeout),
            failed("test_two", "web did not become ready: Pending: created", waits=timeout),
            failed("test_three", "web did not become ready: not found yet", waits=timeout),
        ]
    )
    assert [len(group.tests) for group in groups] == [2, 1]


def test_headline_of_a_group_has_no_namespace() -> None:
    (group,) = group_failures([failed("t", "pod t-a-x5d3k/web in t-a-x5d3k failed", "t-a-x5d3k")])
    assert group.headline == "pod web failed"


def test_failures_of_a_report_have_their_waits() -> None:
    run = RunRecord("r-1", "r", 1.0, 90.0, "1/2", "existing kind")
    test = TestRecord("r-1.1", "r-1", "t", "failed", 20.0, 10.0, "1/2", "gw0", "text")
    test.headline, test.phase, test.place = "pod ns/web did not become ready", "setup", "a.py:3"
    test.namespaces, test.folder, test.kubectl = ["ns"], "art/t", ["kubectl"]
    own = WaitRecord(
        "w1", "r-1", "pod ns/web", "become ready", 12.0, 5.0, "timed out", "1/2", "gw0", "t",
        changes=[RecordedVerdict(0.0, "Pending")], evidence={"seen": "Pending"}, limit=5.0,
    )  # fmt: skip
    others = [
        WaitRecord("w2", "r-1", "pod ns/a", "be ready", 12.0, 1.0, "met", "", "gw0", "t"),
        WaitRecord(
            "w3", "r-1", "pod ns/b", "be ready", 12.0, 1.0, "timed out", "", "gw0", "t", caught=True
        ),
        # Of an earlier attempt.
        WaitRecord("w4", "r-1", "pod ns/c", "be ready", 2.0, 1.0, "timed out", "", "gw0", "t"),
    ]
    passed = TestRecord("r-1.2", "r-1", "u", "passed", 30.0)
    (phase,) = list_failures(RunReport(VERSION, [run], [own, *others], [test, passed]))
    assert (phase.run, phase.shard, phase.cluster, phase.phase) == (
        "r",
        "1/2",
        "existing kind",
        "setup",
    )
    assert (phase.place, phase.folder, phase.kubectl) == ("a.py:3", "art/t", ["kubectl"])
    assert phase.waits == [
        {
            "elapsed_seconds": 5.0,
            "limit_seconds": 5.0,
            "seen": "Pending",
            "error": "WaitTimeout",
            "subject": "pod ns/web",
            "goal": "become ready",
            "outcome": "timed out",
            "timeline": [{"at": 0.0, "text": "Pending"}],
            "timeline_left_out": 0,
        }
    ]


def test_older_report_without_headlines_has_that_of_the_wait_or_the_end_of_the_text() -> None:
    run = RunRecord("r-1", "r", 1.0, 90.0)
    waited = TestRecord("r-1.1", "r-1", "t", "failed", 20.0, 10.0)
    other = TestRecord("r-1.2", "r-1", "u", "crashed", 30.0, text="a\nworker crashed")
    wait = WaitRecord(
        "w1", "r-1", "pod a", "be ready", 12.0, 5.0, "failed early", test="t", headline="it failed"
    )
    first, second = list_failures(RunReport(VERSION, [run], [wait], [waited, other]))
    assert (first.headline, first.phase) == ("it failed", "call")
    assert (second.headline, second.phase) == ("worker crashed", "crashed")
