from __future__ import annotations

import pytest

from pytest_kwait.cache.collection_watch import EventPace
from pytest_kwait.testing import FakeClock


def busy(clock: FakeClock, pace: EventPace, events: int, apart: float) -> list[bool]:
    said = []
    for _ in range(events):
        clock.advance(apart)
        said.append(pace.gather() > 0)
        pace.record_wakeup()
    return said


@pytest.mark.parametrize(
    ("apart", "from_event"),
    [(0.004, 9), (0.012, 9), (0.013, None), (1.0, None), (0.0001, None)],
)
def test_frequent_single_events_are_gathered(apart: float, from_event: int | None) -> None:
    clock = FakeClock()
    said = busy(clock, EventPace(clock), 30, apart)
    assert (said.index(True) + 1 if any(said) else None) == from_event
    assert said == sorted(said)


def test_quiet_moment_resets_the_pace() -> None:
    clock = FakeClock()
    pace = EventPace(clock)
    assert busy(clock, pace, 20, 0.004)[-1]
    clock.advance(0.2)
    assert not any(busy(clock, pace, 8, 0.004))
    assert all(busy(clock, pace, 7, 0.004))


def test_time_spent_on_an_event_is_no_wait_for_the_next() -> None:
    clock = FakeClock()
    pace = EventPace(clock)
    for _ in range(30):
        clock.advance(0.0001)
        assert not pace.gather()
        clock.advance(0.004)
        pace.record_wakeup()


def test_events_of_one_batch_are_evaluated_in_order() -> None:
    clock = FakeClock()
    pace = EventPace(clock)
    # A burst after a quiet time: what comes next may be what was awaited.
    clock.advance(1.0)
    assert not pace.gather(20, drained=True)
    pace.record_wakeup()
    clock.advance(0.004)
    assert pace.gather(2, drained=True)


@pytest.mark.parametrize("drained", [True, False])
def test_arrived_events_are_read_before_a_pause(drained: bool) -> None:
    clock = FakeClock()
    pace = EventPace(clock)
    for _ in range(3):
        clock.advance(0.05)
        pace.record_wakeup()
        busy = pace.gather(10, drained=drained)
    assert busy == (0.05 if drained else 0)


def test_the_longer_it_lasts_the_longer_they_gather() -> None:
    clock = FakeClock()
    pace = EventPace(clock)
    said: list[float] = []
    for _ in range(60):
        # 100 events a second, and whatever they are let gather.
        together = 1 if not said or not said[-1] else round(said[-1] * 100)
        clock.advance(together / 100)
        said.append(pace.gather(together, drained=True))
        pace.record_wakeup()
    assert said[:9] == [0] * 8 + [0.05]
    assert said == sorted(said)
    # With the ninth one has come this way, with each of the next 40 five more.
    assert said.index(0.1) == 8 + 40
    clock.advance(1.0)
    assert pace.gather(3, drained=True) == 0
    pace.record_wakeup()
