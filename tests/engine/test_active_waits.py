from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.client.resource import JOBS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import (
    ACTIVE_WAITS,
    ActiveWait,
    ActiveWaits,
    Holding,
    Step,
    WaitCall,
    WaitContext,
    WaitObserver,
    get_failed_step,
)
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitTimeout
from pytest_kwait.framework.job.wait import wait_for_job_complete, wait_for_job_pods_running
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.testing import FakeClock
from tests.engine.fake_session import FakeSession
from tests.objects import created_job

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ears(WaitObserver):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_start(self, wait: ActiveWait) -> None:
        self.heard.append(f"begun {wait.subject}")

    def on_end(self, wait: ActiveWait) -> None:
        self.heard.append(f"over {wait.subject}")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_wait_is_active_until_it_ends(mode: str) -> None:
    session = FakeSession()
    session.put(JOBS, created_job())
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


class Events(WaitObserver):
    """The events of waits, each with what is known by then."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def on_start(self, wait: ActiveWait) -> None:
        self.seen.append(("started", wait.inner, wait.outcome))

    def on_end(self, wait: ActiveWait) -> None:
        self.seen.append(("ended", wait.outcome, wait.seconds, wait.retries, wait.trouble))

    def on_change(self, wait: ActiveWait) -> None:
        self.seen.append(("changed", wait.seen, wait.report is not None, wait.holding))


def test_events_of_a_wait() -> None:
    clock, waits, events = FakeClock(), ActiveWaits(), Events()
    waits.add(events)
    wait = ActiveWait("pod a", "run", Deadline.after(9.0, clock), Timeline(), clock.monotonic())
    with waits.entered(wait):
        clock.advance(1.5)
        wait.timeline.record(1.5, "no node")
        wait.timeline.record(1.6, "no node")
        wait.record_outcome("failed early", retries=2, trouble="503")
    wait.timeline.record(1.7, "after its end")
    wait.record_report(WaitReport("pod a", "run", True, "no", 9.0, 1.5, "watch"))
    holding = Holding()
    wait.record_holding(holding)
    waits.remove(events)
    wait.record_holding(Holding("gone"))
    assert events.seen == [
        ("started", False, ""),
        ("changed", "no node", False, None),
        ("ended", "failed early", 1.5, 2, "503"),
        ("changed", "after its end", True, None),
        ("changed", "after its end", True, holding),
    ]


def test_a_wait_without_outcome_is_interrupted_with_its_last_error() -> None:
    class Failing(WaitContext):
        def describe_error(self) -> str:
            return "503: busy"

    waits, events = ActiveWaits(), Events()
    waits.add(events)
    deadline = Deadline.after(9.0, FakeClock())
    wait = ActiveWait("pod a", "run", deadline, Timeline(), 0.0, context=Failing())
    with pytest.raises(KeyboardInterrupt), waits.entered(wait):
        raise KeyboardInterrupt
    assert events.seen[1][1:] == ("interrupted", wait.seconds, 0, "503: busy")


def test_an_observer_names_only_the_events_that_it_handles() -> None:
    waits = ActiveWaits()
    waits.add(WaitObserver())
    wait = ActiveWait("pod a", "run", Deadline.after(9.0, FakeClock()), Timeline(), 0.0)
    with waits.entered(wait):
        pass
    wait.record_holding(Holding())


def test_the_limit_of_a_located_call_is_that_of_the_timeout_table() -> None:
    deadline = Deadline.after(9.0, FakeClock())
    cut = WaitCall("wait_for_pod_running", "t.py:3", "pod_start", limit=60.0)
    own = WaitCall("wait_for_pod_running", "t.py:3")
    limits = [
        ActiveWait("a", "b", deadline, Timeline(), 0.0, limit=58.0, call=call).limit
        for call in (cut, own, None)
    ]
    assert limits == [60.0, 58.0, 58.0]


def test_a_wait_masks_by_its_context() -> None:
    class Masking(WaitContext):
        def describe_outage(self) -> str:
            return "no answer from hunter2"

        def hide(self, text: str) -> str:
            return text.replace("hunter2", "***")

    deadline = Deadline.after(9.0, FakeClock())
    wait = ActiveWait("pod hunter2", "run", deadline, Timeline(), 0.0, context=Masking())
    assert wait.text == "pod *** to run: no answer from ***; last seen: nothing"


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


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_wait_reports_each_change_of_what_it_sees(mode: str) -> None:
    session, events = FakeSession(), Events()
    session.put(JOBS, created_job())
    session.at(3.0, lambda: session.put(JOBS, created_job(status={"succeeded": 1})))
    ACTIVE_WAITS.add(events)
    settings = WaitSettings(6.0, mode=mode, fail_fast=False)  # type: ignore[arg-type]
    try:
        with pytest.raises(WaitTimeout):
            wait_for_condition(
                session, condition_of(wait_for_job_complete)("ci-1", "sleepers"), settings
            )
    finally:
        ACTIVE_WAITS.remove(events)
    texts = [" ".join(map(str, event[:2])) for event in events.seen]
    assert texts == [
        "started False",
        "changed 0 of 3 succeeded",
        "changed 1 of 3 succeeded",
        "ended timed out",
        # Its report.
        "changed 1 of 3 succeeded",
    ]


def test_a_context_is_around_a_wait_until_it_has_its_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def around(wait: ActiveWait) -> Iterator[None]:
        events.append(f"before {wait.name} in {wait.namespaces}: {wait.outcome!r}")
        try:
            yield
        finally:
            events.append(f"after: {wait.outcome}, {wait.report is not None}")

    monkeypatch.setattr(ACTIVE_WAITS, "wait_contexts", [around])
    session = FakeSession()
    session.put(JOBS, created_job())
    condition = condition_of(wait_for_job_complete)("ci-1", "sleepers")
    with pytest.raises(WaitTimeout):
        wait_for_condition(session, condition, WaitSettings(3.0), name="wait_for_job_complete")
    assert events == [
        "before wait_for_job_complete in ('ci-1',): ''",
        "after: timed out, True",
    ]


def test_a_part_of_a_wait_has_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def around(wait: ActiveWait) -> contextlib.nullcontext[None]:
        seen.append(wait.subject)
        return contextlib.nullcontext()

    monkeypatch.setattr(ACTIVE_WAITS, "wait_contexts", [around])
    with ACTIVE_WAITS.entered(_pod("outer")), ACTIVE_WAITS.entered(_pod("inner")):
        pass
    with ACTIVE_WAITS.entered(_pod("next")):
        pass
    assert seen == ["pod outer", "pod next"]


def test_a_wait_raises_what_its_context_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(wait: ActiveWait) -> contextlib.nullcontext[None]:
        raise ValueError(wait.subject)

    monkeypatch.setattr(ACTIVE_WAITS, "wait_contexts", [refuse])
    with pytest.raises(ValueError, match="pod a"), ACTIVE_WAITS.entered(_pod("a")):
        pass
    assert ACTIVE_WAITS.waits() == []


def test_a_context_is_around_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def around(name: str) -> Iterator[None]:
        events.append(f"before {name}")
        try:
            yield
        except ValueError as error:
            events.append(str(error))
            raise
        finally:
            events.append(f"after {name}")

    monkeypatch.setattr(ACTIVE_WAITS, "step_contexts", [around])
    with pytest.raises(ValueError, match="too heavy"), Step("sell"), Step("weigh"):
        raise ValueError("too heavy")
    assert events == [
        *("before sell", "before weigh"),
        *("too heavy", "after weigh", "too heavy", "after sell"),
    ]


def _pod(name: str) -> ActiveWait:
    return ActiveWait(f"pod {name}", "run", Deadline.after(9.0, FakeClock()), Timeline(), 0.0)
