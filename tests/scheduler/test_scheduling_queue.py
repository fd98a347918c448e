from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.scheduling_queue import QueuedPodInfo, QueueState, SchedulingQueue
from pytest_kwait.testing import FakeClock
from tests.scheduler.fakes import pod


def name_of(entry: QueuedPodInfo | None) -> str | None:
    return None if entry is None else entry.pod["metadata"]["name"]


class Bench:
    """A queue and its clock."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock(start=1000)
        self.queue = SchedulingQueue(clock=self.clock, **options)

    def pop(self) -> QueuedPodInfo:
        entry = self.pop_soon()
        assert entry is not None
        return entry

    def pop_soon(self, seconds: float = 0) -> QueuedPodInfo | None:
        """Advance the time and pop the next pod, if any."""
        self.clock.advance(seconds)
        return self.queue.pop(wait.background(self.clock).limited(0))

    def names(self) -> list[str | None]:
        taken = []
        while (entry := self.pop_soon()) is not None:
            taken.append(name_of(entry))
        return taken

    def fail(self, entry: QueuedPodInfo, *, error: bool = False) -> None:
        self.queue.add_unschedulable(entry, entry.pod, error=error)


def test_pods_are_ordered_by_priority_then_time() -> None:
    bench = Bench()
    for name, priority in (("a", 0), ("b", 10), ("c", None), ("d", 10)):
        bench.queue.add(pod(name, priority=priority))
        bench.clock.advance(1)
    assert bench.names() == ["b", "d", "a", "c"]


def test_pod_is_queued_once() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    bench.queue.add(pod("a"))
    assert bench.names() == ["a"]
    assert len(bench.queue) == 1  # it is being tried


@pytest.mark.parametrize(
    ("failures", "error", "pause"),
    [
        (1, False, 1),
        (2, False, 2),
        (3, False, 4),
        (4, False, 8),
        (5, False, 10),
        (70, False, 10),
        (1, True, 1),
        (4, True, 8),
        (5, True, 10),
    ],
)
def test_backoff_doubles_up_to_its_limit(failures: int, error: bool, pause: float) -> None:
    bench = Bench(pop_from_backoff=False)
    bench.queue.add(pod("a"))
    for _ in range(failures - 1):
        bench.fail(bench.pop(), error=error)
        bench.queue.move_all()
        bench.clock.advance(10)
    bench.fail(bench.pop(), error=error)
    bench.queue.move_all()
    assert bench.pop_soon(pause - 0.001) is None
    assert name_of(bench.pop_soon(0.001)) == "a"


def test_backoff_can_be_disabled() -> None:
    bench = Bench(max_backoff=0)
    bench.queue.add(pod("a"))
    bench.fail(bench.pop(), error=True)
    assert bench.names() == ["a"]


def test_unschedulable_pod_waits_for_a_change() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    bench.fail(bench.pop())
    assert bench.pop_soon(299) is None
    assert [p["metadata"]["name"] for p in bench.queue.pods(QueueState.UNSCHEDULABLE)] == ["a"]
    bench.queue.move_all()
    assert bench.names() == ["a"]


def test_change_during_attempt_counts() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.queue.add(pod("a"))
    entry = bench.pop()
    bench.queue.move_all()
    bench.fail(entry)
    assert len(bench.queue.pods(QueueState.BACKOFF)) == 1
    assert name_of(bench.pop_soon(1)) == "a"


def test_change_before_attempt_does_not_count() -> None:
    bench = Bench()
    bench.queue.move_all()
    bench.queue.add(pod("a"))
    bench.fail(bench.pop())
    assert len(bench.queue.pods(QueueState.UNSCHEDULABLE)) == 1


def test_pod_update_during_attempt_counts() -> None:
    bench = Bench()
    old, new = pod("a"), pod("a", labels={"new": "1"})
    bench.queue.add(old)
    entry = bench.pop()
    bench.queue.update(old, {**old, "status": {"phase": "Pending", "conditions": []}})
    bench.queue.update(old, new)
    bench.queue.add_unschedulable(entry, new, error=False)
    assert bench.pop().pod == new
    assert entry.attempts == 2
    bench.queue.add_unschedulable(entry, new, error=False)
    assert bench.names() == []


AFFINITY: dict[str, Any] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
SPREAD: list[dict[str, Any]] = [{"maxSkew": 1}]


@pytest.mark.parametrize(
    ("spec", "moved"),
    [({}, False), ({"affinity": AFFINITY}, True), ({"topologySpreadConstraints": SPREAD}, True)],
)
def test_pod_changes_matter_only_to_dependent_pods(spec: dict[str, Any], moved: bool) -> None:
    bench = Bench()
    bench.queue.add(pod("a", **spec))
    bench.fail(bench.pop())
    bench.queue.move_dependents()
    entry = bench.pop_soon()
    assert (entry is not None) is moved
    if entry is not None:
        bench.queue.move_dependents()
        bench.fail(entry)
        assert len(bench.queue.pods(QueueState.BACKOFF)) == 1


def test_idle_queue_cuts_backoff_short_but_not_after_errors() -> None:
    bench = Bench()
    for name in ("unfit", "broken"):
        bench.queue.add(pod(name))
        bench.fail(bench.pop(), error=name == "broken")
    bench.queue.move_all()
    bench.queue.add(pod("new"))
    assert bench.names() == ["new", "unfit"]
    assert name_of(bench.pop_soon(2)) == "broken"


def test_backoffs_of_the_same_second_end_by_priority() -> None:
    bench = Bench()
    for name, priority in (("low", 0), ("high", 5)):
        bench.queue.add(pod(name, priority=priority))
        bench.fail(bench.pop())
        bench.clock.advance(0.3)
    bench.queue.move_all()
    assert bench.names() == ["high", "low"]


def test_unschedulable_pod_is_retried_after_five_minutes() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    bench.fail(bench.pop())
    bench.clock.advance(300)
    bench.queue.flush_unschedulable()
    assert bench.names() == []
    bench.clock.advance(0.001)
    bench.queue.flush_unschedulable()
    assert bench.names() == ["a"]


def test_gated_pod_waits_for_its_last_gate() -> None:
    bench = Bench()
    both = pod("a", schedulingGates=[{"name": "x"}, {"name": "y"}])
    one = pod("a", schedulingGates=[{"name": "y"}])
    bench.queue.add(both)
    bench.queue.move_all()
    bench.queue.update(both, one)
    assert bench.names() == []
    assert bench.queue.pods(QueueState.GATED) == [one]
    bench.queue.update(one, pod("a"))
    assert bench.names() == ["a"]


def test_waiting_pod_is_tried_in_its_latest_state() -> None:
    bench = Bench()
    new = pod("a", version=2)
    bench.queue.add(pod("a"))
    bench.queue.update(pod("a"), new)
    assert bench.pop().pod is new


def test_status_update_of_unschedulable_pod_does_not_retry_it() -> None:
    bench = Bench()
    old = pod("a")
    bench.queue.add(old)
    bench.fail(bench.pop())
    told = {**pod("a", version=2), "status": {"phase": "Pending", "conditions": [{}]}}
    bench.queue.update(old, told)
    assert bench.names() == []
    bench.queue.update(told, pod("a", version=3, tolerations=[{"operator": "Exists"}]))
    assert bench.names() == ["a"]


def test_update_of_an_unknown_pod_queues_it() -> None:
    bench = Bench()
    bench.queue.update(pod("a"), pod("a", version=2))
    assert bench.names() == ["a"]


@pytest.mark.parametrize("failed", [False, True])
def test_deleted_pod_is_not_popped(failed: bool) -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    if failed:
        bench.fail(bench.pop())
    bench.queue.delete(pod("a"))
    bench.queue.move_all()
    assert bench.names() == []
    assert len(bench.queue) == 0
    bench.queue.delete(pod("a"))


def test_pod_deleted_during_attempt_does_not_return() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    entry = bench.pop()
    bench.queue.delete(entry.pod)
    bench.fail(entry)
    assert len(bench.queue) == 0


def test_recreated_pod_is_another_pod() -> None:
    bench = Bench()
    bench.queue.add(pod("a", uid="1"))
    first = bench.pop()
    bench.queue.delete(first.pod)
    bench.queue.add(pod("a", uid="2"))
    bench.fail(first)
    assert bench.pop().uid == "2"


def test_done_pod_is_forgotten_unless_queued_again() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    entry = bench.pop()
    bench.queue.done(entry)
    assert len(bench.queue) == 0
    bench.queue.add(pod("a"))
    bench.queue.done(entry)
    assert bench.names() == ["a"]


def test_attempts_and_first_active_time_are_recorded() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.queue.add(pod("a", schedulingGates=[{"name": "x"}]))
    bench.clock.advance(5)
    bench.queue.update(pod("a", schedulingGates=[{"name": "x"}]), pod("a"))
    bench.clock.advance(2)
    bench.fail(bench.pop(), error=True)
    bench.clock.advance(1)
    entry = bench.pop()
    assert (entry.attempts, entry.first_active) == (2, 1005)


def test_error_count_is_reset_by_a_rejection() -> None:
    bench = Bench()
    bench.queue.add(pod("a"))
    bench.fail(bench.pop())
    bench.queue.move_all()
    bench.fail(bench.pop(), error=True)
    bench.clock.advance(10)
    entry = bench.pop()
    assert (entry.unschedulable_count, entry.error_count) == (1, 1)
    bench.fail(entry)
    assert (entry.unschedulable_count, entry.error_count) == (2, 0)


def test_waiting_ends_with_the_first_pod() -> None:
    clock = FakeClock(auto=False)
    queue = SchedulingQueue(clock=clock)
    taken: list[str | None] = []
    group = wait.Group()
    group.start(lambda: taken.append(name_of(queue.pop(wait.background(clock)))))
    clock.until_blocked()
    queue.add(pod("a"))
    group.wait()
    assert taken == ["a"]


def test_waiting_ends_with_a_back_off() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.queue.add(pod("a"))
    bench.fail(bench.pop(), error=True)
    assert name_of(bench.queue.pop(wait.background(bench.clock))) == "a"
    assert bench.clock.monotonic() == 1001


def test_waiting_ends_with_the_context() -> None:
    clock = FakeClock(auto=False)
    queue = SchedulingQueue(clock=clock)
    taken: list[QueuedPodInfo | None] = []
    stop = threading.Event()
    group = wait.Group()
    group.start(lambda: taken.append(queue.pop(wait.context_for_channel(stop, clock))))
    clock.until_blocked()
    stop.set()
    clock.advance(0.05)
    group.wait()
    assert taken == [None]


def test_queue_lengths_are_measured() -> None:
    lengths: dict[str, int] = {}

    class Metrics:
        def attempt(self, profile: str, result: str, seconds: float) -> None: ...

        def pod_scheduled(self, attempts: int, seconds: float) -> None: ...

        def queue_length(self, queue: str, length: int) -> None:
            lengths[queue] = length

    bench = Bench(metrics=Metrics(), pop_from_backoff=False)
    for name in ("unfit", "broken", "ready"):
        bench.queue.add(pod(name))
    bench.queue.add(pod("gated", schedulingGates=[{"name": "x"}]))
    bench.fail(bench.pop())
    bench.fail(bench.pop(), error=True)
    assert lengths == {"active": 1, "unschedulable": 1, "backoff": 1, "gated": 1}
    for name in ("unfit", "broken", "ready", "gated"):
        bench.queue.delete(pod(name))
    assert lengths == {"active": 0, "unschedulable": 0, "backoff": 0, "gated": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"initial_backoff": 11},
            "pod_initial_backoff=11 is not valid: above zero and at most pod_max_backoff (10s)",
        ),
        (
            {"initial_backoff": 0},
            "pod_initial_backoff=0 is not valid: above zero and at most pod_max_backoff (10s)",
        ),
    ],
)
def test_invalid_backoffs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SchedulingQueue(**options)
    assert str(raised.value) == message
