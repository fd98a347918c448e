from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait import wait
from pytest_kwait.scheduler.cache import SchedulerCache
from pytest_kwait.scheduler.event_handlers import EventHandlers
from pytest_kwait.scheduler.scheduling_queue import SchedulingQueue
from pytest_kwait.testing import FakeClock
from tests.objects import node
from tests.scheduler.fakes import queued_pod

Obj = dict[str, Any]
AFFINITY: dict[str, Any] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}


class HandlersHarness:
    """A watch, and the queue and cache that it fills."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue, self.cache = SchedulingQueue(clock=self.clock), SchedulerCache(clock=self.clock)
        self.watch = EventHandlers(self.queue, self.cache, {"mine"}.__contains__)

    def next(self) -> str | None:
        entry = self.queue.pop(wait.background(self.clock).limited(0))
        return None if entry is None else str(entry.pod["metadata"]["name"])

    def fail(self, obj: Obj) -> None:
        """Queue a pod, and find that it fits nowhere."""
        self.watch.add_pod(obj)
        entry = self.queue.pop(wait.background(self.clock))
        assert entry is not None
        self.queue.add_unschedulable(entry, obj, error=False)


def heartbeat(at: str, ready: str = "True") -> Obj:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": at}
    status = {**node("n")["status"], "conditions": [condition]}
    return {**node("n"), "status": status}


def on(name: str, **more: Any) -> Obj:
    return queued_pod(name, nodeName="n", **more)


@pytest.mark.parametrize(
    ("change", "helps", "helps_those_with_affinity"),
    [
        (lambda w: w.add_node(node("n2")), True, True),
        (lambda w: w.update_node(heartbeat("1"), heartbeat("2")), False, False),
        (lambda w: w.update_node(heartbeat("1", "False"), heartbeat("2")), True, True),
        (lambda w: w.update_node(node("n"), node("n", cpu="9")), True, True),
        (lambda w: w.update_node(node("n"), node("n", unschedulable=True)), False, False),
        (lambda w: w.delete_node(node("n")), False, True),
        (lambda w: w.add_pod(on("new")), False, True),
        (lambda w: w.update_pod(queued_pod("old"), on("old")), False, True),
        (lambda w: w.update_pod(on("old"), on("old", labels={"a": "b"})), False, True),
        (lambda w: w.update_pod(on("old"), on("old", phase="Running")), False, False),
        (lambda w: w.update_pod(on("old"), on("old", cpu="1m")), True, True),
        (lambda w: w.update_pod(on("old"), on("old", phase="Succeeded")), True, True),
        (lambda w: w.delete_pod(on("old")), True, True),
        (lambda w: w.delete_pod(queued_pod("pending")), False, False),
        (lambda w: w.add_pod(queued_pod("theirs", scheduler="other")), False, False),
    ],
)
def test_changes_that_help_unschedulable_pods(
    change: Any, helps: bool, helps_those_with_affinity: bool
) -> None:
    dependent: Obj = {"affinity": AFFINITY}
    plain: Obj = {}
    for spec, helped in ((plain, helps), (dependent, helps_those_with_affinity)):
        harness = HandlersHarness()
        harness.watch.add_node(node("n"))
        harness.watch.add_pod(on("old"))
        harness.fail(queued_pod("waiting", **spec))
        change(harness.watch)
        assert harness.next() == ("waiting" if helped else None)


def test_assumed_pod_is_not_queued() -> None:
    harness = HandlersHarness()
    harness.cache.assume(queued_pod("a"), "n")
    harness.watch.add_pod(queued_pod("a"))
    harness.watch.update_pod(queued_pod("a"), queued_pod("a", version=2, labels={"a": "b"}))
    assert harness.next() is None


def test_deleted_assumed_pod_frees_resources() -> None:
    harness = HandlersHarness()
    harness.watch.add_node(node("n"))
    harness.fail(queued_pod("waiting"))
    harness.cache.assume(queued_pod("a"), "n")
    leaving = queued_pod("a")
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "now"}
    harness.watch.update_pod(queued_pod("a"), leaving)
    assert not harness.cache.is_assumed(leaving)
    assert harness.next() == "waiting"


@pytest.mark.parametrize(
    "final", [queued_pod("a"), on("a")], ids=["an old state", "the last state"]
)
def test_deleted_pod_leaves_queue_and_cache(final: Obj) -> None:
    harness = HandlersHarness()
    harness.watch.add_node(node("n"))
    harness.watch.add_pod(queued_pod("a"))
    harness.watch.update_pod(queued_pod("a"), on("a"))
    harness.watch.delete_pod(final)
    assert (len(harness.cache), len(harness.queue)) == (0, 0)


def test_finished_pod_is_ignored() -> None:
    harness = HandlersHarness()
    harness.watch.add_pod(on("a", phase="Succeeded"))
    harness.watch.add_pod(queued_pod("b", phase="Failed"))
    harness.watch.update_pod(on("a", phase="Succeeded"), on("a", phase="Succeeded", version=2))
    harness.watch.delete_pod(on("a", phase="Succeeded"))
    assert (len(harness.cache), len(harness.queue)) == (0, 0)
