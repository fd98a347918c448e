"""Verdicts on raw DaemonSets, their pods and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DAEMON_SETS, PODS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.daemonset import (
    wait_for_daemon_set_pods_on_nodes,
    wait_for_daemon_set_present_on_nodes,
    wait_for_daemon_set_running_on_all_nodes,
    wait_for_daemon_set_status,
    wait_for_daemon_sets,
)
from pytest_kwait.framework.registry import WAITS, condition_of
from tests.framework.sources import enter
from tests.framework.workload_samples import stuck
from tests.objects import owned_pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
GOING = {"deletionTimestamp": "now"}


def agent(desired: int = 2, ready: int = 2, *, name: str = "web", **fields: Any) -> Any:
    return workload(
        "DaemonSet",
        name,
        desiredNumberScheduled=desired,
        currentNumberScheduled=desired,
        numberReady=ready,
        numberAvailable=ready,
        **{"selector": {"matchLabels": {"app": "web"}}, **fields},
    )


def on(node: str | None, name: str = "", **parts: Any) -> Any:
    return owned_pod("web", name or f"web-{node}", ready=True, nodeName=node, **parts)


def late(node: str, **parts: Any) -> Any:
    return owned_pod("web", f"web-{node}", nodeName=node, **parts)


def everywhere() -> Any:
    return condition_of(wait_for_daemon_set_running_on_all_nodes)("ci-1", "web")


def only(*nodes: str) -> Any:
    return condition_of(wait_for_daemon_set_pods_on_nodes)("ci-1", "web", nodes)


def started(count: int) -> Any:
    return condition_of(wait_for_daemon_set_present_on_nodes)("ci-1", "web", count)


def status() -> Any:
    return condition_of(wait_for_daemon_set_status)("ci-1", "web")


BAD = "InvalidImageName: nope"
ROWS: dict[str, tuple[Any, Any, list[Any], Verdict]] = {
    "no set": (everywhere(), None, [], Pending("not found yet")),
    "all": (everywhere(), agent(), [on("a"), on("b")], Met()),
    "none yet": (everywhere(), agent(), [], Pending("0 of 2 nodes with one pod: no pods")),
    "one not ready": (
        everywhere(),
        agent(),
        [on("a"), late("b")],
        Pending("1 of 2 nodes with one pod: 1 ready, 1 Running, not ready"),
    ),
    "not available for long enough": (
        everywhere(),
        agent(ready=1),
        [on("a"), on("b")],
        Pending("1 of 2 pods available"),
    ),
    "two on one node": (
        everywhere(),
        agent(),
        [on("a"), on("a", "web-x"), on("b")],
        Pending("1 of 2 nodes with one pod: 3 ready; 1 with more than one, or none awaited"),
    ),
    "one more on a node that is no longer meant": (
        everywhere(),
        agent(),
        [on("a"), on("b"), on("c")],
        Pending("3 of 2 nodes with one pod: 3 ready"),
    ),
    "one that goes": (everywhere(), agent(), [on("a"), on("b"), on("c", metadata=GOING)], Met()),
    "one of another": (
        everywhere(),
        agent(1),
        [owned_pod("other", "x", ready=True)],
        Pending("0 of 1 node with one pod: 1 of another owner"),
    ),
    "one that has ended is replaced": (
        everywhere(),
        agent(1),
        [late("a", phase="Failed")],
        Pending("0 of 1 node with one pod: 1 Failed"),
    ),
    "status of before": (
        everywhere(),
        agent(observed=0),
        [on("a"), on("b")],
        Pending("generation 1 is not observed yet, its status is not written yet"),
    ),
    "no node": (everywhere(), agent(0, 0), [], Failed("the set is to run on 0 nodes", LONG)),
    "going": (
        everywhere(),
        agent(deletionTimestamp="now"),
        [],
        Failed("the daemonset is being deleted", SHORT),
    ),
    "stuck": (
        everywhere(),
        agent(),
        [on("a"), stuck("web", "x"), stuck("web", "y")],
        Failed(f"pod x (and 1 more pod): {BAD}", SHORT, 0.0),
    ),
    "on these": (only("a", "b"), agent(), [on("a"), on("b")], Met()),
    "on others": (
        only("a", "b"),
        agent(),
        [on("a"), on("c")],
        Pending("1 of 2 nodes with one pod: 2 ready; 1 with more than one, or none awaited"),
    ),
    "on this and, left over, on another": (
        only("a"),
        agent(1, 1),
        [on("a"), on("c")],
        Pending("1 of 1 node with one pod: 2 ready; 1 with more than one, or none awaited"),
    ),
    "on none": (only(), agent(0, 0), [], Met()),
    "on more": (
        only("a"),
        agent(),
        [on("a"), on("b")],
        Failed("the set is to run on 2 nodes", LONG),
    ),
    "stuck where it is not needed": (
        only("a", "b"),
        agent(),
        [on("a"), stuck("web", "x")],
        Pending("1 of 2 nodes with one pod: 1 ready, 1 Pending (InvalidImageName)"),
    ),
    "stuck where it is needed": (
        only("a", "node-1"),
        agent(),
        [on("a"), stuck("web", "x")],
        Failed(f"pod x: {BAD}", SHORT, 0.0),
    ),
    "started": (started(2), agent(ready=0), [late("a"), late("b")], Met()),
    "not started": (
        started(1),
        agent(),
        [late("a"), late("b", phase="Pending")],
        Pending("1 of 2 nodes with one pod: 1 Running, 1 Pending"),
    ),
    "on too few": (
        started(3),
        agent(),
        [on("a"), on("b")],
        Failed("the set is to run on 2 nodes", LONG),
    ),
    "status": (status(), agent(), [], Met()),
    "status of none": (status(), agent(0, 0), [], Met()),
    "status of one less": (
        status(),
        agent(ready=1),
        [on("a")],
        Pending("2 of 2 pods scheduled, 1 ready"),
    ),
    "status with one stuck": (
        status(),
        agent(ready=1),
        [stuck("web", "x")],
        Failed(f"pod x: {BAD}", SHORT, 0.0),
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


def test_pods_move_and_go() -> None:
    awaited = only("a", "b")
    enter(awaited, agent())
    enter(awaited, on("a", "x"), position=1)
    enter(awaited, on("a", "y"), position=1)
    enter(awaited, on("b", "z"), position=1)
    book = awaited.sources()[1].sink
    assert (book.single, book.occupied) == (1, 2)

    book.drop("uid-y")
    assert (book.single, book.occupied) == (2, 2)
    assert awaited.verdict() == Met()
    assert [pod["metadata"]["name"] for pod in awaited.result()] == ["x", "z"]
    enter(awaited, owned_pod("web", "z", nodeName="b"), position=1)
    assert (book.single, book.occupied) == (1, 1)
    book.drop("uid-x")
    book.drop("uid-z")
    assert (book.single, book.occupied, book.met) == (0, 0, 0)


def test_all_sets_of_a_namespace() -> None:
    awaited = condition_of(wait_for_daemon_sets)("ci-1")
    assert awaited.verdict() == Met()
    enter(awaited, agent())
    enter(awaited, agent(3, 1, name="b", uid="uid-b"))
    enter(awaited, agent(0, 0, observed=0, name="c", uid="uid-c"))

    assert awaited.verdict() == Pending(
        "1 of 3 ready: 1 web with 2 of 2 pods, 1 b with 1 of 3 pods, 1 c not observed yet"
    )
    some = condition_of(wait_for_daemon_sets)("ci-1", 2)
    enter(some, agent(3, 1))
    assert some.verdict() == Met()
    assert [each["kind"] for each in some.result()] == ["DaemonSet"]


HEADLINES = [
    (
        "wait_for_daemon_set_running_on_all_nodes",
        ("web",),
        "daemonset ci-1/web did not have one available pod on each node that it is to run on "
        "within 2s: not found yet",
    ),
    (
        "wait_for_daemon_set_pods_on_nodes",
        ("web", ["a", "b", "c", "d"]),
        "daemonset ci-1/web did not have one available pod on a, b, c and 1 more each, and nowhere "
        "else within 2s: not found yet",
    ),
    (
        "wait_for_daemon_set_pods_on_nodes",
        ("web", ["a"]),
        "daemonset ci-1/web did not have one available pod on a, and nowhere else within 2s: "
        "not found yet",
    ),
    (
        "wait_for_daemon_set_pods_on_nodes",
        ("web", []),
        "daemonset ci-1/web did not have no available pod within 2s: not found yet",
    ),
    (
        "wait_for_daemon_set_present_on_nodes",
        ("web", 1),
        "daemonset ci-1/web did not have one pod that has started on each node that it is to run "
        "on, 1 node or more within 2s: not found yet",
    ),
    (
        "wait_for_daemon_set_status",
        ("web",),
        "daemonset ci-1/web did not have all pods scheduled and ready within 2s: not found yet",
    ),
    (
        "wait_for_daemon_sets",
        (1,),
        "daemon sets in ci-1 did not have all pods ready, all but 1 of each within 2s: "
        "0 of 1 ready: 1 b with 0 of 2 pods",
    ),
]


@pytest.mark.parametrize(("name", "args", "headline"), HEADLINES)
def test_headlines(
    client: ApiClient, session: FakeSession, name: str, args: tuple[Any, ...], headline: str
) -> None:
    session.put(DAEMON_SETS, agent(ready=0, name="b", uid="uid-b"))

    with pytest.raises(WaitTimeout) as caught:
        WAITS[name].function(client, "ci-1", *args, timeout=2)

    assert caught.value.args == (headline,)


def test_a_stuck_pod_ends_the_wait(client: ApiClient, session: FakeSession) -> None:
    session.put(DAEMON_SETS, agent())
    session.put(PODS, on("a"))
    session.put(PODS, stuck("web", "web-b"))

    with pytest.raises(WaitFailed) as caught:
        wait_for_daemon_set_running_on_all_nodes(client, "ci-1", "web")

    assert caught.value.args == (
        "daemonset ci-1/web can no longer have one available pod on each node that it is to run "
        f"on: pod web-b: {BAD}",
    )
    assert session.clock.monotonic() == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            "wait_for_daemon_set_pods_on_nodes",
            ("web", {"a": 1}),
            "nodes=<object without a name> is not valid: use names or objects of kind Node, or a "
            "list of these, such as a NodeList",
        ),
        (
            "wait_for_daemon_sets",
            (-1,),
            "allowed_not_ready=-1 is not valid: use a whole number, 0 or more",
        ),
    ],
)
def test_bad_arguments(name: str, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        WAITS[name].check(*args)

    assert str(caught.value) == text


def test_nulls_are_as_good_as_nothing() -> None:
    for awaited in (everywhere(), only("a"), status()):
        enter(
            awaited,
            {"metadata": {"name": "web", "uid": "uid-web"}, "spec": None, "status": None},
        )

        assert isinstance(awaited.verdict(), Pending)

    awaited = everywhere()
    enter(awaited, agent(1))
    enter(awaited, {**on("a"), "spec": None, "status": None}, position=1)
    assert awaited.verdict() == Pending("0 of 1 node with one pod: 1 Pending")
