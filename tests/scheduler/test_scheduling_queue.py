from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.scheduling_queue import (
    QueuedPodInfo,
    QueueState,
    SchedulingQueue,
    has_node_scheduling_change,
    has_pod_scheduling_change,
    is_scaled_down,
)
from pytest_kwait.testing import FakeClock
from tests.objects import node
from tests.scheduler.fakes import queued_pod


def name_of(entry: QueuedPodInfo | None) -> str | None:
    return None if entry is None else entry.pod["metadata"]["name"]


class QueueHarness:
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
    harness = QueueHarness()
    for name, priority in (("a", 0), ("b", 10), ("c", None), ("d", 10)):
        harness.queue.add(queued_pod(name, priority=priority))
        harness.clock.advance(1)
    assert harness.names() == ["b", "d", "a", "c"]


def test_pod_is_queued_once() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    harness.queue.add(queued_pod("a"))
    assert harness.names() == ["a"]
    assert len(harness.queue) == 1  # it is being tried


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
    harness = QueueHarness(pop_from_backoff=False)
    harness.queue.add(queued_pod("a"))
    for _ in range(failures - 1):
        harness.fail(harness.pop(), error=error)
        harness.queue.move_all()
        harness.clock.advance(10)
    harness.fail(harness.pop(), error=error)
    harness.queue.move_all()
    assert harness.pop_soon(pause - 0.001) is None
    assert name_of(harness.pop_soon(0.001)) == "a"


def test_backoff_can_be_disabled() -> None:
    harness = QueueHarness(max_backoff=0)
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop(), error=True)
    assert harness.names() == ["a"]


def test_unschedulable_pod_waits_for_a_change() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop())
    assert harness.pop_soon(299) is None
    assert [p["metadata"]["name"] for p in harness.queue.pods(QueueState.UNSCHEDULABLE)] == ["a"]
    harness.queue.move_all()
    assert harness.names() == ["a"]


def test_change_during_attempt_counts() -> None:
    harness = QueueHarness(pop_from_backoff=False)
    harness.queue.add(queued_pod("a"))
    entry = harness.pop()
    harness.queue.move_all()
    harness.fail(entry)
    assert len(harness.queue.pods(QueueState.BACKOFF)) == 1
    assert name_of(harness.pop_soon(1)) == "a"


def test_change_before_attempt_does_not_count() -> None:
    harness = QueueHarness()
    harness.queue.move_all()
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop())
    assert len(harness.queue.pods(QueueState.UNSCHEDULABLE)) == 1


def test_pod_update_during_attempt_counts() -> None:
    harness = QueueHarness()
    old, new = queued_pod("a"), queued_pod("a", labels={"new": "1"})
    harness.queue.add(old)
    entry = harness.pop()
    harness.queue.update(old, {**old, "status": {"phase": "Pending", "conditions": []}})
    harness.queue.update(old, new)
    harness.queue.add_unschedulable(entry, new, error=False)
    assert harness.pop().pod == new
    assert entry.attempts == 2
    harness.queue.add_unschedulable(entry, new, error=False)
    assert harness.names() == []


AFFINITY: dict[str, Any] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
SPREAD: list[dict[str, Any]] = [{"maxSkew": 1}]


@pytest.mark.parametrize(
    ("spec", "moved"),
    [({}, False), ({"affinity": AFFINITY}, True), ({"topologySpreadConstraints": SPREAD}, True)],
)
def test_pod_changes_matter_only_to_dependent_pods(spec: dict[str, Any], moved: bool) -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a", **spec))
    harness.fail(harness.pop())
    harness.queue.move_dependents()
    entry = harness.pop_soon()
    assert (entry is not None) is moved
    if entry is not None:
        harness.queue.move_dependents()
        harness.fail(entry)
        assert len(harness.queue.pods(QueueState.BACKOFF)) == 1


def test_idle_queue_cuts_backoff_short_but_not_after_errors() -> None:
    harness = QueueHarness()
    for name in ("unfit", "broken"):
        harness.queue.add(queued_pod(name))
        harness.fail(harness.pop(), error=name == "broken")
    harness.queue.move_all()
    harness.queue.add(queued_pod("new"))
    assert harness.names() == ["new", "unfit"]
    assert name_of(harness.pop_soon(2)) == "broken"


def test_backoffs_of_the_same_second_end_by_priority() -> None:
    harness = QueueHarness()
    for name, priority in (("low", 0), ("high", 5)):
        harness.queue.add(queued_pod(name, priority=priority))
        harness.fail(harness.pop())
        harness.clock.advance(0.3)
    harness.queue.move_all()
    assert harness.names() == ["high", "low"]


def test_unschedulable_pod_is_retried_after_five_minutes() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop())
    harness.clock.advance(300)
    harness.queue.flush_unschedulable()
    assert harness.names() == []
    harness.clock.advance(0.001)
    harness.queue.flush_unschedulable()
    assert harness.names() == ["a"]


def test_gated_pod_waits_for_its_last_gate() -> None:
    harness = QueueHarness()
    both = queued_pod("a", schedulingGates=[{"name": "x"}, {"name": "y"}])
    one = queued_pod("a", schedulingGates=[{"name": "y"}])
    harness.queue.add(both)
    harness.queue.move_all()
    harness.queue.update(both, one)
    assert harness.names() == []
    assert harness.queue.pods(QueueState.GATED) == [one]
    harness.queue.update(one, queued_pod("a"))
    assert harness.names() == ["a"]


def test_waiting_pod_is_tried_in_its_latest_state() -> None:
    harness = QueueHarness()
    new = queued_pod("a", version=2)
    harness.queue.add(queued_pod("a"))
    harness.queue.update(queued_pod("a"), new)
    assert harness.pop().pod is new


def test_status_update_of_unschedulable_pod_does_not_retry_it() -> None:
    harness = QueueHarness()
    old = queued_pod("a")
    harness.queue.add(old)
    harness.fail(harness.pop())
    told = {**queued_pod("a", version=2), "status": {"phase": "Pending", "conditions": [{}]}}
    harness.queue.update(old, told)
    assert harness.names() == []
    harness.queue.update(told, queued_pod("a", version=3, tolerations=[{"operator": "Exists"}]))
    assert harness.names() == ["a"]


def test_update_of_an_unknown_pod_queues_it() -> None:
    harness = QueueHarness()
    harness.queue.update(queued_pod("a"), queued_pod("a", version=2))
    assert harness.names() == ["a"]


@pytest.mark.parametrize("failed", [False, True])
def test_deleted_pod_is_not_popped(failed: bool) -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    if failed:
        harness.fail(harness.pop())
    harness.queue.delete(queued_pod("a"))
    harness.queue.move_all()
    assert harness.names() == []
    assert len(harness.queue) == 0
    harness.queue.delete(queued_pod("a"))


def test_pod_deleted_during_attempt_does_not_return() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    entry = harness.pop()
    harness.queue.delete(entry.pod)
    harness.fail(entry)
    assert len(harness.queue) == 0


def test_recreated_pod_is_another_pod() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a", uid="1"))
    first = harness.pop()
    harness.queue.delete(first.pod)
    harness.queue.add(queued_pod("a", uid="2"))
    harness.fail(first)
    assert harness.pop().uid == "2"


def test_done_pod_is_forgotten_unless_queued_again() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    entry = harness.pop()
    harness.queue.done(entry)
    assert len(harness.queue) == 0
    harness.queue.add(queued_pod("a"))
    harness.queue.done(entry)
    assert harness.names() == ["a"]


def test_attempts_and_first_active_time_are_recorded() -> None:
    harness = QueueHarness(pop_from_backoff=False)
    harness.queue.add(queued_pod("a", schedulingGates=[{"name": "x"}]))
    harness.clock.advance(5)
    harness.queue.update(queued_pod("a", schedulingGates=[{"name": "x"}]), queued_pod("a"))
    harness.clock.advance(2)
    harness.fail(harness.pop(), error=True)
    harness.clock.advance(1)
    entry = harness.pop()
    assert (entry.attempts, entry.first_active) == (2, 1005)


def test_error_count_is_reset_by_a_rejection() -> None:
    harness = QueueHarness()
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop())
    harness.queue.move_all()
    harness.fail(harness.pop(), error=True)
    harness.clock.advance(10)
    entry = harness.pop()
    assert (entry.unschedulable_count, entry.error_count) == (1, 1)
    harness.fail(entry)
    assert (entry.unschedulable_count, entry.error_count) == (2, 0)


def test_waiting_ends_with_the_first_pod() -> None:
    clock = FakeClock(auto=False)
    queue = SchedulingQueue(clock=clock)
    taken: list[str | None] = []
    group = wait.Group()
    group.start(lambda: taken.append(name_of(queue.pop(wait.background(clock)))))
    clock.until_blocked()
    queue.add(queued_pod("a"))
    group.wait()
    assert taken == ["a"]


def test_waiting_ends_with_a_back_off() -> None:
    harness = QueueHarness(pop_from_backoff=False)
    harness.queue.add(queued_pod("a"))
    harness.fail(harness.pop(), error=True)
    assert name_of(harness.queue.pop(wait.background(harness.clock))) == "a"
    assert harness.clock.monotonic() == 1001


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

    harness = QueueHarness(metrics=Metrics(), pop_from_backoff=False)
    for name in ("unfit", "broken", "ready"):
        harness.queue.add(queued_pod(name))
    harness.queue.add(queued_pod("gated", schedulingGates=[{"name": "x"}]))
    harness.fail(harness.pop())
    harness.fail(harness.pop(), error=True)
    assert lengths == {"active": 1, "unschedulable": 1, "backoff": 1, "gated": 1}
    for name in ("unfit", "broken", "ready", "gated"):
        harness.queue.delete(queued_pod(name))
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


def changed(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(obj)
    *parents, last = path.split(".")
    where = new
    for parent in parents:
        where = where.setdefault(parent, {})
    where[last] = value
    return new


@pytest.mark.parametrize(
    ("path", "value", "matters"),
    [
        ("metadata.labels", {"disk": "ssd"}, True),
        ("metadata.labels", {}, False),
        ("metadata.annotations", {"a": "b"}, True),
        ("metadata.resourceVersion", "9", False),
        ("spec.taints", [{"key": "a", "effect": "NoSchedule"}], True),
        ("spec.taints", None, False),
        ("spec.unschedulable", True, False),
        ("status.allocatable", {"cpu": "5"}, True),
        ("status.capacity", {"cpu": "5"}, False),
        ("status.conditions", [{"type": "Ready", "status": "True"}], True),
        ("status.conditions", None, False),
        ("status.images", [{}], False),
    ],
)
def test_node_changes_that_help_pods(path: str, value: Any, matters: bool) -> None:
    assert bool(has_node_scheduling_change(node("n"), changed(node("n"), path, value))) is matters


def test_uncordoned_node_helps_pods() -> None:
    assert has_node_scheduling_change(node("n", unschedulable=True), node("n"))


def test_heartbeat_helps_no_pod() -> None:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}
    old = changed(node("n"), "status.conditions", [ready])
    new = changed(node("n"), "status.conditions", [{**ready, "lastHeartbeatTime": "2"}])
    assert not has_node_scheduling_change(old, new)
    assert has_node_scheduling_change(
        old, changed(node("n"), "status.conditions", [{**ready, "status": "False"}])
    )


@pytest.mark.parametrize(
    ("path", "value", "matters"),
    [
        ("metadata.labels", {"app": "web"}, True),
        ("metadata.annotations", {"a": "b"}, True),
        ("metadata.generation", 2, False),
        ("metadata.managedFields", [{}], False),
        ("metadata.finalizers", ["a"], False),
        ("spec.tolerations", [{}], True),
        ("spec.schedulingGates", [], True),
        ("status.conditions", [{}], False),
    ],
)
def test_pod_changes_that_help_itself(path: str, value: Any, matters: bool) -> None:
    assert (
        has_pod_scheduling_change(queued_pod("p"), changed(queued_pod("p"), path, value)) is matters
    )


@pytest.mark.parametrize(
    ("before", "after", "down"),
    [("1", "500m", True), ("1", "2", False), ("1", "1000m", False), ("1", "little", False)],
)
def test_scaling_down(before: str, after: str, down: bool) -> None:
    assert is_scaled_down(queued_pod("p", cpu=before), queued_pod("p", cpu=after)) is down


def test_null_fields_do_not_crash_hints() -> None:
    nothing = {"metadata": None, "spec": None, "status": None}
    assert not has_node_scheduling_change(nothing, nothing)
    assert not has_pod_scheduling_change(nothing, nothing)
