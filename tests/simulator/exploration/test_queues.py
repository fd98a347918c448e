from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.exploration.exploration import Exploration
from pytest_kwait.simulator.exploration.queues import QUEUE_DELAYS
from tests.simulator.exploration.seeds import explore, find_seed
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


class Queue:
    """A queue under an exploration, and what it handled at what time."""

    def __init__(
        self, seed: int, level: str = "harsh", only: Sequence[str] | None = None, name: str = "q"
    ) -> None:
        self.clock = ManualClock()
        self.exploration = Exploration(self.clock, seed, level, only)
        self.cluster = SimulatedCluster(self.clock)
        explore(self.cluster, self.exploration)
        self.done: list[tuple[float, str]] = []
        self.queue: Workqueue[str] = Workqueue(self.cluster, self._handle, name)

    def _handle(self, key: str) -> None:
        self.done.append((round(self.clock.monotonic(), 6), key))

    def keys(self) -> list[str]:
        return [key for _, key in self.done]


def test_late_key_is_handled_once_after_its_delay() -> None:
    seed = find_seed("harsh", [("work-delay", "work q a 1")])
    queue = Queue(seed, only=["work-delay"])
    queue.queue.add("t/a")
    queue.queue.add("t/a")
    assert len(queue.queue) == 1
    (decision,) = queue.exploration.applied
    queue.clock.advance(decision.size * 0.99)
    assert queue.done == []
    queue.clock.advance(1)
    assert queue.done == [(round(decision.size, 6), "t/a")]


def test_key_is_handled_before_those_added_earlier() -> None:
    seed = find_seed(
        "harsh", [("work-order", "work q c 1")], [("work-order", f"work q {key} 1") for key in "ab"]
    )
    queue = Queue(seed, only=["work-order"])
    for key in "abc":
        queue.queue.add(key)
    queue.clock.advance(0)
    assert queue.keys() == ["c", "a", "b"]


def test_forgotten_key_is_not_handled_later() -> None:
    seed = find_seed("harsh", [("work-delay", "work q a 1")])
    queue = Queue(seed, only=["work-delay"])
    queue.queue.add("a")
    queue.queue.forget("a")
    queue.clock.advance(10)
    assert (queue.done, len(queue.queue)) == ([], 0)


def test_reelected_controller_handles_all_its_keys_again() -> None:
    wanted = ("controller-reelection", "work q b 1")
    seed = find_seed("harsh", [wanted], [("controller-reelection", "work q a 1")])
    queue = Queue(seed, only=["controller-reelection"])
    queue.queue.add("a")
    queue.clock.advance(0)
    queue.queue.add("b")
    queue.clock.advance(14.9)
    assert queue.keys() == ["a"]
    queue.clock.advance(2.2)
    assert sorted(queue.keys()) == ["a", "a", "b"]


@pytest.mark.parametrize("seed", range(20))
def test_every_added_key_is_handled_in_the_end(seed: int) -> None:
    queue, draw = Queue(seed), random.Random(seed)
    last_added: dict[str, float] = {}
    for _ in range(60):
        key = draw.choice("abcdef")
        queue.queue.add(key)
        last_added[key] = round(queue.clock.monotonic(), 6)
        queue.clock.advance(draw.choice((0, 0.01, 0.2)))
    queue.clock.advance(60)
    for key, added in last_added.items():
        assert any(done == key and at >= added for at, done in queue.done), key


def test_end_makes_late_keys_ready_at_once() -> None:
    seed = find_seed("harsh", [("work-delay", "work q a 1")])
    queue = Queue(seed, only=["work-delay"])
    queue.queue.add("a")
    queue.exploration.end()
    explore(queue.cluster, None)
    queue.clock.advance(0)
    assert queue.done == [(0.0, "a")]


def test_end_resumes_a_paused_controller() -> None:
    seed = find_seed("harsh", [("controller-reelection", "work q a 1")])
    queue = Queue(seed, only=["controller-reelection"])
    queue.queue.add("a")
    queue.clock.advance(1)
    assert queue.done == []
    queue.exploration.end()
    explore(queue.cluster, None)
    queue.queue.add("b")
    queue.clock.advance(0)
    assert sorted(queue.keys()) == ["a", "b"]


def test_next_exploration_keeps_what_the_last_one_held() -> None:
    seed = find_seed("harsh", [("work-delay", "work q a 1")])
    queue = Queue(seed, only=["work-delay"])
    queue.queue.add("a")
    queue.exploration.end()
    explore(queue.cluster, Exploration(queue.clock, seed, "harsh", []))
    queue.queue.add("b")
    queue.clock.advance(0)
    assert sorted(queue.keys()) == ["a", "b"]


@pytest.mark.parametrize("name", QUEUE_DELAYS)
def test_delays_of_queues_have_names_of_their_own(name: str) -> None:
    label, text = name.replace(" ", "-"), "*" if name.startswith("namespace-") else "a"
    event = f"work {label} {text} 1"
    seed = find_seed("harsh", [(QUEUE_DELAYS[name], event)])
    queue = Queue(seed, only=[QUEUE_DELAYS[name]], name=name)
    queue.queue.add("t/a")
    assert [(one.name, one.event) for one in queue.exploration.applied] == [
        (QUEUE_DELAYS[name], event)
    ]
