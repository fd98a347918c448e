from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits, Holding, WaitCall, WaitContext
from pytest_kwait.engine.failure.evidence import Evidence, LogTail
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.suite.report.records import (
    AuditedWait,
    AuditRecord,
    Journal,
    JournalEntry,
    RecordedVerdict,
    WaitRecorder,
    limit_failure_text,
    limit_size,
    read_entries,
    truncate_middle,
)
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from pathlib import Path


class Recording:
    """Waits on a clock that the test moves, recorded in a file."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.path = folder / "main.jsonl"
        self.recorder = WaitRecorder(
            Journal(self.path), "r1-ab", "1/2", "gw3", lambda: "t.py::test"
        )
        self.pending = ActiveWaits()
        self.pending.add(self.recorder)

    def wait(self, seconds: float, outcome: str = "", *texts: str) -> ActiveWait:
        timeline = Timeline()
        wait = ActiveWait(
            "pod ns/p",
            "be ready",
            Deadline.after(60.0, self.clock),
            timeline,
            self.clock.monotonic(),
        )
        with self.pending.entered(wait):
            for text in texts:
                timeline.record(0.25, text)
            self.clock.advance(seconds)
            wait.record_outcome(outcome)
        return wait

    def lines(self) -> list[JournalEntry]:
        return list(read_entries(self.path))


class HidingContext(WaitContext):
    def hide(self, text: str) -> str:
        return text.replace("hunter2", "(hidden)")


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


def test_start_and_end_of_a_wait_are_recorded(recording: Recording) -> None:
    recording.wait(1.5, "met", "0 of 1", "1 of 1")
    begun, over = recording.lines()
    assert begun.begun is not None
    assert msgspec.structs.asdict(begun.begun) == {
        "id": "r1-ab.gw3.1",
        "run": "r1-ab",
        "subject": "pod ns/p",
        "goal": "be ready",
        "started": pytest.approx(recording.clock.time() - 1.5, abs=0.01),
        "shard": "1/2",
        "worker": "gw3",
        "test": "t.py::test",
    }
    wait = over.wait
    assert wait is not None
    assert (wait.id, wait.outcome, wait.seconds, wait.test) == (
        "r1-ab.gw3.1",
        "met",
        1.5,
        "t.py::test",
    )
    assert wait.changes == [RecordedVerdict(0.25, "0 of 1"), RecordedVerdict(0.25, "1 of 1")]


def test_timeline_of_a_wait_is_redacted(
    recording: Recording,
) -> None:
    wait = ActiveWait(
        "pod ns/p",
        "be ready",
        Deadline.after(60.0, recording.clock),
        Timeline(),
        0.0,
        context=HidingContext(),
    )
    with recording.pending.entered(wait):
        wait.timeline.record(0.0, "says hunter2")
        wait.record_outcome("error", retries=2, trouble="503: hunter2")
    record = recording.lines()[1].wait
    assert record is not None
    assert (record.retries, record.trouble) == (2, "503: (hidden)")
    assert record.changes == [RecordedVerdict(0.0, "says (hidden)")]


def test_other_exceptions_interrupt_a_wait(recording: Recording) -> None:
    recording.wait(1.0)
    record = recording.lines()[1].wait
    assert record is not None
    assert record.outcome == "interrupted"


def test_waits_that_did_not_fail_their_test_are_caught(recording: Recording) -> None:
    recording.wait(1.0, "met")
    waits = [recording.wait(1.0, outcome) for outcome in ("timed out", "failed early")]
    recording.recorder.record_caught("t.py::test", [waits[1].number])
    (caught,) = [line.caught for line in recording.lines() if line.caught]
    assert caught.ids == ["r1-ab.gw3.2"]
    # Those of the next phase count.
    recording.recorder.record_caught("t.py::test", ())
    assert sum(line.caught is not None for line in recording.lines()) == 1
    recording.wait(1.0, "error")
    recording.recorder.record_caught("t.py::other", ())
    assert sum(line.caught is not None for line in recording.lines()) == 1


def test_nested_waits_are_distinguished(recording: Recording) -> None:
    outer = ActiveWait("a", "b", Deadline.after(60.0, recording.clock), Timeline(), 0.0)
    with recording.pending.entered(outer):
        recording.wait(1.0, "met")
    assert [line.wait.inner for line in recording.lines() if line.wait] == [True, False]


def test_evidence_is_recorded_when_collected(recording: Recording) -> None:
    wait = recording.wait(1.0, "failed early")
    assert len(recording.lines()) == 2
    tail = LogTail("p", "c", False, ("bye",))
    report = WaitReport(
        "pod ns/p",
        "be ready",
        True,
        "it failed",
        60.0,
        1.0,
        "watch",
        findings=Evidence(logs=(tail,)),
    )
    wait.record_report(report)
    explained = [line.explained for line in recording.lines() if line.explained]
    assert [(each.id, each.headline) for each in explained] == [
        ("r1-ab.gw3.1", "pod ns/p can no longer be ready: it failed")
    ]
    assert explained[0].text == report.render()
    assert explained[0].evidence["logs"][0]["lines"] == ["bye"]
    assert "timeline" not in explained[0].evidence


def test_evidence_is_bounded(recording: Recording) -> None:
    wait = recording.wait(1.0, "timed out")
    tails = tuple(LogTail(f"p{n}", "c", False, ("x" * 900,) * 30) for n in range(30))
    wait.record_report(
        WaitReport(
            "pod ns/p", "be ready", False, "no", 60.0, 1.0, "watch", findings=Evidence(logs=tails)
        )
    )
    (explained,) = [line.explained for line in recording.lines() if line.explained]
    assert len(msgspec.json.encode(explained)) < 50_000
    assert explained.evidence["logs_left_out"] > 0


def test_waits_of_several_threads_are_recorded(recording: Recording) -> None:
    threads = [threading.Thread(target=recording.wait, args=(0.0, "met")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {line.wait.id for line in recording.lines() if line.wait}
    assert len(ids) == 20


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abcdefghij", "abc … 4 characters … hij"),
        (["a", "b", "c"], ["a", "b"]),
        ({"l": [1, 2, 3], "n": None}, {"l": [1, 2], "n": None, "l_left_out": 1}),
    ],
)
def test_record_sizes_are_bounded(value: Any, expected: Any) -> None:
    assert limit_size(value, 2, 6) == expected


def test_the_text_of_a_failure_keeps_its_ends() -> None:
    text = limit_failure_text("first " + "x" * 100_000 + " last", str.upper)
    assert text.startswith("FIRST ")
    assert text.endswith(" LAST")
    assert len(text) < 17_000
    assert truncate_middle("short", 5) == "short"


def test_call_and_audit_of_a_wait_are_recorded(recording: Recording) -> None:
    wait = ActiveWait(
        "pod ns/p",
        "be ready",
        Deadline.after(60.0, recording.clock),
        Timeline(),
        0.0,
        limit=58.0,
        call=WaitCall("wait_for_pod_ready", "t.py:3", "pod", is_precondition=True, limit=60.0),
    )
    with recording.pending.entered(wait):
        wait.record_outcome("met", met_at_first_look=True)
    wait.record_holding(Holding("", 0.25, "failed"))
    _, ended, audited = recording.lines()
    record = ended.wait
    assert record is not None
    assert (record.name, record.site, record.precondition) == ("wait_for_pod_ready", "t.py:3", True)
    assert (record.limit, record.limit_name, record.first_look) == (60.0, "pod", True)
    assert audited.audited == AuditedWait("r1-ab.gw3.1", AuditRecord("", 0.25, "failed"))
