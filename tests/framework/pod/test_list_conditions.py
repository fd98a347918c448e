"""Verdicts on lists of raw pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.framework.pod.list_wait import (
    wait_for_almost_all_pods_ready,
    wait_for_number_of_pods,
    wait_for_pods_running,
    wait_for_pods_running_ready,
    wait_for_pods_scheduling_gated,
    wait_for_pods_with_label,
    wait_for_pods_with_label_running,
    wait_for_pods_with_label_running_ready,
    wait_for_pods_with_label_scheduled,
    wait_for_pods_with_scheduling_gates,
)
from pytest_kwait.framework.registry import condition_of
from tests.examples import scaled
from tests.framework.sources import enter
from tests.objects import condition, pod, workload

SHORT, LONG = Grace.SHORT, Grace.LONG
OWNED = {"ownerReferences": [{"uid": "rs", "controller": True}]}
GATED = condition("PodScheduled", "False", reason="SchedulingGated")
NOWHERE = condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes")
BAD = "InvalidImageName: no such thing"


def ready(name: str) -> dict[str, Any]:
    return pod(name, "Running", conditions=[condition("Ready")])


def stuck(name: str) -> dict[str, Any]:
    return pod(name, "Pending", waiting=("InvalidImageName", "no such thing"))


def gated(name: str, *gates: str) -> dict[str, Any]:
    obj = pod(name, "Pending", nodeName=None, conditions=[GATED])
    return {**obj, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


WEB = "app=web"
NOT_READY = "Running, not ready"
ROWS: list[tuple[Any, list[dict[str, Any]], Verdict]] = [
    (condition_of(wait_for_number_of_pods)("ci-1", 0), [], Met()),
    (
        condition_of(wait_for_number_of_pods)("ci-1", 2),
        [pod("a", "Running"), pod("b", "Failed")],
        Met(),
    ),
    (
        condition_of(wait_for_number_of_pods)("ci-1", 2),
        [pod("a", "Running")],
        Pending("1 of 2 pods: 1 Running"),
    ),
    (
        condition_of(wait_for_number_of_pods)("ci-1", 0),
        [pod("a", "Running")],
        Pending("1, 1 more than awaited"),
    ),
    (
        condition_of(wait_for_number_of_pods)("ci-1", 3),
        [stuck("a")],
        Pending("1 of 3 pods: 1 Pending (InvalidImageName)"),
    ),
    (condition_of(wait_for_pods_running)("ci-1", 0), [pod("a", "Running")], Met()),
    (
        condition_of(wait_for_pods_running)("ci-1", 1),
        [ready("a"), stuck("b"), pod("c", "Running")],
        Met(),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 1),
        [ready("a"), ready("b")],
        Pending("2 Running and ready, 1 more than awaited"),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 2),
        [ready("a"), pod("b", "Running")],
        Pending(f"1 of 2 pods Running and ready: 1 Running, 1 {NOT_READY}"),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 2),
        [ready("a"), stuck("b")],
        Failed(f"pod b: {BAD}", SHORT, 0.0),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 2),
        [stuck("b")],
        Pending("0 of 2 pods Running and ready: 1 Pending (InvalidImageName)"),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 1),
        [pod("a", "Failed", metadata=OWNED)],
        Pending("0 of 1 pod Running and ready: 1 Failed"),
    ),
    (
        condition_of(wait_for_pods_running)("ci-1", 1),
        [pod("a", "Failed")],
        Failed("pod a: the pod has failed: no reason is given", SHORT, 0.0),
    ),
    (
        condition_of(wait_for_pods_scheduling_gated)("ci-1", 1),
        [gated("a", "x/y"), pod("b", "Running")],
        Met(),
    ),
    (
        condition_of(wait_for_pods_scheduling_gated)("ci-1", 1),
        [pod("a", "Running")],
        Pending(f"0 of 1 pod behind a scheduling gate: 1 {NOT_READY}"),
    ),
    (
        condition_of(wait_for_pods_with_scheduling_gates)("ci-1", 1, ["x", "y"]),
        [gated("a", "x", "y")],
        Met(),
    ),
    (
        condition_of(wait_for_pods_with_scheduling_gates)("ci-1", 1, ["x", "y"]),
        [gated("a", "y", "x")],
        Pending("0 of 1 pod with scheduling gates x, y: 1 Pending (SchedulingGated)"),
    ),
    (
        condition_of(wait_for_pods_with_scheduling_gates)("ci-1", 1, []),
        [gated("a", "y"), pod("b", "Running")],
        Met(),
    ),
    (condition_of(wait_for_pods_with_label)("ci-1", WEB), [stuck("a")], Met()),
    (condition_of(wait_for_pods_with_label)("ci-1", WEB), [], Pending("0 of 1 there")),
    (condition_of(wait_for_pods_with_label_scheduled)("ci-1", WEB), [pod("a", "Pending")], Met()),
    (
        condition_of(wait_for_pods_with_label_scheduled)("ci-1", WEB),
        [pod("a", "Running"), pod("b", "Pending", nodeName=None)],
        Pending("1 of 2 scheduled: 1 Running, 1 Pending"),
    ),
    (
        condition_of(wait_for_pods_with_label_scheduled)("ci-1", WEB),
        [pod("b", "Pending", nodeName=None, conditions=[NOWHERE])],
        Failed("pod b: Unschedulable: 0/1 nodes", LONG, 0.0),
    ),
    (condition_of(wait_for_pods_with_label_running)("ci-1", WEB), [pod("a", "Running")], Met()),
    (
        condition_of(wait_for_pods_with_label_running)("ci-1", WEB),
        [pod("a", "Running"), pod("b", "Succeeded")],
        Failed("pod b: the pod has succeeded", SHORT, 0.0),
    ),
    (
        condition_of(wait_for_pods_with_label_running_ready)("ci-1", WEB, 1),
        [ready("a"), ready("b")],
        Met(),
    ),
    (
        condition_of(wait_for_pods_with_label_running_ready)("ci-1", WEB, 3),
        [ready("a"), ready("b")],
        Pending("2 of 3 there: 2 Running"),
    ),
    (
        condition_of(wait_for_pods_with_label_running_ready)("ci-1", WEB, 1),
        [ready("a"), stuck("b"), stuck("c")],
        Failed(f"pod b (and 1 more pod): {BAD}", SHORT, 0.0),
    ),
    (
        condition_of(wait_for_pods_running_ready)("ci-1", 1),
        [ready("a"), pod("b", "Succeeded"), pod("c", "Failed", metadata=OWNED)],
        Met(),
    ),
    (condition_of(wait_for_pods_running_ready)("ci-1", 0), [], Met()),
    (condition_of(wait_for_pods_running_ready)("ci-1", 1, 1), [ready("a"), stuck("b")], Met()),
    (
        condition_of(wait_for_pods_running_ready)("ci-1", 1),
        [ready("a"), stuck("b")],
        Failed(f"pod b: {BAD}", SHORT, 0.0),
    ),
    (
        condition_of(wait_for_pods_running_ready)("ci-1", 2, 1),
        [ready("a"), pod("b", "Unknown")],
        Pending("1 Running and ready, 2 awaited; 1 not, 1 allowed: 1 Running, 1 Unknown"),
    ),
    (
        condition_of(wait_for_pods_running_ready)("ci-1", 1),
        [ready("a"), pod("b", "Failed")],
        Failed("pod b: the pod has failed: no reason is given", SHORT, 0.0),
    ),
]


@pytest.mark.parametrize(("awaited", "pods", "verdict"), ROWS)
def test_rows(awaited: Any, pods: list[dict[str, Any]], verdict: Verdict) -> None:
    for each in pods:
        enter(awaited, each)

    assert awaited.verdict() == verdict


def test_replicas_of_controllers_count() -> None:
    awaited = condition_of(wait_for_almost_all_pods_ready)("ci-1", 1, 1)
    enter(awaited, ready("a"))
    assert awaited.verdict() == Met()
    assert [source.resource.kind for source in awaited.sources()] == [
        "Pod",
        "ReplicationController",
        "ReplicaSet",
    ]

    enter(awaited, workload("ReplicationController", "rc", replicas=3, readyReplicas=2), position=1)
    assert awaited.verdict() == Met()
    enter(awaited, workload("ReplicaSet", "rs", replicas=None, readyReplicas=0), position=2)
    assert awaited.verdict() == Pending("controllers lack 2 ready replicas, 1 allowed")
    enter(
        awaited,
        workload("ReplicaSet", "rs", observed=0, replicas=None, readyReplicas=1),
        position=2,
    )
    assert awaited.verdict() == Pending("1 controller has a status of an older generation")
    awaited.sources()[2].sink.drop("uid-rs")
    assert awaited.verdict() == Met()
    assert awaited.sources()[2].sink.uids() == set()
    enter(awaited, stuck("b"))
    enter(awaited, stuck("c"))
    assert isinstance(awaited.verdict(), Failed)


LOOKS: dict[str, Any] = {
    "new": lambda name: pod(name, "Pending"),
    "running": lambda name: pod(name, "Running"),
    "ready": ready,
    "stuck": stuck,
    "over": lambda name: pod(name, "Succeeded"),
    "failed": lambda name: pod(name, "Failed", metadata=OWNED),
    "gone": None,
}
HISTORIES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(sorted(LOOKS))))
MAKERS = (
    lambda: condition_of(wait_for_pods_running)("ci-1", 2),
    lambda: condition_of(wait_for_pods_with_label_running_ready)("ci-1", WEB, 2),
    lambda: condition_of(wait_for_pods_running_ready)("ci-1", 1, 1),
)


@settings(deadline=None, derandomize=True, max_examples=scaled(60))
@given(HISTORIES, st.sampled_from(MAKERS))
def test_history_does_not_matter(history: list[tuple[str, str]], make: Any) -> None:
    along, anew = make(), make()
    last: dict[str, Any] = {}
    for name, look in history:
        last[name] = LOOKS[look]
        if last[name] is None:
            along.sources()[0].sink.drop(f"uid-{name}")
        else:
            enter(along, last[name](name))
    for name, obj in last.items():
        if obj is not None:
            enter(anew, obj(name))

    assert type(along.verdict()) is type(anew.verdict())
    assert along.result() == anew.result()
