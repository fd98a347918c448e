"""Waits on the nodes of a cluster, all of them.

Source: kubernetes/test/e2e/framework/node/wait.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, check_namespace, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.node.conditions import HealthyCluster, NodeSet
from pytest_kwait.framework.node.fields import is_cordoned, is_fit_for_tests, is_ready
from pytest_kwait.framework.pod.pod_conditions import check_text_argument

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "all_nodes_schedulable",
    "nodes_ready",
    "schedulable_nodes",
    "total_healthy",
    "wait_for_all_nodes_schedulable",
    "wait_for_nodes_ready",
    "wait_for_total_healthy",
]

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


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
