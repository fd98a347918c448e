"""Exact counts: met by the final number, never by one that is passed on the way to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_kwait.client.resource import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Met
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitTimeout
from pytest_kwait.framework.endpoints import wait_for_endpoint_count, wait_for_endpoint_pods
from pytest_kwait.framework.job.wait import (
    wait_for_job_pods_running,
    wait_for_job_pods_succeeded,
    wait_for_job_ready,
)
from pytest_kwait.framework.node.wait import wait_for_nodes_ready
from pytest_kwait.framework.objects.conditions import ManyObjects
from pytest_kwait.framework.objects.lists import EachObjectPredicate, at_least, exactly
from pytest_kwait.framework.objects.wait import AllConditions
from pytest_kwait.framework.pod.list_wait import wait_for_number_of_pods, wait_for_pods_running
from pytest_kwait.framework.predicates import parse_predicate
from pytest_kwait.framework.rc import wait_for_rc_pods_running
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.replicaset import wait_for_replica_set_target_available_replicas
from pytest_kwait.framework.statefulset import (
    wait_for_stateful_set_running_and_ready,
    wait_for_stateful_set_status_available_replicas,
)
from tests.engine.fake_session import FakeSession
from tests.examples import scaled
from tests.objects import condition, created_job

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]
WEB = {"app": "web"}
KINDS = {
    "job": ("Job", JOBS),
    "rs": ("ReplicaSet", REPLICA_SETS),
    "rc": ("ReplicationController", REPLICATION_CONTROLLERS),
    "sts": ("StatefulSet", STATEFUL_SETS),
    "deploy": ("ReplicaSet", REPLICA_SETS),
}


def web_pod(number: int, kind: str | None, phase: str = "Running") -> Obj:
    metadata: Obj = {"name": f"web-{number}", "uid": f"pod-{number}", "labels": WEB}
    if kind is not None:
        owner = {"kind": KINDS[kind][0], "name": "web", "uid": "uid-web", "controller": True}
        metadata["ownerReferences"] = [owner]
    status = {"phase": phase, "conditions": [condition("Ready")], "podIP": f"10.0.0.{number + 1}"}
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": status}


def owner(kind: str, wanted: int, **status: Any) -> Obj:
    """Return an owner of the pods that wants so many, its generation observed."""
    metadata: Obj = {"name": "web", "uid": "uid-web", "generation": 2}
    template = {"metadata": {"labels": WEB}}
    selector: Obj = WEB if kind == "rc" else {"matchLabels": WEB}
    spec: Obj = {"selector": selector, "template": template}
    if kind == "job":
        spec |= {"parallelism": wanted, "completions": wanted}
        return {"metadata": metadata, "spec": spec, "status": status}
    if kind == "deploy":
        metadata["ownerReferences"] = [{"kind": "Deployment", "uid": "uid-d", "controller": True}]
    return {
        "metadata": metadata,
        "spec": spec | {"replicas": wanted},
        "status": {"observedGeneration": 2, **status},
    }


def put_owner(session: FakeSession, kind: str | None, wanted: int, there: int) -> None:
    if kind is None:
        return
    counts = ("replicas", "readyReplicas", "availableReplicas", "ready")
    session.put(KINDS[kind][1], owner(kind, wanted, **dict.fromkeys(counts, there)))
    if kind == "deploy":
        whole = owner("rs", wanted)
        session.put(DEPLOYMENTS, {**whole, "metadata": {**whole["metadata"], "uid": "uid-d"}})


def put_slice(session: FakeSession, there: int) -> None:
    endpoints = [
        {
            "addresses": [f"10.0.0.{number + 1}"],
            "targetRef": {"kind": "Pod", "namespace": "ci-1", "name": f"web-{number}"},
        }
        for number in range(there)
    ]
    labels = {"kubernetes.io/service-name": "web"}
    metadata = {"name": "web-1", "uid": "slice", "namespace": "ci-1", "labels": labels}
    session.put(ENDPOINT_SLICES, {"metadata": metadata, "endpoints": endpoints})


def run(
    make: Callable[[], Any],
    kind: str | None,
    path: list[int],
    gaps: list[float],
    mode: Any,
    *,
    poll: float = 1.0,
    silent: bool = False,
) -> tuple[str, float]:
    """Return how a wait ends, and when, while the number of pods takes this path.

    `silent` changes send no event.
    """
    session = FakeSession()
    final = path[-1]
    session.put(SERVICES, {"metadata": {"name": "web", "uid": "svc"}, "spec": {"selector": WEB}})

    def come_to(number: int) -> None:
        for each in range(max(path)):
            if each < number:
                session.put(PODS, web_pod(each, kind))
            elif f"web-{each}" in session._objects.get("pods", {}):
                session.drop(PODS, f"web-{each}")
        put_slice(session, number)
        put_owner(session, kind, final, number)

    come_to(path[0])
    moment = 0.0
    for number, gap in zip(path[1:], gaps, strict=False):
        moment += gap
        if silent:
            session.at(moment, session.silently, come_to, number)
        else:
            session.at(moment, come_to, number)
    options = WaitSettings(timeout=20.0, poll=poll, mode=mode, fail_fast=False)
    try:
        wait_for_condition(session, make(), options, Deadline.after(20.0, session.script_clock))
    except WaitTimeout:
        return "timed out", session.clock.monotonic()
    return "met", session.clock.monotonic()


def by(wait: Any, *names: Any) -> Callable[[int], Any]:
    return lambda number: condition_of(wait)("ci-1", *names, number)


WAITS: dict[str, tuple[str | None, Callable[[int], Any]]] = {
    "job pods running": ("job", by(wait_for_job_pods_running, "web")),
    "job ready": ("job", by(wait_for_job_ready, "web")),
    "rc pods": ("rc", by(wait_for_rc_pods_running, "web")),
    "available": ("rs", by(wait_for_replica_set_target_available_replicas, "web")),
    "set pods": ("sts", by(wait_for_stateful_set_running_and_ready, "web")),
    "set status": ("sts", by(wait_for_stateful_set_status_available_replicas, "web")),
    "pods of a job": ("job", by(wait_for_number_of_pods)),
    "pods of a replica set": ("rs", by(wait_for_number_of_pods)),
    "running pods of a deployment": ("deploy", by(wait_for_pods_running)),
    "pods of none": (None, by(wait_for_number_of_pods)),
    "wait_for pods": (
        "sts",
        lambda n: ManyObjects(
            PODS, "ci-1", "app=web", parse_predicate("condition=Ready"), exactly(n)
        ),
    ),
    "endpoints": ("rs", by(wait_for_endpoint_count, "web")),
    "endpoint pods": (
        "rs",
        lambda n: condition_of(wait_for_endpoint_pods)(
            "ci-1", "web", [f"web-{each}" for each in range(n)]
        ),
    ),
}
GAPS = st.lists(st.floats(0.05, 0.9), min_size=5, max_size=5)
"""Seconds between two numbers: less than a count must hold that its owner does not want."""


@settings(max_examples=scaled(150), deadline=None)
@given(
    st.sampled_from(sorted(WAITS)),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    GAPS,
    st.sampled_from(["watch", "poll"]),
)
def test_numbers_on_the_way_to_another_never_satisfy(
    wait: str, first: int, last: int, awaited: int, gaps: list[float], mode: Any
) -> None:
    kind, make = WAITS[wait]
    step = 1 if last >= first else -1
    path = list(range(first, last + step, step))

    ended, _ = run(lambda: make(awaited), kind, path, gaps, mode)

    assert ended == ("met" if awaited == last else "timed out")


@settings(max_examples=scaled(100), deadline=None)
@given(
    st.sampled_from(sorted(name for name, (kind, _) in WAITS.items() if kind)),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.floats(14.1, 19.9),
    st.sampled_from(["watch", "poll"]),
)
def test_final_number_after_the_last_look_satisfies_when_the_time_is_up(
    wait: str, first: int, last: int, awaited: int, moment: float, mode: Any
) -> None:
    """Looks at 0, 7 and 14 s, and at the limit of 20 s."""
    # What holds before the change would satisfy, wanted or not.
    assume(awaited != first)
    kind, make = WAITS[wait]

    ended = run(lambda: make(awaited), kind, [first, last], [moment], mode, poll=7.0, silent=True)

    assert ended == ("met" if awaited == last else "timed out", 20.0)


@pytest.mark.parametrize("wait", sorted(name for name, (kind, _) in WAITS.items() if kind))
def test_the_number_that_the_owner_wants_is_not_held(wait: str) -> None:
    kind, make = WAITS[wait]
    assert run(lambda: make(3), kind, [1, 2, 3], [0.5, 0.5], "watch") == ("met", 1.0)


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_number_that_no_owner_wants_satisfies_once_it_holds(mode: Any) -> None:
    session = FakeSession()
    session.put(JOBS, created_job())
    for number in range(2):
        labels = {"batch.kubernetes.io/controller-uid": "uid-sleepers"}
        obj = web_pod(number, None)
        session.put(PODS, {**obj, "metadata": {**obj["metadata"], "labels": labels}})
    running = condition_of(wait_for_job_pods_running)("ci-1", "sleepers", 2)

    pods = wait_for_condition(session, running, WaitSettings(timeout=60.0, mode=mode))

    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1"]
    assert session.clock.monotonic() == 2.0


def test_the_time_that_a_number_must_hold() -> None:
    assert WaitSettings(timeout=60.0).settle_time == 2.0
    assert WaitSettings(timeout=60.0, poll=0.5).settle_time == 0.5
    assert WaitSettings(timeout=60.0, time_scale=lambda: 0.05).settle_time == 1.0
    assert WaitSettings(timeout=60.0, poll=30.0, time_scale=lambda: 0.05).settle_time == 1.5
    assert WaitSettings(timeout=0.5).settle_time == 0.25


def settled(condition_: Any, *objects: tuple[int, Obj]) -> bool:
    """Return whether the verdict on objects, each put in a source, is Met and settled."""
    for index, obj in objects:
        condition_.sources()[index].sink.put(obj, b"{}", 0.0)
    condition_.sources()
    verdict = condition_.verdict()
    assert isinstance(verdict, Met)
    return verdict.settled


@pytest.mark.parametrize(
    ("spec", "status", "expected", "final"),
    [
        ({}, {}, 0, False),
        ({"suspend": True}, {}, 0, True),
        ({}, {"conditions": [condition("FailureTarget")]}, 0, True),
        ({}, {"succeeded": 3}, 0, True),
        ({"parallelism": 0}, {}, 0, True),
        ({"completions": None}, {"succeeded": 1}, 0, False),
    ],
)
def test_jobs_that_want_no_pods(spec: Obj, status: Obj, expected: int, final: bool) -> None:
    running = condition_of(wait_for_job_pods_running)("ci-1", "sleepers", expected)
    assert settled(running, (0, created_job(spec=spec, status=status))) is final


def test_succeeded_pods_are_final_by_completions_or_by_the_end() -> None:
    labels = {"batch.kubernetes.io/controller-uid": "uid-sleepers"}
    done = web_pod(0, None, "Succeeded")
    done["metadata"]["labels"] = labels

    def one(**parts: Any) -> bool:
        succeeded = condition_of(wait_for_job_pods_succeeded)("ci-1", "sleepers", 1)
        return settled(succeeded, (0, created_job(**parts)), (1, done))

    assert not one()
    assert one(spec={"completions": 1})
    assert one(status={"conditions": [condition("Failed")]})


@pytest.mark.parametrize(
    ("change", "final"),
    [
        ({}, True),
        ({"generation": 3}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_an_owner_that_has_not_observed_its_spec_decides_nothing(change: Obj, final: bool) -> None:
    pods = condition_of(wait_for_number_of_pods)("ci-1", 1)
    controller = owner("rs", 1)
    controller["metadata"] |= change
    assert not settled(pods, (0, web_pod(0, "rs")))
    index = [source.resource for source in pods.sources()].index(REPLICA_SETS)
    assert settled(pods, (index, controller)) is final


def test_pods_without_a_known_owner_and_ending_ones_are_not_final() -> None:
    def two(other: Obj) -> bool:
        pods = condition_of(wait_for_number_of_pods)("ci-1", 2)
        settled(pods_of_one := pods, (0, web_pod(0, "rs")), (0, other))
        index = [source.resource for source in pods_of_one.sources()].index(REPLICA_SETS)
        return settled(pods, (index, owner("rs", 2)))

    ending = web_pod(1, "rs")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert two(web_pod(1, "rs"))
    assert not two(web_pod(1, None))
    assert not two(ending)


def test_nodes_and_lists_evaluated_by_user_code_must_hold() -> None:
    node = {"metadata": {"name": "n", "uid": "n"}, "status": {"conditions": [condition("Ready")]}}
    assert not settled(condition_of(wait_for_nodes_ready)(1), (0, node))
    counted = EachObjectPredicate(parse_predicate("create"), exactly(1)).evaluate([node])
    assert isinstance(counted, Met)
    assert not counted.settled
    least = EachObjectPredicate(parse_predicate("create"), at_least(1)).evaluate([node])
    assert isinstance(least, Met)
    assert least.settled


def test_one_unsettled_target_of_several_holds_all() -> None:
    parts = [
        ManyObjects(NODES, None, None, parse_predicate("create"), count)
        for count in (at_least(1), exactly(1))
    ]
    node = {"metadata": {"name": "n", "uid": "n"}}
    assert not settled(AllConditions(parts), (0, node), (1, node))
    assert settled(AllConditions(parts[:1]))
