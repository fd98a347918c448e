from __future__ import annotations

import asyncio
import math
import threading

import pytest

from pytest_kwait.apimachinery.times import MAX_SECONDS
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline, PausableClock, SystemClock, async_sleep
from pytest_kwait.testing import FakeClock


def test_a_deadline_counts_down_and_expires() -> None:
    clock = FakeClock()
    deadline = Deadline.after(3, clock)
    assert (deadline.remaining, deadline.expired) == (3, False)
    clock.advance(2)
    assert (deadline.remaining, deadline.expired) == (1, False)
    clock.advance(1)
    assert (deadline.remaining, deadline.expired) == (0, True)
    clock.advance(5)
    assert (deadline.remaining, deadline.expired) == (0, True)


def test_no_deadline_never_expires() -> None:
    clock = FakeClock()
    deadline = Deadline.after(None, clock)
    clock.advance(1e9)
    assert (deadline.remaining, deadline.expired) == (math.inf, False)


def test_a_deadline_of_zero_has_expired() -> None:
    assert Deadline.after(0, FakeClock()).expired


def test_at_most_is_the_earlier_of_both() -> None:
    clock = FakeClock(start=100)
    deadline = Deadline.after(10, clock)
    assert deadline.at_most(3).at == 103
    assert deadline.at_most(30).at == 110
    assert Deadline.after(None, clock).at_most(5).at == 105
    assert deadline.at_most(3).clock is clock


def test_the_system_clock_is_the_default() -> None:
    assert Deadline.after(5).clock is SYSTEM_CLOCK
    assert isinstance(SYSTEM_CLOCK, SystemClock)


def test_the_system_clock_never_goes_back() -> None:
    first = SYSTEM_CLOCK.monotonic()
    assert SYSTEM_CLOCK.monotonic() >= first
    assert SYSTEM_CLOCK.time() > 1_700_000_000


def test_the_system_clock_sleeps_only_for_a_positive_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("pytest_kwait.clock.time.sleep", slept.append)
    for seconds in (-1, 0, 2.5):
        SYSTEM_CLOCK.sleep(seconds)
    assert slept == [2.5]


def test_the_system_clock_waits_for_an_event() -> None:
    event = threading.Event()
    assert SYSTEM_CLOCK.wait(event, 0) is False
    event.set()
    assert SYSTEM_CLOCK.wait(event) is True


def test_the_system_clock_waits_longer_than_the_system_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    day, now, pauses = 86_400.0, [0.0], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            sleep(timeout or 0.0)
            return False

    monkeypatch.setattr("pytest_kwait.clock.time.monotonic", lambda: now[0])
    monkeypatch.setattr("pytest_kwait.clock.time.sleep", sleep)
    SYSTEM_CLOCK.sleep(2.5 * day)
    assert pauses == [day, day, day / 2]
    pauses.clear()
    assert not SYSTEM_CLOCK.wait(Event(), 2 * day + 1)
    assert pauses == [day, day, 1]


@pytest.mark.parametrize("seconds", [4_294_967.5, MAX_SECONDS, 1e300])
def test_the_system_clock_begins_any_wait(seconds: float) -> None:
    event = threading.Event()
    threading.Timer(0.02, event.set).start()
    assert SYSTEM_CLOCK.wait(event, seconds) is True


def test_async_sleep_lets_other_tasks_run() -> None:
    order: list[str] = []

    async def sleeper() -> None:
        order.append("sleeps")
        await async_sleep(0)
        order.append("woke")

    async def other() -> None:
        order.append("other")

    async def both() -> None:
        await asyncio.gather(sleeper(), other())

    asyncio.run(both())
    assert order == ["sleeps", "other", "woke"]


def test_stopped_clock_resumes_where_it_stopped() -> None:
    real = FakeClock(start=100)
    clock = PausableClock(real)
    deadline = Deadline.after(10, clock)
    real.advance(3)
    clock.stop()
    clock.stop()
    real.advance(1000)
    assert (clock.monotonic(), deadline.remaining) == (103, 7)
    assert clock.time() == real.time()
    clock.resume()
    clock.resume()
    assert (clock.monotonic(), deadline.remaining) == (103, 7)
    real.advance(7)
    assert deadline.expired


@pytest.mark.parametrize("how", ["wait", "sleep"])
def test_waits_on_a_stopped_clock_last_until_it_resumes(how: str) -> None:
    real = FakeClock()
    clock = PausableClock(real)
    real.call_later(1, clock.stop)
    real.call_later(60, clock.resume)
    if how == "wait":
        assert not clock.wait(threading.Event(), 5)
    else:
        clock.sleep(5)
    assert real.monotonic() == pytest.approx(64, abs=0.2)


def test_a_stopped_clock_lets_events_through() -> None:
    real, event = FakeClock(), threading.Event()
    clock = PausableClock(real)
    clock.stop()
    real.call_later(60, event.set)
    assert clock.wait(event, 5)
    assert clock.wait(event)
    assert real.monotonic() == pytest.approx(60, abs=0.2)


def test_zero_and_less_are_no_pause() -> None:
    clock = PausableClock(FakeClock())
    clock.sleep(-1)
    assert not clock.wait(threading.Event(), 0)
