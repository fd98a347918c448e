from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.rate_limiter import NoLimit, TokenBucket
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.api_dispatcher import APICall, APIDispatcher
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.clock import Deadline


class Bench:
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

    def note(self, what: str) -> None:
        with self.changed:
            self.log.append(what)
            self.changed.notify_all()

    def until(self, what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what in self.log, PATIENCE), self.log


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.dispatcher.start()
    yield bench
    bench.gate.set()
    bench.dispatcher.close()


def test_calls_of_different_keys_run_concurrently(bench: Bench) -> None:
    bench.dispatcher.submit("a", bench.call("one", held=True))
    bench.until("one begins")
    bench.dispatcher.submit("b", bench.call("two"))
    bench.until("two ends")


def test_calls_of_one_key_are_serial_and_only_the_last_waiting_one_runs(
    bench: Bench,
) -> None:
    bench.dispatcher.submit("a", bench.call("one", held=True))
    bench.until("one begins")
    bench.dispatcher.submit("a", bench.call("two"))
    bench.dispatcher.submit("a", bench.call("three"))
    bench.gate.set()
    bench.until("three ends")
    assert bench.log == ["one begins", "two dropped", "one ends", "three begins", "three ends"]


def test_failed_call_does_not_stop_others(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_deadline: Deadline) -> None:
        raise RuntimeError("no")

    for number in range(4):
        bench.dispatcher.submit(str(number), APICall(fail))
    bench.dispatcher.submit("a", bench.call("one"))
    bench.until("one ends")
    assert "a call of the scheduler failed" in caplog.messages


def test_close_finishes_running_calls_and_drops_the_rest() -> None:
    bench = Bench(threads=1)
    bench.dispatcher.start()
    bench.dispatcher.submit("a", bench.call("one", held=True))
    bench.until("one begins")
    bench.dispatcher.submit("b", bench.call("two"))
    bench.dispatcher.submit("a", bench.call("three"))
    threading.Timer(0.05, bench.gate.set).start()
    assert bench.dispatcher.close()
    assert sorted(bench.log) == ["one begins", "one ends", "three dropped", "two dropped"]
    bench.dispatcher.submit("c", bench.call("four"))
    assert bench.log[-1] == "four dropped"


def test_flush_sends_waiting_calls() -> None:
    bench = Bench(threads=1, flush=1.0)
    bench.dispatcher.start()
    bench.dispatcher.submit("a", bench.call("one", held=True))
    bench.until("one begins")
    bench.dispatcher.submit("b", bench.call("two"))
    threading.Timer(0.05, bench.gate.set).start()
    assert bench.dispatcher.close()
    assert bench.log == ["one begins", "one ends", "two begins", "two ends"]


def test_close_does_not_wait_for_rate_limit() -> None:
    bench = Bench(threads=1)
    limiter = TokenBucket(0.001, 1, bench.clock)
    bench.dispatcher = APIDispatcher("test", 1, limiter, request_timeout=10, clock=bench.clock)
    bench.dispatcher.start()
    bench.dispatcher.submit("a", bench.call("one"))
    bench.until("one ends")
    bench.dispatcher.submit("a", bench.call("two"))
    bench.clock.until_blocked()
    assert bench.dispatcher.close()
    assert bench.log[-1] == "two dropped"


def test_call_deadline_is_the_request_timeout(bench: Bench) -> None:
    left: list[float] = []
    done = threading.Event()

    def run(deadline: Deadline) -> None:
        left.append(deadline.remaining)
        done.set()

    bench.dispatcher.submit("a", APICall(run))
    assert done.wait(PATIENCE)
    assert left == [10]


def test_close_before_start_drops_all() -> None:
    bench = Bench()
    bench.dispatcher.submit("a", bench.call("one"))
    assert bench.dispatcher.close()
    assert bench.log == ["one dropped"]


def test_close_returns_within_request_timeout() -> None:
    bench = Bench()
    bench.dispatcher = APIDispatcher("test", 1, NoLimit(), request_timeout=0.01, clock=bench.clock)
    bench.dispatcher.start()
    bench.dispatcher.submit("a", bench.call("one", held=True))
    bench.until("one begins")
    assert not bench.dispatcher.close()
    bench.gate.set()
    bench.until("one ends")


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "4"])
def test_invalid_thread_counts_are_refused(threads: Any) -> None:
    with pytest.raises(InvalidArgument) as raised:
        APIDispatcher("test", threads, NoLimit(), request_timeout=1)
    assert str(raised.value) == f"bind_threads={threads!r} is not valid: a whole number, at least 1"
