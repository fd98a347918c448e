from __future__ import annotations

import threading

import pytest

from pytest_kwait.client.resource import JOBS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import (
    ACTIVE_WAITS,
    ActiveWait,
    ActiveWaits,
    Step,
    get_failed_step,
)
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitTimeout
from pytest_kwait.framework.job.wait import wait_for_job_pods_running
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.testing import FakeClock
from tests.engine.fake_session import FakeSession, job


class Ears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_start(self, wait: ActiveWait) -> None:
        self.heard.append(f"begun {wait.subject}")

    def on_end(self, wait: ActiveWait) -> None:
        self.heard.append(f"over {wait.subject}")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_wait_is_active_until_it_ends(mode: str) -> None:
    session = FakeSession()
    session.put(JOBS, job())
    seen: list[str] = []
    session.at(3.0, lambda: seen.extend(str(wait) for wait in ACTIVE_WAITS.waits()))
    ears = Ears()
    ACTIVE_WAITS.add(ears)
    settings = WaitSettings(12.0, mode=mode)  # type: ignore[arg-type]
    # Two seconds of its limit were used before: they are a part of the wait.
    deadline = Deadline.after(10.0, session.script_clock)
    try:
        with pytest.raises(WaitTimeout) as caught:
            wait_for_condition(
                session,
                condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 3),
                settings,
                deadline,
            )
    finally:
        ACTIVE_WAITS.remove(ears)

    text = "job ci-1/sleepers to have 3 pods Running: 0 of 3 pods Running (after 5s, 7s left)"
    assert seen == [text]
    assert caught.value.waited == 12.0
    assert ACTIVE_WAITS.waits() == []
    assert ears.heard == ["begun job ci-1/sleepers", "over job ci-1/sleepers"]


def test_text_of_a_wait_without_verdict() -> None:
    clock = FakeClock()
    wait = ActiveWait("pod ci-1/a", "be ready", Deadline.after(65.4, clock), Timeline(), 0.0)
    assert str(wait) == "pod ci-1/a to be ready: nothing seen yet (after 0s, 1m5s left)"
    wait.timeline.record(0.0, "two\nlines")
    assert wait.text == "pod ci-1/a to be ready: two lines"


def test_waits_of_several_threads_are_kept_apart() -> None:
    clock, pending = FakeClock(), ActiveWaits()
    wait = ActiveWait("a", "b", Deadline.after(1.0, clock), Timeline(), 0.0)
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with pending.entered(ActiveWait("c", "d", wait.deadline, Timeline(), 0.0)):
            inside.set()
            leave.wait(10.0)

    thread = threading.Thread(target=other)
    with pending.entered(wait):
        thread.start()
        assert inside.wait(10.0)
        assert [each.subject for each in pending.waits()] == ["a", "c"]
    assert [each.subject for each in pending.waits()] == ["c"]
    leave.set()
    thread.join(10.0)
    assert pending.waits() == []


def test_steps_are_nested() -> None:
    with Step("create the shop"), Step("fill it"):
        wait = ActiveWait("pod a", "run", Deadline.after(9.0, FakeClock()), Timeline(), 0.0)
    after = ActiveWait("pod a", "run", Deadline.after(9.0, FakeClock()), Timeline(), 0.0)

    assert (wait.step, after.step) == ("create the shop > fill it", "")
    assert wait.text == "in step create the shop > fill it: pod a to run: nothing seen yet"


def test_an_error_names_the_innermost_step_once() -> None:
    def fail() -> None:
        with Step("open"):
            pass
        with Step("sell"), Step("weigh"):
            raise ValueError("too heavy")

    with pytest.raises(ValueError, match="too heavy") as caught:
        fail()

    assert caught.value.__notes__ == ["in step sell > weigh"]
    assert get_failed_step(caught.value) == "sell > weigh"
    assert get_failed_step(None) == ""
