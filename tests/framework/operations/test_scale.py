"""Scaling, and the wait that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.scale import ScaledPods, scale
from tests.framework.sources import enter
from tests.framework.workload_samples import stuck
from tests.framework.writable_session import WritingSession
from tests.objects import condition, owned_pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

SHORT, LONG = Grace.SHORT, Grace.LONG
CONFLICT = ApiError("the object has been changed", status=409, reason="Conflict")
WIDGETS = Resource(
    "example.com", "v1", "widgets", "Widget", True, subresources=frozenset({"scale"})
)


@pytest.fixture
def session() -> WritingSession:
    session = WritingSession()
    session.scales["web"] = {
        "metadata": {"uid": "uid-web"},
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "selector": "app=web"},
    }
    return session


def web(replicas: int = 2, there: int = 2, ready: int = 2, **fields: Any) -> Any:
    status = {"replicas": there, "readyReplicas": ready}
    return workload("ReplicaSet", replicas=replicas, status=status, **fields)


def pod_of(name: str, **parts: Any) -> Any:
    return owned_pod("web", name, ready=True, **parts)


GOING = {"deletionTimestamp": "now"}
REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: small")
ROWS: dict[str, tuple[Any, list[Any], Verdict]] = {
    "all there": (web(), [pod_of("a"), pod_of("b")], Met()),
    "not there": (None, [], Failed("the replicaset was deleted")),
    "none yet": (web(), [], Pending("0 of 2 ready: no pods")),
    "one not ready": (
        web(),
        [pod_of("a"), owned_pod("web", "b")],
        Pending("1 of 2 ready: 1 ready, 1 Running, not ready"),
    ),
    "one too many": (
        web(),
        [pod_of("a"), pod_of("b"), pod_of("c")],
        Pending("3 of 2 ready: 3 ready"),
    ),
    "one going": (
        web(),
        [pod_of("a"), pod_of("b"), pod_of("c", metadata=GOING)],
        Pending("2 of 2 ready: 2 ready, 1 being deleted"),
    ),
    "one that ended takes no place": (
        web(),
        [pod_of("a"), pod_of("b"), owned_pod("web", "c", "Failed")],
        Met(),
    ),
    "one of another owner": (
        web(),
        [pod_of("a"), owned_pod("other", "b", ready=True)],
        Pending("1 of 2 ready: 1 ready, 1 of another owner"),
    ),
    "not counted yet": (
        web(there=1),
        [pod_of("a"), pod_of("b")],
        Pending("status.replicas is 1"),
    ),
    "not counted as ready yet": (
        web(ready=1),
        [pod_of("a"), pod_of("b")],
        Pending("status.readyReplicas is 1"),
    ),
    "not observed": (
        web(generation=2),
        [pod_of("a"), pod_of("b")],
        Pending("generation 2 is not observed yet, its status is of generation 1"),
    ),
    "scaled by somebody else": (web(5), [], Failed("it was scaled to 5 meanwhile", LONG)),
    "going itself": (
        web(metadata=GOING),
        [],
        Failed("the replicaset is being deleted", SHORT),
    ),
    "made anew": (
        web(metadata={"uid": "uid-new"}),
        [],
        Failed("the replicaset was deleted and created anew under another UID"),
    ),
    "stuck": (
        web(),
        [pod_of("a"), stuck("web", "b")],
        Failed("pod b: InvalidImageName: nope", SHORT, 0.0),
    ),
    "refused": (
        web(conditions=[REFUSED]),
        [pod_of("a")],
        Failed("FailedCreate: exceeded quota: small", LONG),
    ),
    "refused before": (
        web(conditions=[REFUSED], there=1),
        [pod_of("a"), pod_of("b")],
        Pending("status.replicas is 1"),
    ),
}


@pytest.mark.parametrize(("obj", "pods", "verdict"), ROWS.values(), ids=ROWS.keys())
def test_verdicts(obj: Any, pods: list[Any], verdict: Verdict) -> None:
    awaited = ScaledPods(REPLICA_SETS, "ci-1", "web", uid="uid-web", selector="app=web", replicas=2)
    if obj is not None:
        enter(awaited, obj)
    for each in pods:
        enter(awaited, each, position=1)

    assert awaited.verdict() == verdict


def test_a_custom_resource_is_ready_by_its_pods() -> None:
    awaited = ScaledPods(WIDGETS, "ci-1", "web", uid="uid-web", selector="app=web", replicas=1)
    enter(awaited, {"metadata": {"name": "web", "uid": "uid-web", "generation": 1}, "spec": None})
    enter(awaited, owned_pod("anybody", "a", ready=True), position=1)

    assert awaited.verdict() == Met()


def test_scale_writes_and_waits(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICA_SETS, web(1, 1, 1))
    session.put(PODS, pod_of("a"))

    def grow(verb: str, name: str, what: Any) -> None:
        session.put(REPLICA_SETS, web(2, 1, 1, generation=2))
        session.at(3, session.put, PODS, pod_of("b"))
        session.at(4, session.put, REPLICA_SETS, web(2, 2, 2, generation=2, observedGeneration=2))

    session.then = grow
    found = scale(client, "ci-1", "rs/web", 2)

    assert found["status"]["readyReplicas"] == 2
    assert session.written == [("patch", "replicasets", "web/scale", {"spec": {"replicas": 2}})]
    assert session.clock.monotonic() == pytest.approx(4, abs=0.1)
    assert session.count("list") == session.count("watch") == 2


def test_a_conflict_is_written_again(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICA_SETS, web(0, 0, 0))
    session.refuse(CONFLICT, CONFLICT)

    scale(client, "ci-1", "rs/web", 0)

    assert len(session.written) == 3


def test_conflicts_without_end(client: ApiClient, session: WritingSession) -> None:
    session.refuse(*[CONFLICT] * 9)

    with pytest.raises(ApiError, match="the object has been changed"):
        scale(client, "ci-1", "rs/web", 0)

    assert len(session.written) == 5


def test_pods_that_will_not_come(client: ApiClient, session: WritingSession) -> None:
    session.put(STATEFUL_SETS, web(2))
    session.put(PODS, stuck("web", "web-0"))

    with pytest.raises(WaitFailed) as caught:
        scale(client, "ci-1", "statefulset/web", 2)

    assert caught.value.args == (
        "statefulset ci-1/web can no longer have exactly 2 pods, Running and ready: "
        "pod web-0: InvalidImageName: nope",
    )


def test_pods_that_do_not_come(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, web(1))

    with pytest.raises(WaitTimeout) as caught:
        scale(client, "ci-1", "deploy/web", 1, timeout="2s")

    assert caught.value.args == (
        "deployment ci-1/web did not have exactly 1 pod, Running and ready within 2s: "
        "0 of 1 ready: no pods",
    )


@pytest.mark.parametrize(
    ("target", "replicas", "text"),
    [
        ("rs/web", -1, "replicas=-1 is not valid: use a whole number, 0 or more"),
        (
            "rs",
            1,
            "target='rs' is not valid: use kind/name, for example 'deployment/web'",
        ),
        ("job/pi", 1, "target='job/pi' is not valid: a Job has no scale"),
        (
            "widgets/web",
            1,
            "selector=None is not valid: the scale of widgets/web names no pods: give their labels",
        ),
    ],
)
def test_bad_arguments(
    client: ApiClient, session: WritingSession, target: str, replicas: int, text: str
) -> None:
    session.custom["widgets"] = WIDGETS
    session.scales["web"] = {"metadata": {}, "status": {"replicas": 1}}

    with pytest.raises(InvalidArgument) as caught:
        scale(client, "ci-1", target, replicas)

    assert str(caught.value) == text
    assert session.written == []


@pytest.mark.parametrize("selector", ["app=web", {"app": "web"}])
def test_pods_of_a_scale_that_names_none(
    client: ApiClient, session: WritingSession, selector: Any
) -> None:
    session.custom["widgets"] = WIDGETS
    session.scales["web"] = {"metadata": {"uid": "uid-web"}, "status": {"replicas": 1}}
    session.put(WIDGETS, {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"replicas": 1}})
    session.at(2, session.put, PODS, owned_pod("web", "a", ready=True, labels={"app": "web"}))
    session.put(PODS, owned_pod("other", "b", ready=True, labels={"app": "other"}))

    found = scale(client, "ci-1", "widgets/web", 1, selector=selector)

    assert found["metadata"]["name"] == "web"
    # It must hold for 2 s, as no generation is observed.
    assert session.clock.monotonic() == pytest.approx(4, abs=0.1)


def test_the_given_selector_is_the_one(client: ApiClient, session: WritingSession) -> None:
    session.custom["widgets"] = WIDGETS
    session.put(WIDGETS, {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"replicas": 1}})
    session.put(PODS, owned_pod("web", "a", ready=True, labels={"app": "web", "role": "main"}))
    session.put(PODS, owned_pod("web", "b", ready=True, labels={"app": "web"}))

    scale(client, "ci-1", "widgets/web", 1, selector="role=main")


@pytest.mark.parametrize("selector", ["", {}])
def test_a_selector_of_everything(
    client: ApiClient, session: WritingSession, selector: Any
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        scale(client, "ci-1", "rs/web", 1, selector=selector)

    assert str(caught.value) == (
        f"selector={selector!r} is not valid: use labels that select something"
    )
    assert session.requests == []
