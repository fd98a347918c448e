"""Verdicts on a raw StatefulSet and its pods, one row per case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS, STATEFUL_SETS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import WAITS, condition_of
from pytest_kwait.framework.statefulset import (
    parse_ordinal,
    wait_for_stateful_set_pod_ready,
    wait_for_stateful_set_running,
    wait_for_stateful_set_running_and_ready,
    wait_for_stateful_set_status_available_replicas,
    wait_for_stateful_set_status_ready_replicas,
    wait_for_stateful_set_status_replicas,
)
from tests.framework.sources import enter
from tests.objects import condition, owned_pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
BAD = ("InvalidImageName", "no such thing")
REASON = "InvalidImageName: no such thing"
UNBOUND = condition(
    "PodScheduled",
    "False",
    reason="Unschedulable",
    message="0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
)
NO_MORE = " (the set makes none after it)"


def web(replicas: int = 3, **fields: Any) -> dict[str, Any]:
    return workload("StatefulSet", replicas=replicas, **fields)


def member(name: str, phase: str = "Running", *, owner: str = "web", **fields: Any) -> Any:
    return owned_pod(owner, name, phase, uid=f"uid-{name}", **fields)


def ready(name: str, **more: Any) -> Any:
    return member(name, conditions=[condition("Ready")], **more)


def stuck(name: str) -> Any:
    return member(name, "Pending", waiting=BAD)


@dataclass
class Row:
    awaited: Any
    verdict: Verdict
    set: Any = field(default_factory=web)
    pods: list[Any] = field(default_factory=list)


def both(count: int) -> Any:
    return condition_of(wait_for_stateful_set_running_and_ready)("ci-1", "web", count)


def steps(count: int, ready_count: int) -> Any:
    return condition_of(wait_for_stateful_set_running)("ci-1", "web", count, ready_count)


def one(name: str) -> Any:
    return condition_of(wait_for_stateful_set_pod_ready)("ci-1", "web", name)


def counts(count: int) -> Any:
    return condition_of(wait_for_stateful_set_status_replicas)("ci-1", "web", count)


def ready_count(count: int) -> Any:
    return condition_of(wait_for_stateful_set_status_ready_replicas)("ci-1", "web", count)


def stuck_verdict(name: str, after: str = "", others: str = "", reason: str = REASON) -> Failed:
    return Failed(f"pod {name}{others}{after}: {reason}", SHORT, 0.0)


ROWS = {
    "no set": Row(both(3), Pending("not found yet"), None),
    "no pods": Row(both(3), Pending("0 of 3 pods Running and ready")),
    "none awaited": Row(both(0), Met(), web(0)),
    "all ready": Row(both(2), Met(), web(2), [ready("web-0"), ready("web-1")]),
    "pods count whatever its status says": Row(
        both(1), Met(), web(1, observed=0), [ready("web-0")]
    ),
    "one not ready": Row(
        both(2),
        Pending("1 of 2 pods Running and ready: 1 ready, 1 Running, not ready"),
        web(2),
        [ready("web-0"), member("web-1")],
    ),
    "a pod being deleted": Row(
        both(1),
        Pending("0 of 1 pod Running and ready: 1 being deleted"),
        web(1),
        [ready("web-0", metadata={"deletionTimestamp": "now"})],
    ),
    "one too many, which is removed": Row(
        both(1),
        Pending("2 pods, 1 more than awaited: 2 ready"),
        web(1),
        [ready("web-0"), ready("web-1")],
    ),
    "one too many, which stays": Row(
        both(1),
        Failed("the set is to have 2 replicas: web-0 to web-1", LONG),
        web(2),
        [ready("web-0"), ready("web-1")],
    ),
    "too few, and no more to come": Row(
        both(2), Failed("the set is to have 1 replica: web-0", LONG), web(1), [ready("web-0")]
    ),
    "too few, and none to come": Row(
        both(1), Failed("the set is to have 0 replicas: no pods", LONG), web(0)
    ),
    "other ordinals": Row(
        both(2), Failed("the set is to have 1 replica: web-5", LONG), web(1, ordinals={"start": 5})
    ),
    "its last word was of an older generation": Row(
        both(2),
        Pending("generation 2 is not observed yet, its status is of generation 1"),
        web(1, metadata={"generation": 2}),
        [stuck("web-0")],
    ),
    "being deleted": Row(
        both(2),
        Failed("the statefulset is being deleted", SHORT),
        web(2, metadata={"deletionTimestamp": "now"}),
    ),
    "pods of others": Row(
        both(1),
        Pending("0 of 1 pod Running and ready"),
        web(1),
        [ready("web-0", owner="uid-other"), ready("web-x"), ready("web-00"), ready("webs-0")],
    ),
    "a stuck pod keeps the rest from coming": Row(
        both(3), stuck_verdict("web-1", NO_MORE), pods=[ready("web-0"), stuck("web-1")]
    ),
    "a stuck pod keeps the rest from coming, from the first ordinal on": Row(
        both(3), stuck_verdict("web-5", NO_MORE), web(ordinals={"start": 5}), [stuck("web-5")]
    ),
    "a stuck pod, the last": Row(
        both(2), stuck_verdict("web-1"), web(2), [ready("web-0"), stuck("web-1")]
    ),
    "a stuck pod, and one below it is made first": Row(
        steps(2, 1),
        Pending(
            "0 of 2 pods Running, the first 1 ready and the others not: "
            "1 Pending (InvalidImageName)"
        ),
        web(3),
        [stuck("web-1")],
    ),
    "stuck pods side by side": Row(
        both(3),
        stuck_verdict("web-0", others=" (and 1 more pod)"),
        web(podManagementPolicy="Parallel"),
        [stuck("web-0"), stuck("web-1")],
    ),
    "a stuck pod that is to be replaced": Row(
        both(2),
        Pending("1 of 2 pods Running and ready: 1 Pending (InvalidImageName), 1 ready"),
        web(
            2,
            podManagementPolicy="Parallel",
            status={"currentRevision": "a", "updateRevision": "b"},
        ),
        [stuck("web-0"), ready("web-1")],
    ),
    "a pod that has ended is made anew": Row(
        both(1),
        Pending("0 of 1 pod Running and ready: 1 Failed"),
        web(1),
        [member("web-0", "Failed")],
    ),
    "no volume for it": Row(
        both(2),
        Failed(
            f"pod web-0{NO_MORE}: Unschedulable: 0/1 nodes are available: pod has unbound "
            "immediate PersistentVolumeClaims. not found (claims data-web-0, logs-web-0)",
            LONG,
            0.0,
        ),
        web(2, volumeClaimTemplates=[{"metadata": {"name": n}} for n in ("data", "logs")]),
        [member("web-0", "Pending", nodeName=None, conditions=[UNBOUND])],
    ),
    "a volume that the set does not make": Row(
        both(1),
        Failed(
            "pod web-0: Unschedulable: 0/1 nodes are available: pod has unbound immediate "
            "PersistentVolumeClaims. not found",
            LONG,
            0.0,
        ),
        web(1),
        [member("web-0", "Pending", nodeName=None, conditions=[UNBOUND])],
    ),
    "first step": Row(steps(1, 0), Met(), pods=[member("web-0")]),
    "first step is over": Row(
        steps(1, 0),
        Pending("0 of 1 pod Running, none of them ready: 1 ready"),
        pods=[ready("web-0")],
    ),
    "second step": Row(steps(2, 1), Met(), pods=[ready("web-0"), member("web-1")]),
    "second step, out of order": Row(
        steps(2, 1),
        Pending(
            "0 of 2 pods Running, the first 1 ready and the others not: "
            "1 Running, not ready, 1 ready"
        ),
        pods=[member("web-0"), ready("web-1")],
    ),
    "places count from the first ordinal": Row(
        steps(2, 1), Met(), web(ordinals={"start": 3}), [ready("web-3"), member("web-4")]
    ),
    "a crash loop does not keep it from running": Row(
        steps(1, 0),
        Met(),
        pods=[member("web-0", waiting=("CrashLoopBackOff", "back-off"))],
    ),
    "one pod": Row(one("web-1"), Met(), pods=[stuck("web-0"), ready("web-1")]),
    "one pod, not ready": Row(
        one("web-0"),
        Pending("pod web-0 is Running, not ready; all pods: 1 Running, not ready"),
        pods=[member("web-0")],
    ),
    "one pod, not there": Row(
        one("web-1"),
        Pending("pod web-1 is not there yet; all pods: 1 ready"),
        pods=[ready("web-0")],
    ),
    "one pod, others stuck": Row(
        one("web-0"),
        Pending(
            "pod web-0 is Running, not ready; all pods: "
            "1 Running, not ready, 1 Pending (InvalidImageName)"
        ),
        pods=[member("web-0"), stuck("web-1")],
    ),
    "one pod, stuck": Row(one("web-0"), stuck_verdict("web-0"), pods=[stuck("web-0")]),
    "one pod, never made": Row(
        one("web-2"), stuck_verdict("web-0", NO_MORE), pods=[stuck("web-0")]
    ),
    "one pod, made beside": Row(
        one("web-2"),
        Pending("pod web-2 is not there yet; all pods: 1 Pending (InvalidImageName)"),
        web(podManagementPolicy="Parallel"),
        [stuck("web-0")],
    ),
    "one pod too many": Row(
        one("web-3"), Failed("the set is to have 3 replicas: web-0 to web-2", LONG)
    ),
    "counted": Row(counts(2), Met(), web(2, status={"replicas": 2})),
    "counted none": Row(counts(0), Met(), web(0)),
    "counted before the change": Row(
        counts(2),
        Pending("generation 1 is not observed yet, its status is not written yet"),
        web(2, observed=0, status={"replicas": 2}),
    ),
    "counted too few": Row(
        counts(2), Pending("status.replicas is 1"), web(2, status={"replicas": 1})
    ),
    "counted too many": Row(
        counts(1), Pending("status.replicas is 2"), web(2, status={"replicas": 2})
    ),
    "counted, and no more to come": Row(
        counts(3),
        Failed("the set is to have 2 replicas: web-0 to web-1", LONG),
        web(2, status={"replicas": 2}),
    ),
    "a stuck pod is counted": Row(
        counts(1), Pending("status.replicas is 0"), pods=[stuck("web-0")]
    ),
    "a stuck pod, and no more to count": Row(
        counts(2), stuck_verdict("web-0", NO_MORE), web(status={"replicas": 1}), [stuck("web-0")]
    ),
    "a stuck pod, and more beside it": Row(
        counts(3),
        Pending("status.replicas is 1"),
        web(podManagementPolicy="Parallel", status={"replicas": 1}),
        [stuck("web-0")],
    ),
    "ready so far": Row(
        ready_count(1), Pending("status.readyReplicas is 0"), pods=[ready("web-0"), stuck("web-1")]
    ),
    "no more ready": Row(
        ready_count(2),
        stuck_verdict("web-1", NO_MORE),
        web(status={"readyReplicas": 1}),
        [ready("web-0"), stuck("web-1")],
    ),
    "enough ready beside": Row(
        ready_count(2),
        Pending("status.readyReplicas is 0"),
        web(podManagementPolicy="Parallel"),
        [stuck("web-0")],
    ),
    "too few beside": Row(
        ready_count(3),
        stuck_verdict("web-0"),
        web(podManagementPolicy="Parallel"),
        [stuck("web-0")],
    ),
    "available": Row(
        condition_of(wait_for_stateful_set_status_available_replicas)("ci-1", "web", 2),
        Met(),
        web(status={"availableReplicas": 2}),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_verdicts(row: Row) -> None:
    if row.set is not None:
        enter(row.awaited, row.set)
        for each in row.pods:
            enter(row.awaited, each, position=1)
        row.awaited.sources()

    assert row.awaited.verdict() == row.verdict


def test_nulls_are_as_good_as_nothing() -> None:
    bare = {"metadata": {"name": "web", "uid": "uid-web"}, "spec": None, "status": None}
    for awaited in (both(1), one("web-0"), counts(1)):
        enter(awaited, bare)

        assert isinstance(awaited.verdict(), Pending)

    awaited = both(1)
    enter(awaited, web(1, ordinals=None, podManagementPolicy=None, volumeClaimTemplates=None))
    enter(awaited, {**member("web-0"), "spec": None, "status": None}, position=1)

    assert awaited.verdict() == Pending("0 of 1 pod Running and ready: 1 Pending")


def test_pods_come_by_ordinal() -> None:
    awaited = both(11)
    enter(awaited, web(11))
    for number in reversed(range(11)):
        enter(awaited, ready(f"web-{number}"), position=1)

    assert awaited.verdict() == Met()
    assert [each["metadata"]["name"] for each in awaited.result()] == [
        f"web-{number}" for number in range(11)
    ]


def test_pods_that_go_are_forgotten() -> None:
    awaited = both(2)
    enter(awaited, web(2))
    for name in ("web-0", "web-1"):
        enter(awaited, ready(name), position=1)
    book = awaited.sources()[1].sink
    book.drop("uid-web-0")

    assert awaited.verdict() == Pending("1 of 2 pods Running and ready: 1 ready")
    enter(awaited, ready("web-0", owner="uid-other"), position=1)
    assert book.uids() == {"uid-web-0", "uid-web-1"}
    book.drop("uid-web-0")
    assert book.uids() == {"uid-web-1"}
    enter(awaited, ready("web-1", owner="uid-other"), position=1)
    assert awaited.verdict() == Pending("0 of 2 pods Running and ready")


def test_another_first_ordinal_counts_anew() -> None:
    awaited = steps(1, 1)
    enter(awaited, web(1))
    before = awaited.sources()
    enter(awaited, web(1, ordinals={"start": 2}))

    assert awaited.sources()[0] is before[0]
    assert awaited.sources()[1] is not before[1]
    enter(awaited, ready("web-2"), position=1)
    assert awaited.verdict() == Met()


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("web-0", 0),
        ("web-12", 12),
        ("web-012", None),
        ("web", None),
        ("web-a", None),
        ("a-web-0", None),
    ],
)
def test_ordinals(name: str, ordinal: int | None) -> None:
    assert parse_ordinal("web", name) == ordinal


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        (
            "wait_for_stateful_set_running",
            ("web", 1, 2),
            "ready_count=2 is not valid: use no more than count, which is 1",
        ),
        (
            "wait_for_stateful_set_running",
            ("web", -1, 0),
            "count=-1 is not valid: use a whole number, 0 or more",
        ),
        (
            "wait_for_stateful_set_running_and_ready",
            ("Web", 1),
            "stateful_set='Web' is not valid: use a DNS name: up to 253 lower-case letters, "
            "digits, '-' and '.', with a letter or digit at both ends of each part",
        ),
        (
            "wait_for_stateful_set_pod_ready",
            ("web", "db-0"),
            "pod='db-0' is not valid: use the name of a pod of that set, for example 'web-0'",
        ),
        (
            "wait_for_stateful_set_status_replicas",
            ("web", True),
            "count=True is not valid: use a whole number, 0 or more",
        ),
    ],
)
def test_bad_arguments(name: str, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        WAITS[name].check(*args)

    assert str(caught.value) == text


HEADLINES = [
    (
        "wait_for_stateful_set_running",
        ("web", 2, 1),
        "statefulset ci-1/web did not have exactly 2 pods, Running, the first 1 ready and the "
        "others not within 2s: not found yet",
    ),
    (
        "wait_for_stateful_set_running_and_ready",
        ("web", 1),
        "statefulset ci-1/web did not have exactly 1 pod, Running and ready within 2s: not found "
        "yet",
    ),
    (
        "wait_for_stateful_set_pod_ready",
        ("web", "web-0"),
        "statefulset ci-1/web did not have pod web-0 ready within 2s: not found yet",
    ),
    (
        "wait_for_stateful_set_status_replicas",
        ("web", 2),
        "statefulset ci-1/web did not have status.replicas 2 within 2s: not found yet",
    ),
    (
        "wait_for_stateful_set_status_ready_replicas",
        ("web", 2),
        "statefulset ci-1/web did not have status.readyReplicas 2 within 2s: not found yet",
    ),
    (
        "wait_for_stateful_set_status_available_replicas",
        ("web", 2),
        "statefulset ci-1/web did not have status.availableReplicas 2 within 2s: not found yet",
    ),
]


@pytest.mark.parametrize(("name", "args", "headline"), HEADLINES, ids=[row[0] for row in HEADLINES])
def test_headlines(client: ApiClient, name: str, args: tuple[Any, ...], headline: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        WAITS[name].function(client, "ci-1", *args, timeout=2)

    assert caught.value.args == (headline,)


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_set_comes_up_in_order(client: ApiClient, session: FakeSession, mode: str) -> None:
    session.put(STATEFUL_SETS, web(2))
    session.at(2, session.put, PODS, ready("web-0"))
    session.at(4, session.put, PODS, ready("web-1"))

    pods = wait_for_stateful_set_running_and_ready(client, "ci-1", "web", 2, mode=mode, poll=1)  # type: ignore[arg-type]  # both are modes

    assert [each["metadata"]["name"] for each in pods] == ["web-0", "web-1"]
    assert session.clock.monotonic() == pytest.approx(4, abs=1.01)
    if mode == "watch":
        assert sorted(session.requests) == [
            "list pods app=web",
            "list statefulsets metadata.name=web",
            "watch pods app=web @101",
            "watch statefulsets metadata.name=web @101",
        ]


def test_a_stuck_pod_ends_the_wait_for_a_later_one(client: ApiClient, session: FakeSession) -> None:
    session.put(STATEFUL_SETS, web(3))
    session.put(PODS, ready("web-0"))
    session.put(PODS, stuck("web-1"))

    with pytest.raises(WaitFailed) as caught:
        wait_for_stateful_set_pod_ready(client, "ci-1", "web", "web-2")

    assert str(caught.value) == BLOCKED
    assert session.clock.monotonic() == pytest.approx(5, abs=0.1)


BLOCKED = """\
statefulset ci-1/web can no longer have pod web-2 ready: pod web-1 (the set makes none after
    it): InvalidImageName: no such thing
  awaited   statefulset ci-1/web to have pod web-2 ready
  limit     10m0s, ended after 5s (watch mode)
  seen      pods: 1 ready, 1 Pending (InvalidImageName)
  timeline
       0.0s  final if it holds for 5s: pod web-1 (the set makes none after it): InvalidIm...
       5.0s  pod web-1 (the set makes none after it): InvalidImageName: no such thing
  pods
    web-1 Pending on node-1
      main: waiting: InvalidImageName: no such thing
    web-0 Running on node-1, ready
  try: kubectl --namespace ci-1 describe pod/web-1"""


def test_a_claim_without_a_provisioner(client: ApiClient, session: FakeSession) -> None:
    session.put(STATEFUL_SETS, web(1, volumeClaimTemplates=[{"metadata": {"name": "data"}}]))
    session.put(PODS, member("web-0", "Pending", nodeName=None, conditions=[UNBOUND]))

    with pytest.raises(WaitFailed) as caught:
        wait_for_stateful_set_running_and_ready(client, "ci-1", "web", 1)

    assert str(caught.value) == UNPROVIDED
    assert session.clock.monotonic() == pytest.approx(45, abs=0.1)


UNPROVIDED = """\
statefulset ci-1/web can no longer have exactly 1 pod, Running and ready: pod web-0:
    Unschedulable: 0/1 nodes are available: pod has unbound immediate
    PersistentVolumeClaims. not found (claim data-web-0)
  awaited   statefulset ci-1/web to have exactly 1 pod, Running and ready
  limit     10m0s, ended after 45s (watch mode)
  seen      pods: 1 Pending (Unschedulable)
  timeline
       0.0s  final if it holds for 45s: pod web-0: Unschedulable: 0/1 nodes are available...
      45.0s  pod web-0: Unschedulable: 0/1 nodes are available: pod has unbound immediate...
  pods
    web-0 Pending, on no node: Unschedulable
  try: kubectl --namespace ci-1 describe pod/web-0"""
