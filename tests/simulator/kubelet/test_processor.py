"""The processor that the containers of a cluster share."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.kubelet.processor import Credit, Processor, processor_of
from tests.simulator.kubelet.container_room import Room
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.tasks import Task, Tasks


def test_a_cluster_has_one_processor() -> None:
    one, other = ManualClock(), ManualClock()
    assert processor_of(one) is processor_of(one)
    assert processor_of(one) is not processor_of(other)


def test_a_cluster_that_nobody_has_any_more_goes_with_its_containers() -> None:
    room = Room("sh", "-c", "while :; do :; done")
    room.clock.advance(0.1)
    gone = weakref.ref(room.clock)
    del room
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "script", ["exit 4", "cat /no | grep port || exit 4", "x=$(true); (exit 4)"]
)
def test_what_ends_at_once_was_never_seen_at_work(script: str) -> None:
    room = Room("sh", "-c", script)
    assert (room.container.running, room.container.exit_code) == (False, 4)


@pytest.mark.parametrize("count", [1, 8])
def test_those_in_debt_share_what_one_of_them_would_gain(count: int) -> None:
    clock = ManualClock()
    shared = [Credit(clock) for _ in range(count)]
    for credit in shared:
        credit.spend(0.3)
    assert not any(credit.good for credit in shared)
    # A debt of 0.2 s, of which 0.1 s is made good in a second.
    clock.advance(1.9 * count)
    assert not any(credit.good for credit in shared)
    clock.advance(0.2 * count)
    assert all(credit.good for credit in shared)


def test_a_debt_has_an_end() -> None:
    clock = ManualClock()
    credit = Credit(clock)
    credit.spend(1000)
    clock.advance(6)
    assert credit.good


def test_of_those_who_wake_together_most_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    rooms = [Room("sh", "-c", "sleep 1; sleep 999", clock=clock) for _ in range(300)]
    waited: list[Tasks] = []
    schedule = Processor.schedule

    def count(self: Processor, tasks: Tasks, task: Task) -> None:
        waited.append(tasks)
        schedule(self, tasks, task)

    monkeypatch.setattr(Processor, "schedule", count)
    clock.advance(1)
    assert len(rooms) / 2 < len(set(waited)) < len(rooms)
