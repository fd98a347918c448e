"""Node fields: pure functions on a node's JSON, whole or trimmed.

Source: kubernetes/test/e2e/framework/node/resource.go and wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.client.responses import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "NodeFields",
    "condition_is",
    "describe_node",
    "is_cordoned",
    "is_fit_for_tests",
    "is_ready",
    "is_schedulable",
    "is_untainted",
]


class _Taint(TypedDict, total=False):
    key: str
    effect: str


class _Spec(TypedDict, total=False):
    unschedulable: bool | None
    taints: list[_Taint] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None
    lastHeartbeatTime: str | None


class _Status(TypedDict, total=False):
    conditions: list[_Condition] | None


class NodeFields(TypedDict, total=False):
    """The fields of a node that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


_BY_CONTROLLER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_KEEPING_OUT = ("NoSchedule", "NoExecute")


def condition_is(node: dict[str, Any], kind: str, wanted: bool) -> bool:
    """Return whether a condition is True, or exists and is not True.

    Ready counts as True only once the node controller has removed its taints. A missing condition
    is neither.
    """
    condition = get_condition(node, kind)
    if condition is None:
        return False
    true = condition.get("status") == "True"
    if kind == "Ready" and wanted and _tainted_by_controller(node):
        return False
    return true == wanted


def is_cordoned(node: dict[str, Any]) -> bool:
    """Return whether it is cordoned, so that it takes no new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_ready(node: dict[str, Any]) -> bool:
    """Return whether its kubelet is ready, and its network not reported unavailable."""
    network = get_condition(node, "NetworkUnavailable")
    return condition_is(node, "Ready", True) and (
        network is None or network.get("status") != "True"
    )


def is_schedulable(node: dict[str, Any]) -> bool:
    """Return whether it is ready and not cordoned."""
    return is_ready(node) and not is_cordoned(node)


def is_untainted(node: dict[str, Any], non_blocking: Collection[str] = ()) -> bool:
    """Return whether it has no blocking taints besides those with these keys."""
    return not any(
        taint.get("effect") in _KEEPING_OUT and taint.get("key") not in non_blocking
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


def is_fit_for_tests(node: dict[str, Any], non_blocking: Collection[str]) -> bool:
    """Return whether test pods could run on it, but for expected taints."""
    return is_ready(node) and is_untainted(node, non_blocking)


def describe_node(node: dict[str, Any]) -> str:
    """Return a node's state in a few words: `Ready, cordoned`."""
    condition = get_condition(node, "Ready")
    if condition is None:
        label = "without a Ready condition"
    elif condition.get("status") == "True":
        label = "Ready"
    else:
        label = f"NotReady ({condition.get('reason') or condition.get('status')})"
    network = get_condition(node, "NetworkUnavailable") or {}
    if network.get("status") == "True":
        label += ", without network"
    if is_cordoned(node):
        label += ", cordoned"
    taints = (node.get("spec") or {}).get("taints") or ()
    keys = [
        str(taint.get("key"))
        for taint in taints
        if taint.get("effect") in _KEEPING_OUT
        and taint.get("key") != "node.kubernetes.io/unschedulable"
    ]
    return f"{label}, tainted {', '.join(keys)}" if keys else label


def _tainted_by_controller(node: dict[str, Any]) -> bool:
    return any(
        taint.get("key") in _BY_CONTROLLER and taint.get("effect") == "NoExecute"
        for taint in (node.get("spec") or {}).get("taints") or ()
    )
