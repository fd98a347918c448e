"""Waits on nodes: one node's conditions, taints and heartbeat, or all nodes of a cluster.

A node that does not exist yet may still appear; one that was seen and is deleted ends the wait.

Source: kubernetes/test/e2e/framework/node/wait.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.engine.options import WaitOptions, check_bool, check_count, check_text
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.node.conditions import HealthyCluster, NodeGoal, NodeSet, OneNode
from pytest_kwait.framework.node.fields import (
    condition_is,
    describe_node,
    is_cordoned,
    is_fit_for_tests,
    is_ready,
    is_schedulable,
)
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "schedulable_nodes",
    "wait_for_all_nodes_schedulable",
    "wait_for_node_condition",
    "wait_for_node_heartbeat_after",
    "wait_for_node_not_ready",
    "wait_for_node_ready",
    "wait_for_node_schedulable",
    "wait_for_nodes_ready",
    "wait_for_total_healthy",
]


@wait(limit="restart_node_ready_again", summary="a node that is ready")
def wait_for_node_ready(
    client: ApiClient, node: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once it is Ready and the node controller's taints are gone.

    The taints are `node.kubernetes.io/not-ready` and `node.kubernetes.io/unreachable`, with effect
    NoExecute. Upstream returns False at the limit; this raises.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeToBeReady.
    """
    return OneNode(node, _node_condition_goal("Ready", True))


@wait(limit="node_not_ready", summary="a node that is not ready")
def wait_for_node_not_ready(
    client: ApiClient, node: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once its Ready condition is anything but True.

    A node without that condition is neither ready nor not ready. Upstream returns False at the
    limit; this raises.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeToBeNotReady.
    """
    return OneNode(node, _node_condition_goal("Ready", False))


@wait(limit="node_not_ready", summary="a node of which a condition is True, or is not")
def wait_for_node_condition(
    client: ApiClient,
    node: str,
    condition: str,
    wanted: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a node once one of its conditions is True, or is not.

    For Ready the node controller's taints count as in `wait_for_node_ready`. A missing condition
    satisfies neither. Upstream returns False at the limit; this raises.

    Args:
        condition: its type, for example `DiskPressure`.
        wanted: True to wait until it is True, False until it is anything else.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitConditionToBe.
    """
    kind = check_text("condition", condition)
    return OneNode(node, _node_condition_goal(kind, check_bool("wanted", wanted)))


@wait(limit="node_schedulable", summary="a node that takes pods, or takes none")
def wait_for_node_schedulable(
    client: ApiClient, node: str, want_schedulable: bool = True, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once it is schedulable, or once it is not.

    Schedulable means ready and not cordoned; an unavailable network counts as not ready. Upstream
    returns False at the limit; this raises.

    Args:
        want_schedulable: False to wait until it is not schedulable.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeSchedulable.
    """
    wanted = check_bool("want_schedulable", want_schedulable)
    text = f"become {'' if wanted else 'un'}schedulable"
    goal = NodeGoal(text, lambda obj: is_schedulable(obj) == wanted)
    return OneNode(node, goal)


@wait(limit="nodes_ready", summary="a node whose last heartbeat is later")
def wait_for_node_heartbeat_after(
    client: ApiClient, node: str, after: datetime | str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once its Ready condition has a heartbeat later than `after`.

    An unchanged kubelet writes a heartbeat every five minutes.

    Args:
        after: a time with a time zone; a text as in RFC 3339.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeHeartbeatAfter.
    """
    moment = _parse_time(after)
    text = f"have a heartbeat after {moment.isoformat()}"
    goal = NodeGoal(text, lambda obj: _is_later(obj, moment), _last_heartbeat)
    return OneNode(node, goal)


def _node_condition_goal(kind: str, wanted: bool) -> NodeGoal:
    text = f"have condition {kind} {'True' if wanted else 'other than True'}"
    if kind == "Ready":
        text = "become ready" if wanted else "become not ready"

    def missing(node: dict[str, Any]) -> str:
        condition = get_condition(node, kind)
        if condition is None:
            return f"no condition {kind} yet"
        parts = (condition.get("reason"), condition.get("message"))
        why = ": ".join(" ".join(part.split()) for part in parts if part)
        if kind == "Ready" and condition.get("status") == "True" and wanted:
            return describe_node(node)
        return f"{kind} is {condition.get('status')}{f': {why}' if why else ''}"

    return NodeGoal(text, lambda node: condition_is(node, kind, wanted), missing)


def _parse_time(value: object) -> datetime:
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgument(
            "after", value, "use a datetime with a time zone, or a text as '2030-01-31T12:00:00Z'"
        )
    return moment


def _heartbeat(node: dict[str, Any]) -> str:
    return str((get_condition(node, "Ready") or {}).get("lastHeartbeatTime") or "")


def _is_later(node: dict[str, Any], moment: datetime) -> bool:
    try:
        return datetime.fromisoformat(_heartbeat(node)) > moment
    except (TypeError, ValueError):  # no time, or one without its zone
        return False


def _last_heartbeat(node: dict[str, Any]) -> str:
    return f"the last heartbeat was at {_heartbeat(node)}" if _heartbeat(node) else "no heartbeat"


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""The taint of nodes that are not meant for test pods."""


def schedulable_nodes(
    allowed_not_ready: int, non_blocking_taints: Sequence[str], *, least: int
) -> NodeSet:
    """Return the same condition for `least` nodes or more."""
    allowed = check_count("allowed_not_ready", allowed_not_ready)
    keys = _texts("non_blocking_taints", non_blocking_taints)
    goal = f"become schedulable, all but {allowed}" if allowed else "all become schedulable"
    fit = partial(is_fit_for_tests, non_blocking=keys)
    return NodeSet(goal, _takes_pods_of_tests, fit, allowed=allowed, least=least)


@wait(limit="node_schedulable", summary="nodes that take pods, all but a few")
def wait_for_all_nodes_schedulable(
    client: ApiClient,
    allowed_not_ready: int = 0,
    non_blocking_taints: Sequence[str] = (CONTROL_PLANE,),
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the nodes fit for test pods once all but a few uncordoned ones are.

    Fit nodes are ready, with network not reported unavailable, and without blocking taints. At
    least one node must exist and be uncordoned; upstream's condition holds for none. Upstream gives
    up at the third failing list, and returns at once for a count of -1, which is refused here.

    Args:
        allowed_not_ready: the number of nodes that may be unfit; 0 or more.
        non_blocking_taints: keys of taints to ignore.

    Source: node/wait.go WaitForAllNodesSchedulable, CheckReadyForTests.
    """
    return schedulable_nodes(allowed_not_ready, non_blocking_taints, least=1)


@wait(limit="nodes_ready", summary="an exact number of uncordoned nodes, all ready")
def wait_for_nodes_ready(
    client: ApiClient, count: int, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the uncordoned nodes once there are exactly `count`, all ready.

    Ready as in `wait_for_node_ready`, with network not reported unavailable.

    Args:
        count: the exact number; 0 or more.

    Source: node/wait.go WaitForReadyNodes, CheckReady.
    """
    number = check_count("count", count)
    goal = f"become {number}, all of them ready"
    return NodeSet(goal, _takes_pods_of_tests, is_ready, count=number)


@wait(limit="nodes_ready", summary="nodes that are all ready and run what they must")
def wait_for_total_healthy(
    client: ApiClient,
    required_pods: Sequence[str] = (),
    system_namespace: str = "kube-system",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return all nodes once all are ready and run the required pods.

    At least one node must exist. Upstream requires kube-proxy, fluentd-elasticsearch and
    node-problem-detector, which few clusters run; here the caller names the required pods. Upstream
    treats a limit without any answer as success; this raises.

    Args:
        required_pods: regular expressions, one per kind of pod, that the pods' names must contain.
        system_namespace: the namespace of those pods.

    Source: node/wait.go WaitForTotalHealthy.
    """
    patterns = [_pattern(text) for text in _texts("required_pods", required_pods)]
    return HealthyCluster(patterns, check_namespace(system_namespace, "system_namespace"))


def _takes_pods_of_tests(node: dict[str, Any]) -> bool:
    return not is_cordoned(node)


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgument(what, values, "use a list of texts")
    return [check_text(what, value) for value in values]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument("required_pods", text, f"use a regular expression: {error}") from None
