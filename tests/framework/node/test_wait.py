"""Verdicts on raw nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_kwait.engine.condition import Failed, Met, Pending, Verdict
from pytest_kwait.framework.node import wait
from pytest_kwait.framework.registry import condition_of
from tests.framework.sources import enter
from tests.objects import condition, node, pod

READY = condition("Ready", lastHeartbeatTime="2030-01-01T00:00:00Z")
DOWN = condition("Ready", "Unknown", reason="NodeStatusUnknown", message="no\nword")
NO_NETWORK = condition("NetworkUnavailable")
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
SOFT = {"key": "x", "effect": "PreferNoSchedule"}


UP = node("n", READY)
ROWS: list[tuple[Any, dict[str, Any] | None, Verdict]] = [
    (condition_of(wait.wait_for_node_ready)("n"), None, Pending("not found yet")),
    (condition_of(wait.wait_for_node_ready)("n"), UP, Met()),
    (
        condition_of(wait.wait_for_node_ready)("n"),
        node("n", DOWN),
        Pending("Ready is Unknown: NodeStatusUnknown: no word"),
    ),
    (condition_of(wait.wait_for_node_ready)("n"), node("n"), Pending("no condition Ready yet")),
    (
        condition_of(wait.wait_for_node_ready)("n"),
        node("n", READY, taints=[UNREACHABLE]),
        Pending("Ready, tainted node.kubernetes.io/unreachable"),
    ),
    (condition_of(wait.wait_for_node_ready)("n"), node("n", READY, taints=[CONTROL_PLANE]), Met()),
    (condition_of(wait.wait_for_node_ready)("n"), node("n", READY, unschedulable=True), Met()),
    (condition_of(wait.wait_for_node_not_ready)("n"), node("n", DOWN), Met()),
    (condition_of(wait.wait_for_node_not_ready)("n"), node("n"), Pending("no condition Ready yet")),
    (condition_of(wait.wait_for_node_not_ready)("n"), UP, Pending("Ready is True")),
    (
        condition_of(wait.wait_for_node_not_ready)("n"),
        node("n", READY, taints=[UNREACHABLE]),
        Pending("Ready is True"),
    ),
    (
        condition_of(wait.wait_for_node_condition)("n", "DiskPressure"),
        node("n", condition("DiskPressure")),
        Met(),
    ),
    (
        condition_of(wait.wait_for_node_condition)("n", "DiskPressure", False),
        node("n", condition("DiskPressure", "False")),
        Met(),
    ),
    (
        condition_of(wait.wait_for_node_condition)("n", "DiskPressure", False),
        UP,
        Pending("no condition DiskPressure yet"),
    ),
    (condition_of(wait.wait_for_node_schedulable)("n"), UP, Met()),
    (
        condition_of(wait.wait_for_node_schedulable)("n"),
        node("n", READY, unschedulable=True),
        Pending("Ready, cordoned"),
    ),
    (
        condition_of(wait.wait_for_node_schedulable)("n"),
        node("n", READY, NO_NETWORK),
        Pending("Ready, without network"),
    ),
    (
        condition_of(wait.wait_for_node_schedulable)("n", False),
        node("n", READY, unschedulable=True),
        Met(),
    ),
    (condition_of(wait.wait_for_node_schedulable)("n", False), UP, Pending("Ready")),
    (condition_of(wait.wait_for_node_heartbeat_after)("n", "2029-12-31T23:59:59Z"), UP, Met()),
    (
        condition_of(wait.wait_for_node_heartbeat_after)("n", datetime(2029, 1, 1, tzinfo=UTC)),
        UP,
        Met(),
    ),
    (
        condition_of(wait.wait_for_node_heartbeat_after)("n", "2030-01-01T00:00:00Z"),
        UP,
        Pending("the last heartbeat was at 2030-01-01T00:00:00Z"),
    ),
    (
        condition_of(wait.wait_for_node_heartbeat_after)("n", "2030-01-01T00:00:00Z"),
        node("n"),
        Pending("no heartbeat"),
    ),
]


@pytest.mark.parametrize(("awaited", "obj", "verdict"), ROWS)
def test_one_node(awaited: Any, obj: dict[str, Any] | None, verdict: Verdict) -> None:
    if obj is not None:
        enter(awaited, obj)

    assert awaited.verdict() == verdict


def test_a_node_that_goes() -> None:
    awaited = condition_of(wait.wait_for_node_ready)("n")
    enter(awaited, UP)
    awaited.sources()[0].sink.drop("uid-n")

    assert awaited.verdict() == Failed("the node was deleted")


A, B = node("a", READY), node("b", DOWN)
TAINTED = node("a", READY, taints=[SOFT, CONTROL_PLANE])
SETS: list[tuple[Any, list[dict[str, Any]], Verdict]] = [
    (condition_of(wait.wait_for_all_nodes_schedulable)(), [], Pending("no node to count")),
    (condition_of(wait.wait_for_all_nodes_schedulable)(), [A], Met()),
    (
        condition_of(wait.wait_for_all_nodes_schedulable)(),
        [A, node("c", DOWN, unschedulable=True)],
        Met(),
    ),
    (
        condition_of(wait.wait_for_all_nodes_schedulable)(),
        [A, B],
        Pending("1 of 2 nodes are not, b among them: 1 Ready, 1 NotReady (NodeStatusUnknown)"),
    ),
    (condition_of(wait.wait_for_all_nodes_schedulable)(1), [A, B], Met()),
    (condition_of(wait.wait_for_all_nodes_schedulable)(), [TAINTED], Met()),
    (
        condition_of(wait.wait_for_all_nodes_schedulable)(non_blocking_taints=[]),
        [TAINTED],
        Pending(
            "1 of 1 nodes are not, a among them: "
            "1 Ready, tainted node-role.kubernetes.io/control-plane"
        ),
    ),
    (condition_of(wait.wait_for_nodes_ready)(1), [A, node("c", READY, unschedulable=True)], Met()),
    (
        condition_of(wait.wait_for_nodes_ready)(2),
        [A],
        Pending("1 nodes to count, 2 awaited: 1 Ready"),
    ),
    (
        condition_of(wait.wait_for_nodes_ready)(2),
        [A, B],
        Pending("1 of 2 nodes are not, b among them: 1 Ready, 1 NotReady (NodeStatusUnknown)"),
    ),
    (condition_of(wait.wait_for_nodes_ready)(0), [], Met()),
    (condition_of(wait.wait_for_total_healthy)(), [A, TAINTED], Met()),
    (
        condition_of(wait.wait_for_total_healthy)(),
        [B],
        Pending("1 of 1 nodes are not, b among them: 1 NotReady (NodeStatusUnknown)"),
    ),
]


@pytest.mark.parametrize(("awaited", "objects", "verdict"), SETS)
def test_all_nodes(awaited: Any, objects: list[dict[str, Any]], verdict: Verdict) -> None:
    for each in objects:
        enter(awaited, each)

    assert awaited.verdict() == verdict


def test_pods_that_the_system_needs() -> None:
    awaited = condition_of(wait.wait_for_total_healthy)(["kube-proxy"], "kube-system")
    enter(awaited, A)
    missing = Pending("node a runs no pod kube-proxy")
    assert awaited.verdict() == missing

    proxy = pod("kube-proxy-x", "Running", nodeName="a", metadata={"uid": "1"})
    enter(awaited, pod("kube-proxy-y", "Running", nodeName="b", metadata={"uid": "2"}), position=1)
    enter(awaited, pod("other", "Running", nodeName="a", metadata={"uid": "3"}), position=1)
    assert awaited.verdict() == missing
    enter(awaited, proxy, position=1)
    enter(awaited, proxy, position=1)
    assert awaited.verdict() == Met()
    awaited.sources()[1].sink.drop("1")
    assert awaited.verdict() == missing
    enter(awaited, node("a", READY, unschedulable=True))
    assert awaited.verdict() == Met()


def test_nodes_that_go_are_not_counted() -> None:
    awaited = condition_of(wait.wait_for_total_healthy)(["kube-proxy"])
    enter(awaited, A)
    enter(awaited, B)
    for uid in ("uid-a", "uid-b"):
        awaited.sources()[0].sink.drop(uid)

    assert awaited.verdict() == Pending("no node to count")
