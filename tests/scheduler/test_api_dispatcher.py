from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.client.rate_limiter import NoLimit, TokenBucket
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.api_dispatcher import APICall, APIDispatcher
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.clock import Deadline


class DispatcherHarness:
    """A dispatcher and a record of its calls."""

    def __init__(self, threads: int = 2, **more: Any) -> None:
        self.clock = FakeClock(auto=False)
        self.dispatcher = APIDispatcher(
            "test",
            threads,
            more.pop("limiter", None) or NoLimit(),
            request_timeout=10,
            clock=self.clock,
            **more,
        )
        self.log: list[str] = []
        self.gate = threading.Event()
        self.changed = threading.Condition()

    def call(self, name: str, *, held: bool = False) -> APICall:
        def run(_deadline: Deadline) -> None:
            self.note(f"{name} begins")
            if held:
                assert self.gate.wait(PATIENCE)
            self.note(f"{name} ends")

        return APICall(run, lambda: self.note(f"{name} dropped"))

    def open_gate_after_close(self) -> None:
        def open_gate() -> None:
            assert self.dispatcher._ctx.done.wait(PATIENCE)
            self.gate.set()

        threading.Thread(target=open_gate).start()

    def note(self, what: str) -> None:
        with self.changed:
            self.log.append(what)
            self.changed.notify_all()

    def until(self, what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what in self.log, PATIENCE), self.log


@pytest.fixture
def harness() -> Iterator[DispatcherHarness]:
    harness = DispatcherHarness()
    harness.dispatcher.start()
    yield harness
    harness.gate.set()
    harness.dispatcher.close()


def test_calls_of_different_keys_run_concurrently(harness: DispatcherHarness) -> None:
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    harness.dispatcher.submit("b", harness.call("two"))
    harness.until("two ends")


def test_calls_of_one_key_are_serial_and_only_the_last_waiting_one_runs(
    harness: DispatcherHarness,
) -> None:
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    harness.dispatcher.submit("a", harness.call("two"))
    harness.dispatcher.submit("a", harness.call("three"))
    harness.gate.set()
    harness.until("three ends")
    assert harness.log == ["one begins", "two dropped", "one ends", "three begins", "three ends"]


def test_failed_call_does_not_stop_others(
    harness: DispatcherHarness, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_deadline: Deadline) -> None:
        raise RuntimeError("no")

    for number in range(4):
        harness.dispatcher.submit(str(number), APICall(fail))
    harness.dispatcher.submit("a", harness.call("one"))
    harness.until("one ends")
    assert "a call of the scheduler failed" in caplog.messages


def test_close_finishes_running_calls_and_drops_the_rest() -> None:
    harness = DispatcherHarness(threads=1)
    harness.dispatcher.start()
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    harness.dispatcher.submit("b", harness.call("two"))
    harness.dispatcher.submit("a", harness.call("three"))
    harness.open_gate_after_close()
    assert harness.dispatcher.close()
    assert sorted(harness.log) == ["one begins", "one ends", "three dropped", "two dropped"]
    harness.dispatcher.submit("c", harness.call("four"))
    assert harness.log[-1] == "four dropped"


@pytest.mark.parametrize(("flush", "second"), [(0.0, "two dropped"), (1.0, "two ends")])
def test_end_of_the_run_drops_waiting_calls_before_close(flush: float, second: str) -> None:
    harness = DispatcherHarness(threads=1, flush=flush)
    run, end_run = wait.with_cancel(wait.background(harness.clock))
    harness.dispatcher.start(run)
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    harness.dispatcher.submit("b", harness.call("two"))
    end_run()
    harness.gate.set()
    harness.until(second)
    assert harness.dispatcher.close()


def test_flush_sends_waiting_calls() -> None:
    harness = DispatcherHarness(threads=1, flush=1.0)
    harness.dispatcher.start()
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    harness.dispatcher.submit("b", harness.call("two"))
    harness.open_gate_after_close()
    assert harness.dispatcher.close()
    assert harness.log == ["one begins", "one ends", "two begins", "two ends"]


def test_close_does_not_wait_for_rate_limit() -> None:
    harness = DispatcherHarness(threads=1)
    limiter = TokenBucket(0.001, 1, harness.clock)
    harness.dispatcher = APIDispatcher("test", 1, limiter, request_timeout=10, clock=harness.clock)
    harness.dispatcher.start()
    harness.dispatcher.submit("a", harness.call("one"))
    harness.until("one ends")
    harness.dispatcher.submit("a", harness.call("two"))
    harness.clock.until_blocked()
    assert harness.dispatcher.close()
    assert harness.log[-1] == "two dropped"


def test_call_deadline_is_the_request_timeout(harness: DispatcherHarness) -> None:
    left: list[float] = []
    done = threading.Event()

    def run(deadline: Deadline) -> None:
        left.append(deadline.remaining)
        done.set()

    harness.dispatcher.submit("a", APICall(run))
    assert done.wait(PATIENCE)
    assert left == [10]


def test_close_before_start_drops_all() -> None:
    harness = DispatcherHarness()
    harness.dispatcher.submit("a", harness.call("one"))
    assert harness.dispatcher.close()
    assert harness.log == ["one dropped"]


def test_close_returns_within_request_timeout() -> None:
    harness = DispatcherHarness()
    harness.dispatcher = APIDispatcher(
        "test", 1, NoLimit(), request_timeout=0.01, clock=harness.clock
    )
    harness.dispatcher.start()
    harness.dispatcher.submit("a", harness.call("one", held=True))
    harness.until("one begins")
    assert not harness.dispatcher.close()
    harness.gate.set()
    harness.until("one ends")


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "4"])
def test_invalid_thread_counts_are_refused(threads: Any) -> None:
    with pytest.raises(InvalidArgument) as raised:
        APIDispatcher("test", threads, NoLimit(), request_timeout=1)
    assert str(raised.value) == f"bind_threads={threads!r} is not valid: a whole number, at least 1"
