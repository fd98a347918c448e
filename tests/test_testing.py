"""The fake clock."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from pytest_kwait import testing
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import Group


def test_time_moves_only_by_advance() -> None:
    clock = FakeClock(start=5, epoch=1000)
    assert (clock.monotonic(), clock.time()) == (5, 1000)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (7.5, 1002.5)


def test_sleeping_moves_time_on_without_sleeping() -> None:
    clock = FakeClock()
    for _ in range(10):
        clock.sleep(0.1)
    assert clock.monotonic() == 1.0
    assert clock.pauses == [0.1] * 10


@pytest.mark.parametrize("seconds", [0, -3])
def test_sleeping_for_no_time_moves_nothing(seconds: float) -> None:
    clock = FakeClock()
    clock.sleep(seconds)
    assert clock.monotonic() == 0


def test_the_shortest_sleep_still_moves_on() -> None:
    clock = FakeClock()
    clock.sleep(1e-15)
    assert clock.monotonic() == 1e-9


def test_waiting_returns_whether_the_event_was_set() -> None:
    clock = FakeClock()
    event = threading.Event()
    assert clock.wait(event, 3) is False
    assert clock.monotonic() == 3
    event.set()
    assert clock.wait(event, 3) is True
    assert clock.wait(event, 0) is True
    assert clock.monotonic() == 3


def test_planned_calls_run_when_they_are_due_and_in_order() -> None:
    clock = FakeClock()
    seen: list[tuple[str, float]] = []
    clock.call_later(2, lambda: seen.append(("second", clock.monotonic())))
    clock.call_later(1, lambda: seen.append(("first", clock.monotonic())))
    clock.call_later(2, lambda: seen.append(("third", clock.monotonic())))
    clock.call_later(9, lambda: seen.append(("never", clock.monotonic())))
    clock.sleep(5)
    assert seen == [("first", 1), ("second", 2), ("third", 2)]
    assert clock.monotonic() == 5


def test_a_planned_call_can_end_a_wait_before_its_limit() -> None:
    clock = FakeClock()
    event = threading.Event()
    clock.call_later(2, event.set)
    assert clock.wait(event, 10) is True
    assert clock.monotonic() == 2


def test_a_wait_without_limit_is_ended_by_planned_calls() -> None:
    clock = FakeClock()
    event = threading.Event()
    clock.call_later(1, int)
    clock.call_later(2, event.set)
    assert clock.wait(event) is True
    assert clock.monotonic() == 2


def test_a_wait_without_limit_is_ended_by_another_thread() -> None:
    clock = FakeClock()
    event = threading.Event()
    group = Group()
    group.start(event.set)
    assert clock.wait(event) is True
    group.wait()


def test_a_wait_that_nothing_can_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_REAL_TIMEOUT", 0.01)
    with pytest.raises(AssertionError) as caught:
        FakeClock().wait(threading.Event())
    assert str(caught.value) == "a wait without limit: the event was not set within 0.01 s"


def test_by_hand_a_sleeper_is_held_until_its_time() -> None:
    clock = FakeClock(auto=False)
    woken: list[float] = []
    group = Group()

    def sleeper(seconds: float) -> None:
        clock.sleep(seconds)
        woken.append(seconds)

    for seconds in (1, 2):
        group.start(partial(sleeper, seconds))
    clock.until_blocked(2)
    assert clock.blocked == 2
    clock.advance(0.5)
    assert woken == []
    clock.advance(1.5)
    group.wait()
    assert sorted(woken) == [1, 2]
    assert clock.blocked == 0


def test_by_hand_an_event_ends_a_wait() -> None:
    clock = FakeClock(auto=False)
    event = threading.Event()
    ended: list[bool] = []
    group = Group()
    group.start(lambda: ended.append(clock.wait(event)))
    group.start(lambda: ended.append(clock.wait(event, 60)))
    clock.until_blocked(2)
    event.set()
    group.wait()
    assert ended == [True, True]
    assert clock.monotonic() == 0


def test_by_hand_forgetting_to_move_the_clock_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_REAL_TIMEOUT", 0.01)
    with pytest.raises(AssertionError) as caught:
        FakeClock(auto=False).sleep(1)
    assert str(caught.value) == "the clock was not moved on within 0.01 s"


def test_waiting_for_threads_that_never_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_REAL_TIMEOUT", 0.01)
    with pytest.raises(AssertionError) as caught:
        FakeClock(auto=False).until_blocked(2)
    assert str(caught.value) == "0 of 2 threads reached the clock in 0.01 s"
