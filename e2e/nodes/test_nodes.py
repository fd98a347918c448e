"""Waiting for nodes: conditions, schedulability, and the pods that their kubelets run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import pod
from e2e.raising import times_out

if TYPE_CHECKING:
    from pytest_kwait import Kwait, WaitOptions
    from pytest_kwait.typing import (
        WaitForAllNodesSchedulable,
        WaitForNodeCondition,
        WaitForNodeHeartbeatAfter,
        WaitForNodeNotReady,
        WaitForNodeReady,
        WaitForNodeSchedulable,
        WaitForNodesReady,
        WaitForTotalHealthy,
    )


@pytest.fixture
def node(kubelets: tuple[str, ...]) -> str:
    """The name of a node."""
    return kubelets[0]


def names(nodes: list[dict[str, Any]]) -> set[str]:
    return {node["metadata"]["name"] for node in nodes}


def test_node_by_name(
    node: str,
    wait_for_node_ready: WaitForNodeReady,
    wait_for_node_schedulable: WaitForNodeSchedulable,
    wait_for_node_condition: WaitForNodeCondition,
) -> None:
    """Waits on nodes take no namespace."""
    assert wait_for_node_ready(node)["metadata"]["name"] == node
    assert wait_for_node_schedulable(node)["kind"] == "Node"
    assert wait_for_node_condition(node, "DiskPressure", False)["metadata"]["name"] == node


def test_a_heartbeat(node: str, wait_for_node_heartbeat_after: WaitForNodeHeartbeatAfter) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)

    assert wait_for_node_heartbeat_after(node, moment)["metadata"]["name"] == node
    assert wait_for_node_heartbeat_after(node, "2020-01-01T00:00:00Z")
    times_out(
        "the last heartbeat was at ", wait_for_node_heartbeat_after, node, "2999-01-01T00:00:00Z"
    )


def test_a_node_that_is_ready_is_not_not_ready(
    node: str, wait_for_node_not_ready: WaitForNodeNotReady, wait_for_node_ready: WaitForNodeReady
) -> None:
    times_out("did not become not ready within LIMIT: Ready is True", wait_for_node_not_ready, node)
    times_out(
        "nowhere did not become ready within LIMIT: not found", wait_for_node_ready, "nowhere"
    )


def test_all_nodes(
    kubelets: tuple[str, ...],
    wait_for_all_nodes_schedulable: WaitForAllNodesSchedulable,
    wait_for_nodes_ready: WaitForNodesReady,
    wait_for_total_healthy: WaitForTotalHealthy,
) -> None:
    """Other tests may have made nodes for themselves meanwhile."""
    count = len(kubelets)

    assert names(wait_for_all_nodes_schedulable(timeout="4m")) == set(kubelets)
    assert names(wait_for_nodes_ready(count, timeout="4m")) == set(kubelets)
    assert names(wait_for_total_healthy(timeout="4m")) >= set(kubelets)
    times_out(rf"\d+ nodes to count, {count + 99} awaited", wait_for_nodes_ready, count + 99)
    times_out("runs no pod no-such-agent", wait_for_total_healthy, ["no-such-agent"])


@pytest.mark.wait_for_all_nodes_schedulable(timeout="4m")
def test_nodes_marker(kwait: Kwait) -> None:
    """As a precondition of a test that needs the nodes."""
    assert kwait.list("nodes")


def test_pods_that_kubelets_run(kwait: Kwait, kubelets: tuple[str, ...]) -> None:
    """The kubelets' own account, before and after pods are deleted."""
    kwait.create(pod("web-a"), pod("web-b"), pod("other"))
    options: WaitOptions = {"timeout": "4m", "poll": "500ms"}

    running = kwait.wait_for_pods_running_on_nodes(kubelets, 2, "web-", **options)
    assert [each["metadata"]["name"] for each in running] == ["web-a", "web-b"]
    for name in ("web-a", "web-b"):
        kwait.delete(f"pod/{name}")
    kwait.wait_for_number_of_pods(1)
    assert kwait.wait_for_pods_running_on_nodes(kubelets, 0, "web-", **options) == []
