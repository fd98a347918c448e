"""Waits on nodes: one node's conditions, taints and heartbeat, or all nodes of a cluster.

A node that is not there yet may still come; one that was seen and is deleted ends the wait.

Source: kubernetes/test/e2e/framework/node/wait.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
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
from pytest_kwait.framework.pod.conditions import check_text_argument

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "all_nodes_schedulable",
    "node_condition",
    "node_heartbeat_after",
    "node_not_ready",
    "node_ready",
    "node_schedulable",
    "nodes_ready",
    "schedulable_nodes",
    "total_healthy",
    "wait_for_all_nodes_schedulable",
    "wait_for_node_condition",
    "wait_for_node_heartbeat_after",
    "wait_for_node_not_ready",
    "wait_for_node_ready",
    "wait_for_node_schedulable",
    "wait_for_nodes_ready",
    "wait_for_total_healthy",
]


def node_ready(node: str) -> OneNode:
    """Return the condition of `wait_for_node_ready`."""
    return OneNode(node, _node_condition_goal("Ready", True))


def wait_for_node_ready(
    client: ApiClient, node: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a node once its Ready condition is True and the node controller's taints are gone.

    The taints are `node.kubernetes.io/not-ready` and `node.kubernetes.io/unreachable`, with effect
    NoExecute. Upstream returns False at the limit; this raises.

    Args:
        client: the official client.
        node: its name.
        **options: `timeout` (default: `restart_node_ready_again`, 5 minutes) and the other options
            of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the node was deleted.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForNodeToBeReady.
    """
    awaited = node_ready(node)
    return cast("dict[str, Any]", _wait(client, awaited, options, "restart_node_ready_again"))


def node_not_ready(node: str) -> OneNode:
    """Return the condition of `wait_for_node_not_ready`."""
    return OneNode(node, _node_condition_goal("Ready", False))


def wait_for_node_not_ready(
    client: ApiClient, node: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a node once its Ready condition is anything but True.

    A node without that condition is neither ready nor not ready. Upstream returns False at the
    limit; this raises.

    Args:
        client: the official client.
        node: its name.
        **options: `timeout` (default: `node_not_ready`, 3 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the node was deleted.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForNodeToBeNotReady.
    """
    return cast("dict[str, Any]", _wait(client, node_not_ready(node), options, "node_not_ready"))


def node_condition(node: str, condition: str, wanted: bool = True) -> OneNode:
    """Return the condition of `wait_for_node_condition`."""
    kind = check_text_argument("condition", condition)
    return OneNode(node, _node_condition_goal(kind, _check_bool("wanted", wanted)))


def wait_for_node_condition(
    client: ApiClient,
    node: str,
    condition: str,
    wanted: bool = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a node once one of its conditions is True, or is there and is not.

    For Ready the node controller's taints count as in `wait_for_node_ready`. Upstream returns False
    at the limit; this raises.

    Args:
        client: the official client.
        node: its name.
        condition: its type, for example `DiskPressure`.
        wanted: True to wait until it is True, False until it is anything else.
        **options: `timeout` (default: `node_not_ready`, 3 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the node was deleted.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitConditionToBe.
    """
    awaited = node_condition(node, condition, wanted)
    return cast("dict[str, Any]", _wait(client, awaited, options, "node_not_ready"))


def node_schedulable(node: str, want_schedulable: bool = True) -> OneNode:
    """Return the condition of `wait_for_node_schedulable`."""
    wanted = _check_bool("want_schedulable", want_schedulable)
    text = f"become {'' if wanted else 'un'}schedulable"
    goal = NodeGoal(text, lambda obj: is_schedulable(obj) == wanted)
    return OneNode(node, goal)


def wait_for_node_schedulable(
    client: ApiClient, node: str, want_schedulable: bool = True, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a node once it is ready and not cordoned, or once it is not both.

    A network that is said to be unavailable counts as not ready. Upstream returns False at the
    limit; this raises.

    Args:
        client: the official client.
        node: its name.
        want_schedulable: False to wait until it is not schedulable.
        **options: `timeout` (default: `node_schedulable`, 30 minutes) and the other options of
            every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the node was deleted.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForNodeSchedulable.
    """
    awaited = node_schedulable(node, want_schedulable)
    return cast("dict[str, Any]", _wait(client, awaited, options, "node_schedulable"))


def node_heartbeat_after(node: str, after: datetime | str) -> OneNode:
    """Return the condition of `wait_for_node_heartbeat_after`."""
    moment = _parse_time(after)
    text = f"have a heartbeat after {moment.isoformat()}"
    goal = NodeGoal(text, lambda obj: _is_later(obj, moment), _last_heartbeat)
    return OneNode(node, goal)


def wait_for_node_heartbeat_after(
    client: ApiClient, node: str, after: datetime | str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a node once the last heartbeat of its Ready condition is later than `after`.

    A kubelet of which nothing changes writes one every five minutes.

    Args:
        client: the official client.
        node: its name.
        after: the moment, with its time zone; a text as in RFC 3339.
        **options: `timeout` (default: `nodes_ready`, 7 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the node was deleted.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForNodeHeartbeatAfter.
    """
    awaited = node_heartbeat_after(node, after)
    return cast("dict[str, Any]", _wait(client, awaited, options, "nodes_ready"))


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


def _check_bool(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(what, value, "use True or False")
    return value


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


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""The taint of nodes that are not meant for pods of tests."""


def all_nodes_schedulable(
    allowed_not_ready: int = 0, non_blocking_taints: Sequence[str] = (CONTROL_PLANE,)
) -> NodeSet:
    """Return the condition of `wait_for_all_nodes_schedulable`."""
    return schedulable_nodes(allowed_not_ready, non_blocking_taints, least=1)


def schedulable_nodes(
    allowed_not_ready: int, non_blocking_taints: Sequence[str], *, least: int
) -> NodeSet:
    """Return the same condition of `least` nodes or more."""
    allowed = check_count("allowed_not_ready", allowed_not_ready)
    keys = _texts("non_blocking_taints", non_blocking_taints)
    goal = f"become schedulable, all but {allowed}" if allowed else "all become schedulable"
    fit = partial(is_fit_for_tests, non_blocking=keys)
    return NodeSet(goal, _takes_pods_of_tests, fit, allowed=allowed, least=least)


def wait_for_all_nodes_schedulable(
    client: ApiClient,
    allowed_not_ready: int = 0,
    non_blocking_taints: Sequence[str] = (CONTROL_PLANE,),
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return the nodes that pods of tests can run on once all but a few of the uncordoned ones are.

    Those are ready, with network as far as they say, and without taints that keep pods out. At
    least one node must be there and uncordoned; upstream's condition holds for none. Upstream ends
    at the third list that fails, and returns at once for a count of -1, which is refused here.

    Args:
        client: the official client.
        allowed_not_ready: how many may be neither; 0 or more.
        non_blocking_taints: keys of taints that do not matter.
        **options: `timeout` (default: `node_schedulable`, 30 minutes) and the other options of
            every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForAllNodesSchedulable, CheckReadyForTests.
    """
    awaited = all_nodes_schedulable(allowed_not_ready, non_blocking_taints)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "node_schedulable"))


def nodes_ready(count: int) -> NodeSet:
    """Return the condition of `wait_for_nodes_ready`."""
    number = check_count("count", count)
    goal = f"become {number}, all of them ready"
    return NodeSet(goal, _takes_pods_of_tests, is_ready, count=number)


def wait_for_nodes_ready(
    client: ApiClient, count: int, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return the uncordoned nodes once they are exactly `count` and all of them ready.

    Ready as in `wait_for_node_ready`, with network as far as they say.

    Args:
        client: the official client.
        count: how many, exactly; 0 or more.
        **options: `timeout` (default: `nodes_ready`, 7 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForReadyNodes, CheckReady.
    """
    return cast("list[dict[str, Any]]", _wait(client, nodes_ready(count), options, "nodes_ready"))


def total_healthy(
    required_pods: Sequence[str] = (), system_namespace: str = "kube-system"
) -> HealthyCluster:
    """Return the condition of `wait_for_total_healthy`."""
    patterns = [_pattern(text) for text in _texts("required_pods", required_pods)]
    return HealthyCluster(patterns, check_namespace(system_namespace, "system_namespace"))


def wait_for_total_healthy(
    client: ApiClient,
    required_pods: Sequence[str] = (),
    system_namespace: str = "kube-system",
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return all nodes once there is one, all are ready and run what they must.

    Upstream asks for kube-proxy, fluentd-elasticsearch and node-problem-detector, which few
    clusters run: here the caller says what the system needs. Upstream takes a limit without any
    answer for success; this raises.

    Args:
        client: the official client.
        required_pods: regular expressions, one per kind of pod, that the pods' names must contain.
        system_namespace: where those pods are.
        **options: `timeout` (default: `nodes_ready`, 7 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: node/wait.go WaitForTotalHealthy.
    """
    awaited = total_healthy(required_pods, system_namespace)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "nodes_ready"))


def _takes_pods_of_tests(node: dict[str, Any]) -> bool:
    return not is_cordoned(node)


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgument(what, values, "use a list of texts")
    return [check_text_argument(what, value) for value in values]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument("required_pods", text, f"use a regular expression: {error}") from None
