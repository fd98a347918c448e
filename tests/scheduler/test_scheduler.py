from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed
from pytest_kwait.scheduler import Algorithm, ConfigFactory, Scheduler
from pytest_kwait.scheduler.scheduling_queue import QueueState
from tests.cache.fakes import PATIENCE
from tests.scheduler.fakes import FakeServer, node, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Obj = dict[str, Any]


FITS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")


class Bench:
    """A scheduler that runs, and its server."""

    def __init__(self, *objects: Obj) -> None:
        self.server = FakeServer(*objects)
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

    def run(self, **options: Any) -> Bench:
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
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.end()
    assert not bench.errors


def test_pods_are_bound_with_events(bench: Bench) -> None:
    bench.server.put(node("n1"))
    bench.server.put(pod("before"))
    bench.run()
    bench.until_bound("before", "n1")
    bench.server.put(pod("after"))
    bench.until_bound("after", "n1")
    event = bench.until_told("after", "Scheduled")
    assert event["note"] == "Successfully assigned default/after to n1"
    assert (event["action"], event["type"]) == ("Binding", "Normal")
    assert event["reportingController"] == "mine"
    assert bench.server.sent("/pods/after/binding") == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "after", "namespace": "default", "uid": "uid-after"},
            "target": {"kind": "Node", "name": "n1"},
        }
    ]
    assert bench.counted[-2:] == [("attempt", "mine", "scheduled"), ("scheduled", 1)]


def test_two_requests_bind_a_pod(bench: Bench) -> None:
    bench.server.put(node("n1"))
    bench.run()
    bench.server.put(pod("a"))
    bench.until_told("a", "Scheduled")
    assert [path.rpartition("/")[2] for _, path, _ in bench.server.written] == ["binding", "events"]


def test_pods_of_other_schedulers_and_finished_pods_are_ignored(bench: Bench) -> None:
    bench.server.put(node("n1"))
    bench.server.put(pod("theirs", scheduler="default-scheduler"))
    bench.server.put(pod("over", phase="Failed"))
    bench.run()
    bench.server.put(pod("ours"))
    bench.until_told("ours", "Scheduled")
    assert len(bench.server.sent("/binding")) == 1


def test_late_watch_does_not_overcommit(bench: Bench) -> None:
    for name in ("n1", "n2"):
        bench.server.put(node(name, cpu="1"))
    for number in range(4):
        bench.server.put(pod(f"p{number}", cpu="600m"))
    bench.run()
    bench.server.until(lambda: len(bench.server.sent("/binding")) == 2)
    bench.server.until(
        lambda: [e["reason"] for e in bench.server.sent("/events")].count("FailedScheduling") == 2
    )
    targets = [body["target"]["name"] for body in bench.server.sent("/binding")]
    assert sorted(targets) == ["n1", "n2"]


def test_unschedulable_pod_is_scheduled_once_a_node_is_added(bench: Bench) -> None:
    bench.server.put(node("small", cpu="1"))
    bench.run()
    bench.server.put(pod("big", cpu="3"))
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    event = bench.until_told("big", "FailedScheduling")
    assert (event["note"], event["type"], event["action"]) == (text, "Warning", "Scheduling")
    condition = bench.condition("big")
    assert (condition["reason"], condition["message"]) == ("Unschedulable", text)
    bench.server.put(node("large"))
    bench.until_bound("big", "large")
    bench.until_told("big", "Scheduled")
    assert ("scheduled", 2) in bench.counted
    assert ("attempt", "mine", "unschedulable") in bench.counted


def test_deleted_pod_makes_room_for_a_waiting_one(bench: Bench) -> None:
    bench.server.put(node("n1", cpu="1"))
    bench.server.put(pod("old", cpu="1", nodeName="n1"))
    bench.run()
    bench.server.put(pod("new", cpu="1"))
    bench.until_told("new", "FailedScheduling")
    bench.server.remove("Pod", "old")
    bench.until_bound("new")


def test_finished_pod_frees_resources(bench: Bench) -> None:
    bench.server.put(node("n1", cpu="1"))
    old = bench.server.put(pod("old", cpu="1", nodeName="n1", phase="Running"))
    bench.run()
    bench.server.put(pod("new", cpu="1"))
    bench.until_told("new", "FailedScheduling")
    bench.server.put({**old, "status": {"phase": "Succeeded"}})
    bench.until_bound("new")


def test_gated_pod_waits_for_its_gates(bench: Bench) -> None:
    bench.server.put(node("n1"))
    gated = bench.server.put(pod("a", schedulingGates=[{"name": "x"}]))
    bench.run()
    bench.server.put(pod("b"))
    bench.until_bound("b")
    assert len(bench.scheduler.config.queue.pods(QueueState.GATED)) == 1
    bench.server.put({**gated, "spec": {**gated["spec"], "schedulingGates": []}})
    bench.until_bound("a")


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
    bench: Bench, status: int, reason: str, message: str
) -> None:
    bench.server.put(node("n1", cpu="1"))
    bench.server.answers["/pods/a/binding"] = refuse(status, reason, message)
    bench.run()
    bench.server.put(pod("a", cpu="1"))
    event = bench.until_told("a", "FailedScheduling")
    assert event["note"] == f'running Bind plugin "DefaultBinder": {message}'
    condition = bench.condition("a")
    assert (condition["reason"], condition["message"]) == ("SchedulerError", event["note"])
    bench.server.put(pod("b", cpu="1"))
    bench.until_bound("b")
    assert ("attempt", "mine", "error") in bench.counted
    bench.server.remove("Pod", "b")
    del bench.server.answers["/pods/a/binding"]
    bench.clock.advance(2)
    bench.until_bound("a")


def test_pod_bound_by_another_scheduler_is_skipped(bench: Bench) -> None:
    bench.server.put(node("n1"))

    def conflict(_body: Obj) -> None:
        taken = bench.server.pod("a")
        bench.server.put({**taken, "spec": {**taken["spec"], "nodeName": "elsewhere"}})
        store = bench.scheduler.config.informers.informer_for(PODS).store
        bench.server.until(lambda: (store.get_by_key("default/a") or {})["spec"].get("nodeName"))
        raise ApiError('pod a is already assigned to node "elsewhere"', status=409)

    bench.server.answers["/pods/a/binding"] = conflict
    bench.run()
    bench.server.put(pod("a"))
    bench.until_told("a", "FailedScheduling")
    bench.server.put(pod("b"))
    bench.until_told("b", "Scheduled")
    bench.clock.advance(60)
    bench.server.put(pod("c"))
    bench.until_told("c", "Scheduled")
    assert len(bench.server.sent("/pods/a/binding")) == 1
    assert not bench.server.sent("/pods/a/status")


def test_pod_deleted_before_binding_is_not_retried(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.server.put(node("n1", cpu="1"))

    def gone(_body: Obj) -> None:
        bench.server.remove("Pod", "a")
        bench.server.until(
            lambda: not bench.scheduler.config.informers.informers[0].store.list_keys()
        )
        raise ApiError('pods "a" not found', status=404)

    bench.server.answers["/pods/a/binding"] = gone
    caplog.set_level(logging.INFO, "pytest_kwait.scheduler")
    bench.run()
    bench.server.put(pod("a", cpu="1"))
    bench.until_told("a", "FailedScheduling")
    assert "Pod was deleted pod=default/a" in caplog.messages
    bench.server.put(pod("b", cpu="1"))
    bench.until_bound("b")
    assert not bench.server.sent("/pods/a/status")


def test_pod_is_not_bound_to_a_deleted_node(bench: Bench) -> None:
    vanishing = node("n1")
    bench.server.put(vanishing)

    class Vanishing(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> str:
            chosen = super().schedule(pod, node_lister)
            bench.scheduler.config.cache.remove_node(vanishing)
            return chosen

    bench.run(algorithm=Vanishing())
    bench.server.put(pod("a"))
    assert bench.until_told("a", "FailedScheduling")["note"] == 'node "n1" not found'
    assert not bench.server.sent("/binding")


def test_algorithm_error_is_reported_and_next_pod_follows(bench: Bench) -> None:
    class Picky(Algorithm):
        def schedule(self, pod: Any, node_lister: Any) -> str:
            if pod["metadata"]["name"] == "odd":
                raise KeyError("what is this")
            return super().schedule(pod, node_lister)

    bench.server.put(node("n1"))
    bench.run(algorithm=Picky())
    bench.server.put(pod("odd"))
    bench.server.put(pod("even"))
    bench.until_bound("even")
    assert bench.until_told("odd", "FailedScheduling")["note"] == "'what is this'"
    assert bench.condition("odd")["reason"] == "SchedulerError"


def test_malformed_pod_is_reported_and_next_pod_follows(bench: Bench) -> None:
    bench.server.put(node("n1"))
    bench.run()
    bench.server.put(pod("odd", cpu="a lot"))
    bench.server.put({**pod("empty"), "spec": {"schedulerName": "mine"}, "status": None})
    bench.server.put(pod("even"))
    bench.until_bound("even")
    assert "a lot" in bench.until_told("odd", "FailedScheduling")["note"]
    bench.until_bound("empty")


def test_terminating_pod_is_reported_and_not_scheduled(bench: Bench) -> None:
    leaving = pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.server.put(node("n1"))
    bench.run()
    bench.server.put(leaving)
    event = bench.until_told("a", "FailedScheduling")
    assert event["note"] == "skip schedule deleting pod: default/a"
    assert not bench.server.sent("/binding")


def test_each_scheduler_name_can_have_an_algorithm(bench: Bench) -> None:
    class To(Algorithm):
        def __init__(self, where: str) -> None:
            super().__init__()
            self.where = where

        def schedule(self, pod: Any, node_lister: Any) -> str:
            return self.where

    for name in ("n1", "n2"):
        bench.server.put(node(name))
    bench.run(scheduler_names={"one": To("n1"), "two": To("n2")})
    bench.server.put(pod("a", scheduler="one"))
    bench.server.put(pod("b", scheduler="two"))
    bench.until_bound("a", "n1")
    bench.until_bound("b", "n2")


def test_custom_binder_is_used(bench: Bench) -> None:
    bench.server.put(node("n1"))
    bound: list[tuple[str, str]] = []

    def bind(pod: Obj, where: str, *, deadline: object) -> None:
        bound.append((pod["metadata"]["name"], where))

    bench.run(binder=bind)
    bench.server.put(pod("a"))
    bench.until_told("a", "Scheduled")
    assert bound == [("a", "n1")]


def test_shared_informers_outlive_the_run(bench: Bench) -> None:
    informers = SharedInformerFactory(bench.server)
    bench.server.put(node("n1"))
    bench.run(informers=informers, algorithm=None)
    bench.server.put(pod("a"))
    bench.until_told("a", "Scheduled")
    bench.end()
    assert {kind: len(watches) for kind, watches in bench.server.watches.items()} == {
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
    bench.server.until(
        lambda: not [one for one in threading.enumerate() if "scheduler of" in one.name]
    )
    informers.stop()


def test_own_informers_end_with_the_run(bench: Bench) -> None:
    bench.run()
    bench.end()
    assert all(informer.stopped for informer in bench.scheduler.config.informers.informers)


def test_run_stops_before_caches_have_synced() -> None:
    bench = Bench()
    stop, cancel = wait.with_cancel(wait.background(bench.clock))
    config = ConfigFactory(bench.server, clock=bench.clock).create()
    cancel()
    Scheduler(config).run(stop)
    assert all(informer.stopped for informer in config.informers.informers)


def test_failed_cache_sync_ends_the_run() -> None:
    bench = Bench()

    def forbidden(*_: Any, **__: Any) -> Any:
        raise ApiError("no pods for you", status=403, reason="Forbidden")

    bench.server.list = forbidden  # type: ignore[method-assign]
    bench.run()
    (error,) = bench.errors
    assert isinstance(error, WaitFailed)
    assert "cannot sync: list failed: 403 Forbidden: no pods for you" in str(error)


def test_stop_finishes_bindings_and_drops_waiting_pods(bench: Bench) -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold(_body: Obj) -> None:
        held.set()
        assert go_on.wait(PATIENCE)

    bench.server.answers["/binding"] = hold
    bench.server.put(node("n1"))
    bench.run(bind_threads=1)
    bench.server.put(pod("a"))
    bench.server.put(pod("b"))
    assert held.wait(PATIENCE)
    bench.stop.set()
    threading.Timer(0.05, go_on.set).start()
    bench.end()
    assert len(bench.server.sent("/binding")) == 1
    assert bench.told("a", "Scheduled")
    assert bench.server.pod("b")["spec"].get("nodeName") is None


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
        ConfigFactory(FakeServer(), **options)
    assert str(raised.value) == message


def test_algorithm_given_twice_is_refused() -> None:
    algorithm = Algorithm()
    with pytest.raises(InvalidArgument, match="None where scheduler_names has the algorithms"):
        ConfigFactory(FakeServer(), scheduler_names={"a": algorithm}, algorithm=algorithm)


def test_informers_of_one_namespace_are_refused() -> None:
    informers = SharedInformerFactory(FakeServer(), "default")
    with pytest.raises(InvalidArgument) as raised:
        ConfigFactory(FakeServer(), informers=informers).create()
    assert str(raised.value) == (
        "informers='of namespace default' is not valid: "
        "a factory whose informers see all namespaces"
    )
