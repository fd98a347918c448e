from __future__ import annotations

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import (
    ActiveWait,
    ActiveWaits,
    Holding,
    WaitCall,
    WaitObserver,
)
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.suite.audit.rows import AuditCollector, make_row
from pytest_kwait.suite.report.records import AuditRecord, WaitRecord, record_ended_wait
from pytest_kwait.testing import FakeClock


class Waits:
    """Waits on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.collector = AuditCollector(lambda: "t::a")
        self.active = ActiveWaits()
        self.active.add(self.collector)

    def wait(self, outcome: str = "met", name: str = "wait_for_pod_ready") -> ActiveWait:
        started = self.clock.monotonic()
        call = WaitCall(name, "t.py:3", "pod", limit=60.0)
        deadline = Deadline.after(60.0, self.clock)
        wait = ActiveWait("a", "b", deadline, Timeline(), started, call=call)
        with self.active.entered(wait):
            self.clock.advance(1.5)
            wait.record_outcome(outcome)
        return wait


def test_row_names_the_duration_of_the_report() -> None:
    waits = Waits()
    clock, reported = waits.clock, []

    class SlowReport(WaitObserver):
        def on_end(self, wait: ActiveWait) -> None:
            clock.advance(0.04)
            reported.append(record_ended_wait(wait, "w", "r", 0.0).seconds)

    waits.active = ActiveWaits()
    waits.active.add(SlowReport())
    waits.active.add(waits.collector)
    wait = waits.wait()
    wait.record_holding(Holding())
    ((_, _, _, _, seconds, *_),) = waits.collector.take_rows()
    assert [seconds] == reported == [1.5]


def test_row_is_taken_once_its_observation_has_ended() -> None:
    waits = Waits()
    wait = waits.wait()
    assert waits.collector.take_rows() == []
    wait.record_holding(Holding("", 0.25, "failed"))
    facts = ["wait_for_pod_ready", "t.py:3", "t::a", False, 1.5, 60.0, "pod", False]
    assert waits.collector.take_rows() == [[*facts, "", 0.25, "failed"]]
    assert waits.collector.take_rows() == []


def test_waits_that_failed_or_that_no_test_called_are_left_out() -> None:
    waits = Waits()
    for wait in (waits.wait("timed out"), waits.wait(name="")):
        wait.record_holding(Holding())
    assert waits.collector.take_rows() == []


def test_row_of_a_record_is_that_of_the_wait() -> None:
    record = WaitRecord(
        id="1",
        run="r",
        subject="a",
        goal="b",
        started=1.0,
        seconds=1.5,
        outcome="met",
        test="t::a",
        name="wait_for_pod_ready",
        site="t.py:3",
        limit=60.0,
        limit_name="pod",
    )
    facts = ["wait_for_pod_ready", "t.py:3", "t::a", False, 1.5, 60.0, "pod", False]
    assert make_row(record) == [*facts, None, None, ""]
    record.audit = AuditRecord("", 0.25, "failed")
    assert make_row(record) == [*facts, "", 0.25, "failed"]
