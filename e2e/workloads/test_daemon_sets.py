"""Waiting for the pods of a daemon set, one on each eligible node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import TYPO, daemon_set
from e2e.raising import raises
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


NOWHERE = {"example.com/no-node-has": "this"}


def test_daemon_set_on_all_nodes(kwait: Kwait) -> None:
    """By its pods on all eligible nodes, on nodes by name, or by its counts."""
    kwait.create(daemon_set("agent"))

    pods = kwait.wait_for_daemon_set_running_on_all_nodes("agent")
    nodes = [each["spec"]["nodeName"] for each in pods]
    assert nodes
    assert len(kwait.wait_for_daemon_set_pods_on_nodes("agent", nodes)) == len(nodes)
    assert len(kwait.wait_for_daemon_set_present_on_nodes("agent", len(nodes))) == len(nodes)
    assert kwait.wait_for_daemon_set_status("agent")["status"]["numberReady"] == len(nodes)
    assert [each["metadata"]["name"] for each in kwait.wait_for_daemon_sets()] == ["agent"]


def test_daemon_set_on_no_node(kwait: Kwait) -> None:
    """A selection without nodes is an error unless it is allowed explicitly."""
    kwait.create(daemon_set("agent", node_selector=NOWHERE))

    assert kwait.wait_for_daemon_set_pods_on_nodes("agent", []) == []
    with raises(WaitFailed, "the set is to run on 0 nodes"):
        kwait.wait_for_daemon_set_running_on_all_nodes("agent", grace="500ms")


def test_daemon_set_with_a_stuck_pod(kwait: Kwait) -> None:
    kwait.create(daemon_set("agent", TYPO))

    with raises(WaitFailed, "pod agent-.*: InvalidImageName"):
        kwait.wait_for_daemon_set_running_on_all_nodes("agent", grace="500ms")
    with raises(WaitFailed, "pod agent-.*: InvalidImageName"):
        kwait.wait_for_daemon_set_status("agent", grace="500ms")


def test_daemon_set_pods_rejected_by_quota(kwait: Kwait) -> None:
    """Only its events have the reason."""
    hold_to_quota(kwait, pods="0")
    kwait.create(daemon_set("agent"))

    with raises(WaitFailed, 'FailedCreate: pods "agent-\\S+" is forbidden: exceeded quota: few'):
        kwait.wait_for_daemon_set_status("agent", timeout="4m", grace="500ms")
