from __future__ import annotations

import pytest

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.workqueue import (
    BASE_DELAY,
    MAX_DELAY,
    Workqueue,
    calculate_delay,
)
from tests.simulator.manual_clock import ManualClock


class Work:
    """A queue and a record of its work with times."""

    def __init__(
        self, scale: float = 1.0, *, base_delay: float = BASE_DELAY, max_delay: float = MAX_DELAY
    ) -> None:
        self.clock = ManualClock(scale)
        self.done: list[tuple[float, str]] = []
        self.failures = 0
        self.queue: Workqueue[str] = Workqueue(
            SimulatedCluster(self.clock),
            self._handle,
            "test",
            base_delay=base_delay,
            max_delay=max_delay,
        )

    def _handle(self, key: str) -> None:
        self.done.append((round(self.clock.monotonic(), 3), key))
        if self.failures:
            self.failures -= 1
            raise bad_request("no")


def test_key_is_handled_once_per_batch_of_adds() -> None:
    work = Work()
    for key in ("a", "b", "a"):
        work.queue.add(key)
    assert work.done == []
    work.clock.advance(0)
    assert work.done == [(0, "a"), (0, "b")]
    assert len(work.queue) == 0


def test_key_added_during_work_is_handled_later() -> None:
    clock = ManualClock()
    done: list[int] = []

    def handle(key: int) -> None:
        done.append(key)
        if key < 3:
            queue.add(key + 1)

    queue: Workqueue[int] = Workqueue(SimulatedCluster(clock), handle, "test")
    queue.add(1)
    queue.add(10)
    clock.advance(0)
    assert done == [1, 10, 2, 3]


def test_earlier_of_two_delays_counts() -> None:
    work = Work()
    work.queue.add_after("a", 5)
    work.queue.add_after("a", 2)
    work.queue.add_after("a", 9)
    work.clock.advance(20)
    assert work.done == [(2, "a")]


@pytest.mark.parametrize(("scaled", "at"), [(True, 0.5), (False, 5.0)])
def test_delays_scale_unless_they_are_real_seconds(scaled: bool, at: float) -> None:
    work = Work(scale=0.1)
    work.queue.add_after("a", 5, scaled=scaled)
    work.clock.advance(10)
    assert work.done == [(at, "a")]


@pytest.mark.parametrize("seconds", [0, -3])
def test_zero_delay_is_immediate(seconds: float) -> None:
    work = Work()
    work.queue.add_after("a", seconds)
    work.clock.advance(0)
    assert work.done == [(0, "a")]


def test_status_error_is_retried_with_growing_delays() -> None:
    work = Work()
    work.failures = 3
    work.queue.add("a")
    work.clock.advance(1)
    assert [at for at, _ in work.done] == [0, 0.005, 0.015, 0.035]
    work.failures = 1
    work.queue.add("a")
    work.clock.advance(1)
    assert [at for at, _ in work.done][4:] == [1, 1.005]


def test_forgotten_key_is_not_handled() -> None:
    work = Work()
    work.queue.add("a")
    work.queue.add_after("b", 1)
    work.queue.forget("a")
    work.queue.forget("b")
    work.clock.advance(5)
    assert work.done == []


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 0.005), (1, 0.01), (10, 5.12), (17, 655.36), (18, 1000), (99, 1000)]
)
def test_delay_doubles_up_to_a_limit(failures: int, delay: float) -> None:
    assert calculate_delay(failures) == pytest.approx(delay)


def test_delays_of_a_controller_with_its_own_limits() -> None:
    work = Work(base_delay=1, max_delay=3)
    work.failures = 4
    work.queue.add("a")
    work.clock.advance(20)
    assert [at for at, _ in work.done] == [0, 1, 3, 6, 9]
