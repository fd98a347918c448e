from __future__ import annotations

import logging
import threading
from dataclasses import replace
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitFailed
from pytest_kwait.scheduler import Algorithm, ConfigFactory, FitError, Rejection, Scheduler
from pytest_kwait.scheduler.scheduling_queue import QueueState
from tests.cache.fakes import PATIENCE
from tests.objects import node
from tests.scheduler.fakes import FakeApiServer, queued_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Obj = dict[str, Any]


FITS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")


class SchedulerHarness:
    """A scheduler that runs, and its server."""

    def __init__(self, *objects: Obj) -> None:
        self.server = FakeApiServer(*objects)
        self.clock = self.server.fake_clock
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self.counted: list[tuple[Any, ...]] = []
        self.thread: threading.Thread | None = None

    # SchedulerMetrics
    def attempt(self, profile: str, result: str, seconds: float) -> None:
        self.counted.append(("attempt", profile, result))

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        self.counted.append(("scheduled", attempts))

    def queue_length(self, queue: str, length: int) -> None: ...

    def run(self, **options: Any) -> SchedulerHarness:
        defaults: dict[str, Any] = {"scheduler_names": ["mine"], "metrics": self}
        if not isinstance(options.get("scheduler_names"), dict):
            # An algorithm of pods and nodes only: each further informer has its own threads.
            defaults["algorithm"] = Algorithm(FITS, {"NodeResourcesFit": 1})
        options = defaults | options
        config = ConfigFactory(self.server, clock=self.clock, **options).create()
        self.scheduler = Scheduler(config)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.pass_until(lambda: config.dispatchers[0].started)
        return self

    def pass_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until something is so, or the scheduler has ended."""
        assert self.thread is not None
        for _ in range(int(PATIENCE * 100)):
            self.thread.join(0.01)
            if holds() or not self.thread.is_alive():
                return
            self.clock.advance(0.1)
        raise AssertionError("the scheduler did not get there")

    def _run(self) -> None:
        try:
            self.scheduler.run(self.stop)
        except Exception as error:  # kept for the test
            self.errors.append(error)

    def end(self) -> None:
        self.stop.set()
        if self.thread is not None:
            self.pass_until(lambda: False)

    def until_bound(self, name: str, to: str | None = None) -> str:
        self.server.until(lambda: self.server.pod(name)["spec"].get("nodeName"))
        found: str = self.server.pod(name)["spec"]["nodeName"]
        assert to in (None, found)
        return found

    def until_told(self, name: str, reason: str, count: int = 1) -> Obj:
        self.server.until(lambda: len(self.told(name, reason)) >= count)
        return self.told(name, reason)[-1]

    def told(self, name: str, reason: str) -> list[Obj]:
        return [
            event
            for event in self.server.sent("/events")
            if event.get("reason") == reason and event["regarding"]["name"] == name
        ]

    def condition(self, name: str) -> Obj:
        def conditions() -> list[Obj]:
            found: list[Obj] = self.server.pod(name)["status"].get("conditions") or []
            return found

        self.server.until(conditions)
        return conditions()[0]


@pytest.fixture
def harness() -> Iterator[SchedulerHarness]:
    harness = SchedulerHarness()
    yield harness
    harness.end()
    assert not harness.errors


def test_pods_are_bound_with_events(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    harness.server.put(queued_pod("before"))
    harness.run()
    harness.until_bound("before", "n1")
    harness.server.put(queued_pod("after"))
    harness.until_bound("after", "n1")
    event = harness.until_told("after", "Scheduled")
    assert event["note"] == "Successfully assigned default/after to n1"
    assert (event["action"], event["type"]) == ("Binding", "Normal")
    assert event["reportingController"] == "mine"
    assert harness.server.sent("/pods/after/binding") == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "after", "namespace": "default", "uid": "uid-after"},
            "target": {"kind": "Node", "name": "n1"},
        }
    ]
    assert harness.counted[-2:] == [("attempt", "mine", "scheduled"), ("scheduled", 1)]


def test_two_requests_bind_a_pod(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    harness.run()
    harness.server.put(queued_pod("a"))
    harness.until_told("a", "Scheduled")
    assert [path.rpartition("/")[2] for _, path, _ in harness.server.written] == [
        "binding",
        "events",
    ]


def test_pods_of_other_schedulers_and_finished_pods_are_ignored(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    harness.server.put(queued_pod("theirs", scheduler="default-scheduler"))
    harness.server.put(queued_pod("over", phase="Failed"))
    harness.run()
    harness.server.put(queued_pod("ours"))
    harness.until_told("ours", "Scheduled")
    assert len(harness.server.sent("/binding")) == 1


def test_late_watch_does_not_overcommit(harness: SchedulerHarness) -> None:
    for name in ("n1", "n2"):
        harness.server.put(node(name, cpu="1"))
    for number in range(4):
        harness.server.put(queued_pod(f"p{number}", cpu="600m"))
    harness.run()
    harness.server.until(lambda: len(harness.server.sent("/binding")) == 2)
    harness.server.until(
        lambda: [e["reason"] for e in harness.server.sent("/events")].count("FailedScheduling") == 2
    )
    targets = [body["target"]["name"] for body in harness.server.sent("/binding")]
    assert sorted(targets) == ["n1", "n2"]


def test_unschedulable_pod_is_scheduled_once_a_node_is_added(harness: SchedulerHarness) -> None:
    harness.server.put(node("small", cpu="1"))
    harness.run()
    harness.server.put(queued_pod("big", cpu="3"))
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    event = harness.until_told("big", "FailedScheduling")
    assert (event["note"], event["type"], event["action"]) == (text, "Warning", "Scheduling")
    condition = harness.condition("big")
    assert (condition["reason"], condition["message"]) == ("Unschedulable", text)
    harness.server.put(node("large", cpu="4"))
    harness.until_bound("big", "large")
    harness.until_told("big", "Scheduled")
    assert ("scheduled", 2) in harness.counted
    assert ("attempt", "mine", "unschedulable") in harness.counted


def test_deleted_pod_makes_room_for_a_waiting_one(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1", cpu="1"))
    harness.server.put(queued_pod("old", cpu="1", nodeName="n1"))
    harness.run()
    harness.server.put(queued_pod("new", cpu="1"))
    harness.until_told("new", "FailedScheduling")
    harness.server.remove("Pod", "old")
    harness.until_bound("new")


def test_finished_pod_frees_resources(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1", cpu="1"))
    old = harness.server.put(queued_pod("old", cpu="1", nodeName="n1", phase="Running"))
    harness.run()
    harness.server.put(queued_pod("new", cpu="1"))
    harness.until_told("new", "FailedScheduling")
    harness.server.put({**old, "status": {"phase": "Succeeded"}})
    harness.until_bound("new")


def test_gated_pod_waits_for_its_gates(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    gated = harness.server.put(queued_pod("a", schedulingGates=[{"name": "x"}]))
    harness.run()
    harness.server.put(queued_pod("b"))
    harness.until_bound("b")
    assert len(harness.scheduler.config.queue.pods(QueueState.GATED)) == 1
    harness.server.put({**gated, "spec": {**gated["spec"], "schedulingGates": []}})
    harness.until_bound("a")


def refuse(status: int, reason: str, message: str) -> Any:
    def answer(_body: Obj) -> None:
        raise ApiError(message, status=status, reason=reason)

    return answer


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (403, "Forbidden", "no bindings for you"),
        (500, "InternalError", "etcdserver: request timed out"),
        (0, "ConnectionReset", "connection reset"),
    ],
)
def test_failed_binding_frees_resources_and_is_retried(
    harness: SchedulerHarness, status: int, reason: str, message: str
) -> None:
    harness.server.put(node("n1", cpu="1"))
    harness.server.answers["/pods/a/binding"] = refuse(status, reason, message)
    harness.run()
    harness.server.put(queued_pod("a", cpu="1"))
    event = harness.until_told("a", "FailedScheduling")
    assert event["note"] == f'running Bind plugin "DefaultBinder": {message}'
    condition = harness.condition("a")
    assert (condition["reason"], condition["message"]) == ("SchedulerError", event["note"])
    harness.server.put(queued_pod("b", cpu="1"))
    harness.until_bound("b")
    assert ("attempt", "mine", "error") in harness.counted
    harness.server.remove("Pod", "b")
    del harness.server.answers["/pods/a/binding"]
    harness.clock.advance(2)
    harness.until_bound("a")


def test_pod_bound_by_another_scheduler_is_skipped(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))

    def conflict(_body: Obj) -> None:
        taken = harness.server.pod("a")
        harness.server.put({**taken, "spec": {**taken["spec"], "nodeName": "elsewhere"}})
        store = harness.scheduler.config.informers.informer_for(PODS).store
        harness.server.until(lambda: (store.get_by_key("default/a") or {})["spec"].get("nodeName"))
        raise ApiError('pod a is already assigned to node "elsewhere"', status=409)

    harness.server.answers["/pods/a/binding"] = conflict
    harness.run()
    harness.server.put(queued_pod("a"))
    harness.until_told("a", "FailedScheduling")
    harness.server.put(queued_pod("b"))
    harness.until_told("b", "Scheduled")
    harness.clock.advance(60)
    harness.server.put(queued_pod("c"))
    harness.until_told("c", "Scheduled")
    assert len(harness.server.sent("/pods/a/binding")) == 1
    assert not harness.server.sent("/pods/a/status")


def test_pod_whose_binding_is_not_seen_yet_keeps_its_condition(
    harness: SchedulerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.server.put(node("n1"))

    def conflict(_body: Obj) -> None:
        taken = harness.server.pod("a")
        bound = {**taken, "spec": {**taken["spec"], "nodeName": "elsewhere"}}
        # The server has it, and no watch has shown it.
        bound["metadata"] = {**taken["metadata"], "resourceVersion": "999"}
        harness.server.objects["Pod", "a"] = bound
        raise ApiError('pod a is already assigned to node "elsewhere"', status=409)

    harness.server.answers["/pods/a/binding"] = conflict
    caplog.set_level(logging.INFO, "pytest_kwait.scheduler")
    harness.run()
    harness.server.put(queued_pod("a"))
    harness.until_told("a", "FailedScheduling")
    harness.server.until(lambda: "Pod has a node pod=default/a node=elsewhere" in caplog.messages)
    assert len(harness.server.sent("/pods/a/status")) == 1
    assert not harness.server.pod("a")["status"].get("conditions")


def test_condition_of_a_pod_that_others_change_is_written_again(harness: SchedulerHarness) -> None:
    changes: list[Obj] = []

    def label(_body: Obj) -> None:
        if not changes:
            known = harness.server.pod("a")
            labels = {"metadata": {**known["metadata"], "labels": {"team": "shop"}}}
            changes.append(harness.server.put({**known, **labels}))

    harness.server.answers["/pods/a/status"] = label
    harness.run()
    harness.server.put(queued_pod("a"))
    assert harness.condition("a")["reason"] == "Unschedulable"
    versions = [
        each["metadata"]["resourceVersion"] for each in harness.server.sent("/pods/a/status")
    ]
    assert versions[1] == changes[0]["metadata"]["resourceVersion"]


def test_pod_deleted_before_binding_is_not_retried(
    harness: SchedulerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.server.put(node("n1", cpu="1"))

    def gone(_body: Obj) -> None:
        harness.server.remove("Pod", "a")
        harness.server.until(
            lambda: not harness.scheduler.config.informers.informers[0].store.list_keys()
        )
        raise ApiError('pods "a" not found', status=404)

    harness.server.answers["/pods/a/binding"] = gone
    caplog.set_level(logging.INFO, "pytest_kwait.scheduler")
    harness.run()
    harness.server.put(queued_pod("a", cpu="1"))
    harness.until_told("a", "FailedScheduling")
    assert "Pod was deleted pod=default/a" in caplog.messages
    harness.server.put(queued_pod("b", cpu="1"))
    harness.until_bound("b")
    assert not harness.server.sent("/pods/a/status")


def test_pod_is_not_bound_to_a_deleted_node(harness: SchedulerHarness) -> None:
    vanishing = node("n1")
    harness.server.put(vanishing)

    class Vanishing(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> str:
            chosen = super().schedule(pod, node_lister)
            harness.scheduler.config.cache.remove_node(vanishing)
            return chosen

    harness.run(algorithm=Vanishing())
    harness.server.put(queued_pod("a"))
    assert harness.until_told("a", "FailedScheduling")["note"] == 'node "n1" not found'
    assert not harness.server.sent("/binding")


def test_algorithm_error_is_reported_and_next_pod_follows(harness: SchedulerHarness) -> None:
    class Picky(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> str:
            if pod["metadata"]["name"] == "odd":
                raise KeyError("what is this")
            return super().schedule(pod, node_lister)

    harness.server.put(node("n1"))
    harness.run(algorithm=Picky())
    harness.server.put(queued_pod("odd"))
    harness.server.put(queued_pod("even"))
    harness.until_bound("even")
    assert harness.until_told("odd", "FailedScheduling")["note"] == (
        "the algorithm raised KeyError('what is this') for pod default/odd"
    )
    assert harness.condition("odd")["reason"] == "SchedulerError"


def test_algorithm_without_an_answer_is_reported(harness: SchedulerHarness) -> None:
    class Silent(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> Any:
            return None

    harness.server.put(node("n1"))
    harness.run(algorithm=Silent())
    harness.server.put(queued_pod("a"))
    assert harness.until_told("a", "FailedScheduling")["note"] == (
        "the algorithm returned None for pod default/a; it returns the name of a node, or raises "
        "FitError"
    )
    assert not harness.server.sent("/binding")


class _UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "note", "reason"),
    [
        (lambda: FitError("no room"), "no room", "Unschedulable"),
        (
            lambda: FitError({"n1": "busy"}),
            "0/1 nodes are available: 1 busy. no new claims to deallocate,*",
            "Unschedulable",
        ),
        (
            lambda: FitError({"n1": Rejection(("busy",))}),
            "0/1 nodes are available: 1 busy. no new claims to deallocate,*",
            "Unschedulable",
        ),
        (
            lambda: FitError(3),  # type: ignore[arg-type]
            'rejections=3 is not valid: use a text, or a mapping of nodes to reasons: {"n*',
            "SchedulerError",
        ),
        (
            lambda: FitError({"n1": None}),  # type: ignore[dict-item]
            "the reason of n1=None is not valid: use a text or a Rejection",
            "SchedulerError",
        ),
        (_UnprintableError, "the algorithm raised * for pod default/odd", "SchedulerError"),
        (lambda: KwaitError(""), "KwaitError", "SchedulerError"),
    ],
)
def test_what_an_algorithm_raises_is_one_pods_failure(
    harness: SchedulerHarness, error: Callable[[], Exception], note: str, reason: str
) -> None:
    class Picky(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> str:
            if pod["metadata"]["name"] == "odd":
                raise error()
            return super().schedule(pod, node_lister)

    harness.server.put(node("n1"))
    harness.run(algorithm=Picky(FITS, {"NodeResourcesFit": 1}))
    harness.server.put(queued_pod("odd"))
    harness.server.put(queued_pod("even"))
    harness.until_bound("even")
    assert fnmatch(harness.until_told("odd", "FailedScheduling")["note"], note.replace("[", "[[]"))
    assert harness.condition("odd")["reason"] == reason


def test_what_an_error_function_raises_is_one_pods_failure(harness: SchedulerHarness) -> None:
    def fail(entry: Any, error: Exception, begun: float) -> None:
        raise ValueError("broken")

    harness.run()
    harness.scheduler.config = replace(harness.scheduler.config, error=fail)
    harness.server.put(queued_pod("a"))
    assert harness.until_told("a", "FailedScheduling")["note"] == (
        "the error function raised ValueError('broken') for pod default/a after: "
        "no nodes available to schedule pods"
    )
    harness.server.put(node("n1"))
    harness.pass_until(lambda: bool(harness.server.pod("a")["spec"].get("nodeName")))


def test_an_async_binder_is_one_pods_failure(harness: SchedulerHarness) -> None:
    async def bind(pod: Obj, where: str, *, deadline: object) -> None: ...

    with pytest.raises(InvalidArgument, match=r"^binder=.* use a function that is not async"):
        harness.run(binder=bind)
    harness.server.put(node("n1"))
    harness.run(binder=lambda *pod, deadline: bind(*pod, deadline=deadline))
    harness.server.put(queued_pod("a"))
    assert harness.until_told("a", "FailedScheduling")["note"] == (
        "the binder is a coroutine function; it must bind and return"
    )


def test_malformed_pod_is_reported_and_next_pod_follows(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    harness.run()
    harness.server.put(queued_pod("odd", cpu="a lot"))
    harness.server.put({**queued_pod("empty"), "spec": {"schedulerName": "mine"}, "status": None})
    harness.server.put(queued_pod("even"))
    harness.until_bound("even")
    assert "a lot" in harness.until_told("odd", "FailedScheduling")["note"]
    harness.until_bound("empty")


def test_terminating_pod_is_reported_and_not_scheduled(harness: SchedulerHarness) -> None:
    leaving = queued_pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    harness.server.put(node("n1"))
    harness.run()
    harness.server.put(leaving)
    event = harness.until_told("a", "FailedScheduling")
    assert event["note"] == "skip schedule deleting pod: default/a"
    assert not harness.server.sent("/binding")


def test_each_scheduler_name_can_have_an_algorithm(harness: SchedulerHarness) -> None:
    class To(Algorithm):
        def __init__(self, where: str) -> None:
            super().__init__()
            self.where = where

        def schedule(self, pod: Any, node_lister: Any) -> str:
            return self.where

    for name in ("n1", "n2"):
        harness.server.put(node(name))
    harness.run(scheduler_names={"one": To("n1"), "two": To("n2")})
    harness.server.put(queued_pod("a", scheduler="one"))
    harness.server.put(queued_pod("b", scheduler="two"))
    harness.until_bound("a", "n1")
    harness.until_bound("b", "n2")


def test_custom_binder_is_used(harness: SchedulerHarness) -> None:
    harness.server.put(node("n1"))
    bound: list[tuple[str, str]] = []

    def bind(pod: Obj, where: str, *, deadline: object) -> None:
        bound.append((pod["metadata"]["name"], where))

    harness.run(binder=bind)
    harness.server.put(queued_pod("a"))
    harness.until_told("a", "Scheduled")
    assert bound == [("a", "n1")]


def test_shared_informers_outlive_the_run(harness: SchedulerHarness) -> None:
    informers = SharedInformerFactory(harness.server)
    harness.server.put(node("n1"))
    harness.run(informers=informers, algorithm=None)
    harness.server.put(queued_pod("a"))
    harness.until_told("a", "Scheduled")
    harness.end()
    assert {kind: len(watches) for kind, watches in harness.server.watches.items()} == {
        "Pod": 1,
        "Node": 1,
        "Namespace": 1,
        "Service": 1,
        "ReplicationController": 1,
        "ReplicaSet": 1,
        "StatefulSet": 1,
    }
    assert not any(informer.stopped for informer in informers.informers)
    # No handler is called any more.
    harness.server.until(
        lambda: not [one for one in threading.enumerate() if "scheduler of" in one.name]
    )
    informers.stop()


def test_own_informers_end_with_the_run(harness: SchedulerHarness) -> None:
    harness.run()
    harness.end()
    assert all(informer.stopped for informer in harness.scheduler.config.informers.informers)


def test_run_stops_before_caches_have_synced() -> None:
    harness = SchedulerHarness()
    stop, cancel = wait.with_cancel(wait.background(harness.clock))
    config = ConfigFactory(harness.server, clock=harness.clock).create()
    cancel()
    Scheduler(config).run(stop)
    assert all(informer.stopped for informer in config.informers.informers)


def test_failed_cache_sync_ends_the_run() -> None:
    harness = SchedulerHarness()

    def forbidden(*_: Any, **__: Any) -> Any:
        raise ApiError("no pods for you", status=403, reason="Forbidden")

    harness.server.list = forbidden  # type: ignore[method-assign]
    harness.run()
    (error,) = harness.errors
    assert isinstance(error, WaitFailed)
    assert "cannot sync: list failed: 403 Forbidden: no pods for you" in str(error)


def test_stop_finishes_bindings_and_drops_waiting_pods(harness: SchedulerHarness) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(_body: Obj) -> None:
        held.set()
        assert go_on.wait(PATIENCE)

    harness.server.answers["/binding"] = hold
    harness.server.put(node("n1"))
    harness.run(bind_threads=1)
    harness.server.put(queued_pod("a"))
    harness.server.put(queued_pod("b"))
    assert held.wait(PATIENCE)
    harness.stop.set()
    go_on.set()
    harness.end()
    assert len(harness.server.sent("/binding")) == 1
    assert harness.told("a", "Scheduled")
    assert harness.server.pod("b")["spec"].get("nodeName") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"scheduler_names": ()},
            "scheduler_names=() is not valid: use one or more names, or names to algorithms",
        ),
        (
            {"scheduler_names": "mine"},
            "scheduler_names='mine' is not valid: use one or more names, or names to algorithms",
        ),
        ({"burst": 10}, "burst=10 is not valid: use None if qps is None"),
        ({"qps": -1}, "qps=-1 is not valid: a number of requests per second above zero"),
        ({"bind_threads": 0}, "bind_threads=0 is not valid: a whole number, at least 1"),
        (
            {"pod_initial_backoff": "1m"},
            "pod_initial_backoff='1m' is not valid: above zero and at most pod_max_backoff (10s)",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        ConfigFactory(FakeApiServer(), **options)
    assert str(raised.value) == message


def test_algorithm_given_twice_is_refused() -> None:
    algorithm = Algorithm()
    with pytest.raises(InvalidArgument, match="None where scheduler_names has the algorithms"):
        ConfigFactory(FakeApiServer(), scheduler_names={"a": algorithm}, algorithm=algorithm)


def test_informers_of_one_namespace_are_refused() -> None:
    informers = SharedInformerFactory(FakeApiServer(), "default")
    with pytest.raises(InvalidArgument) as raised:
        ConfigFactory(FakeApiServer(), informers=informers).create()
    assert str(raised.value) == (
        "informers='of namespace default' is not valid: "
        "a factory whose informers see all namespaces"
    )
