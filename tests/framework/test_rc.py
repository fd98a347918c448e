"""Verdicts on raw ReplicationControllers, and on the pods of any controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS, REPLICATION_CONTROLLERS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.rc import (
    wait_for_controlled_pods,
    wait_for_controlled_pods_running,
    wait_for_rc_pods_running,
    wait_for_rc_to_stabilize,
)
from pytest_kwait.framework.registry import WAITS, condition_of
from tests.framework.sources import enter
from tests.framework.workload_samples import stuck
from tests.objects import condition, deployment, job, owned_pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
GOING = {"deletionTimestamp": "now"}
REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: small")


def web(replicas: int = 2, there: int = 2, *, metadata: Any = None, **status: Any) -> Any:
    return workload(
        "ReplicationController",
        replicas=replicas,
        metadata=metadata or {},
        status={"replicas": there, **status},
    )


def a_pod(controller: str = "rc/web") -> Any:
    return condition_of(wait_for_controlled_pods)("ci-1", controller)


def all_running(controller: str = "rc/web") -> Any:
    return condition_of(wait_for_controlled_pods_running)("ci-1", controller)


def running(count: int) -> Any:
    return condition_of(wait_for_rc_pods_running)("ci-1", "web", count)


def stable() -> Any:
    return condition_of(wait_for_rc_to_stabilize)("ci-1", "web")


WAITING = owned_pod("web", "w", "Pending")
ROWS: dict[str, tuple[Any, Any, list[Any], Verdict]] = {
    "none": (a_pod(), None, [], Pending("not found yet")),
    "a pod": (a_pod(), web(), [WAITING], Met()),
    "no pod": (a_pod(), web(), [], Pending("pods: none")),
    "no pod any more": (
        a_pod(),
        web(),
        [
            owned_pod("web", "a", metadata=GOING),
            owned_pod("web", "b", "Failed"),
            owned_pod("other", "c"),
        ],
        Pending("pods: 1 being deleted, 1 Failed, 1 of another owner"),
    ),
    "a pod refused": (
        a_pod(),
        web(conditions=[REFUSED]),
        [],
        Failed("FailedCreate: exceeded quota: small", LONG),
    ),
    "a pod of a replica set": (
        a_pod("deployment/web"),
        deployment(),
        [owned_pod("web-1", "a")],
        Met(),
    ),
    "all": (all_running(), web(), [owned_pod("web", "a"), owned_pod("web", "b")], Met()),
    "and more": (all_running(), web(1), [owned_pod("web", "a"), owned_pod("web", "b")], Met()),
    "all but one": (
        all_running(),
        web(),
        [owned_pod("web", "a"), WAITING],
        Pending("1 of 2 Running: 1 Running, 1 Pending"),
    ),
    "all but a stuck one": (
        all_running(),
        web(),
        [owned_pod("web", "a"), stuck("web", "b")],
        Failed("pod b: InvalidImageName: nope", SHORT, 0.0),
    ),
    "all of none": (all_running(), web(0, 0), [], Failed("it is to have 0 pods", LONG)),
    "all of a spec that nobody has seen": (
        all_running(),
        web(metadata={"generation": 2}),
        [owned_pod("web", "a"), owned_pod("web", "b")],
        Pending("generation 2 is not observed yet, its status is of generation 1"),
    ),
    "all of a job": (
        all_running("job/web"),
        job("web", selector={"matchLabels": {"app": "web"}}, parallelism=2, completions=1),
        [owned_pod("web", "a")],
        Met(),
    ),
    "exactly": (running(2), web(), [owned_pod("web", "a"), owned_pod("web", "b"), WAITING], Met()),
    "exactly none": (running(0), web(0, 0), [], Met()),
    "not yet none": (
        running(0),
        web(0, 1),
        [owned_pod("web", "a")],
        Pending("1 of 0 Running: 1 Running"),
    ),
    "one more": (
        running(1),
        web(),
        [owned_pod("web", "a"), owned_pod("web", "b")],
        Pending("2 of 1 Running: 2 Running"),
    ),
    "more than it is to have": (running(3), web(1), [], Failed("it is to have 1 pod", LONG)),
    "some refused": (
        running(2),
        web(conditions=[REFUSED]),
        [owned_pod("web", "a")],
        Failed("FailedCreate: exceeded quota: small", LONG),
    ),
    "going": (
        running(2),
        web(metadata=GOING),
        [],
        Failed("the replicationcontroller is being deleted", SHORT),
    ),
    "stable": (stable(), web(), [], Met()),
    "stable at none": (stable(), web(0, 0), [], Met()),
    "not stable": (stable(), web(2, 1), [], Pending("1 of 2 replicas")),
    "not observed": (
        stable(),
        web(metadata={"generation": 2}),
        [],
        Pending("generation 2 is not observed yet, its status is of generation 1"),
    ),
    "never stable": (
        stable(),
        web(2, 1, conditions=[REFUSED]),
        [],
        Failed("FailedCreate: exceeded quota: small", LONG),
    ),
    "stable once more than enough are gone": (
        stable(),
        web(1, 2, conditions=[REFUSED]),
        [],
        Pending("2 of 1 replicas"),
    ),
}


@pytest.mark.parametrize(("awaited", "obj", "pods", "verdict"), ROWS.values(), ids=ROWS.keys())
def test_verdicts(awaited: Any, obj: Any, pods: list[Any], verdict: Verdict) -> None:
    if obj is not None:
        enter(awaited, obj)
        awaited.sources()
    for each in pods:
        enter(awaited, each, position=1)

    assert awaited.verdict() == verdict


def test_only_running_pods_are_returned(client: ApiClient, session: FakeSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web())
    session.put(PODS, WAITING)
    session.put(PODS, owned_pod("web", "b"))
    session.at(2, session.put, PODS, owned_pod("web", "a"))

    pods = wait_for_rc_pods_running(client, "ci-1", "web", 2)

    assert [pod["metadata"]["name"] for pod in pods] == ["a", "b"]
    assert session.clock.monotonic() == pytest.approx(2, abs=0.1)
    assert session.count("list") == session.count("watch") == 2


def test_a_stable_controller_costs_one_watch(client: ApiClient, session: FakeSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web(2, 1))
    session.at(1, session.put, REPLICATION_CONTROLLERS, web())

    found = WAITS["wait_for_rc_to_stabilize"].function(client, "ci-1", "web")

    assert found["status"]["replicas"] == 2
    assert session.count("list") == session.count("watch") == 1


def test_refused_pods_end_the_wait(client: ApiClient, session: FakeSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web(2, 0, conditions=[REFUSED]))

    with pytest.raises(WaitFailed) as caught:
        wait_for_rc_pods_running(client, "ci-1", "web", 2)

    assert caught.value.args == (
        "replicationcontroller ci-1/web can no longer have exactly 2 pods Running: "
        "FailedCreate: exceeded quota: small",
    )
    assert session.clock.monotonic() == pytest.approx(45, abs=0.1)


HEADLINES = [
    (
        "wait_for_controlled_pods",
        ("rs/web",),
        "replicaset ci-1/web did not have pods within 2s: not found yet",
    ),
    (
        "wait_for_controlled_pods_running",
        ("ds/web",),
        "daemonset ci-1/web did not have all pods Running within 2s: not found yet",
    ),
    (
        "wait_for_rc_pods_running",
        ("web", 1),
        "replicationcontroller ci-1/web did not have exactly 1 pod Running within 2s: "
        "not found yet",
    ),
    (
        "wait_for_rc_to_stabilize",
        ("web",),
        "replicationcontroller ci-1/web did not stabilize within 2s: not found yet",
    ),
]


@pytest.mark.parametrize(("name", "args", "headline"), HEADLINES, ids=[row[0] for row in HEADLINES])
def test_headlines(client: ApiClient, name: str, args: tuple[Any, ...], headline: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        WAITS[name].function(client, "ci-1", *args, timeout=2)

    assert caught.value.args == (headline,)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            "wait_for_controlled_pods",
            ("svc/web",),
            "target='svc/web' is not valid: use one of rc, rs, deployment, statefulset, "
            "daemonset and job with a name: 'rc/web'",
        ),
        (
            "wait_for_rc_pods_running",
            ("web", -1),
            "count=-1 is not valid: use a whole number, 0 or more",
        ),
        (
            "wait_for_rc_to_stabilize",
            ("Web",),
            "rc='Web' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' and "
            "'.', with a letter or digit at both ends of each part",
        ),
    ],
)
def test_bad_arguments(name: str, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        WAITS[name].check(*args)

    assert str(caught.value) == text
