"""Waiting for the pods of a daemon set, one on each eligible node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.raising import raises
from e2e.workloads.manifest import hold_to_quota
from e2e.workloads.sets import TYPO, daemon_set
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]


NOWHERE = {"example.com/no-node-has": "this"}


def test_daemon_set_on_all_nodes(
    kwait: Kwait,
    wait_for_daemon_set_running_on_all_nodes: Wait,
    wait_for_daemon_set_pods_on_nodes: Wait,
    wait_for_daemon_set_present_on_nodes: Wait,
    wait_for_daemon_set_status: Wait,
    wait_for_daemon_sets: Wait,
) -> None:
    """By its pods on all eligible nodes, on nodes by name, or by its counts."""
    kwait.create(daemon_set("agent"))

    pods = wait_for_daemon_set_running_on_all_nodes("agent")
    nodes = [each["spec"]["nodeName"] for each in pods]
    assert nodes
    assert len(wait_for_daemon_set_pods_on_nodes("agent", nodes)) == len(nodes)
    assert len(wait_for_daemon_set_present_on_nodes("agent", len(nodes))) == len(nodes)
    assert wait_for_daemon_set_status("agent")["status"]["numberReady"] == len(nodes)
    assert [each["metadata"]["name"] for each in wait_for_daemon_sets()] == ["agent"]


def test_daemon_set_on_no_node(
    kwait: Kwait,
    wait_for_daemon_set_pods_on_nodes: Wait,
    wait_for_daemon_set_running_on_all_nodes: Wait,
) -> None:
    """A selection without nodes is an error unless it is allowed explicitly."""
    kwait.create(daemon_set("agent", node_selector=NOWHERE))

    assert wait_for_daemon_set_pods_on_nodes("agent", []) == []
    with raises(WaitFailed, "the set is to run on 0 nodes"):
        wait_for_daemon_set_running_on_all_nodes("agent", grace="500ms")


def test_daemon_set_with_a_stuck_pod(
    kwait: Kwait, wait_for_daemon_set_running_on_all_nodes: Wait, wait_for_daemon_set_status: Wait
) -> None:
    kwait.create(daemon_set("agent", TYPO))

    with raises(WaitFailed, "pod agent-.*: InvalidImageName"):
        wait_for_daemon_set_running_on_all_nodes("agent", grace="500ms")
    with raises(WaitFailed, "pod agent-.*: InvalidImageName"):
        wait_for_daemon_set_status("agent", grace="500ms")


def test_daemon_set_pods_rejected_by_quota(kwait: Kwait, wait_for_daemon_set_status: Wait) -> None:
    """Only its events have the reason."""
    hold_to_quota(kwait, pods="0")
    kwait.create(daemon_set("agent"))

    with raises(WaitFailed, 'FailedCreate: pods "agent-\\S+" is forbidden: exceeded quota: few'):
        wait_for_daemon_set_status("agent", timeout="4m", grace="500ms")
