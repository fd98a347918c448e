"""Waits on DaemonSets and their pods.

Source: kubernetes/test/e2e/framework/daemonset/fixtures.go and kubernetes/test/e2e/e2e.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, check_name, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.daemonset import DaemonSetPods, DaemonSets, DaemonSetStatus, is_started
from pytest_kwait.framework.pod.list_conditions import is_running_and_ready

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "daemon_set_pods_on_nodes",
    "daemon_set_present_on_nodes",
    "daemon_set_running_on_all_nodes",
    "daemon_set_status",
    "daemon_sets",
    "wait_for_daemon_set_pods_on_nodes",
    "wait_for_daemon_set_present_on_nodes",
    "wait_for_daemon_set_running_on_all_nodes",
    "wait_for_daemon_set_status",
    "wait_for_daemon_sets",
]


def daemon_set_running_on_all_nodes(namespace: str, daemon_set: str) -> DaemonSetPods:
    """Return the condition of `wait_for_daemon_set_running_on_all_nodes`."""
    goal = "have one available pod on each node that it is to run on"
    return DaemonSetPods(namespace, daemon_set, goal, is_running_and_ready, least=1)


def wait_for_daemon_set_running_on_all_nodes(
    client: ApiClient, namespace: str, daemon_set: str, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return a set's pods once exactly one is available on each node that it is to run on.

    Those nodes are counted by the set's own controller, by taints, selectors and affinity, and at
    least one there must be: upstream works them out itself, and its condition holds for none. Pods
    that are being deleted do not count.

    Args:
        client: the official client.
        namespace: where the set is.
        daemon_set: its name.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod is stuck, no node is eligible, or the set is
            deleted.
        WaitTimeout: it did not come within the limit.

    Source: daemonset/fixtures.go CheckRunningOnAllNodes.
    """
    condition = daemon_set_running_on_all_nodes(namespace, daemon_set)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def daemon_set_pods_on_nodes(
    namespace: str, daemon_set: str, nodes: Sequence[str]
) -> DaemonSetPods:
    """Return the condition of `wait_for_daemon_set_pods_on_nodes`."""
    given: object = nodes
    if isinstance(given, str) or not isinstance(given, Sequence) or len(set(given)) < len(given):
        raise InvalidArgument("nodes", given, "use a list of the nodes' names, each once")
    names = [check_name("nodes", node) for node in given]
    where = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    each = " each" if len(names) > 1 else ""
    goal = f"have one available pod on {where}{each}, and nowhere else"
    if not names:
        goal = "have no available pod"
    return DaemonSetPods(namespace, daemon_set, goal, is_running_and_ready, nodes=names)


def wait_for_daemon_set_pods_on_nodes(
    client: ApiClient,
    namespace: str,
    daemon_set: str,
    nodes: Sequence[str],
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a set's pods once exactly one is available on each of these nodes, and none elsewhere.

    Pods that are being deleted do not count.

    Args:
        client: the official client.
        namespace: where the set is.
        daemon_set: its name.
        nodes: the names of all nodes that are to have a pod; empty for none.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod there is stuck, the set is to run on another number
            of nodes, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: daemonset/fixtures.go CheckDaemonPodOnNodes.
    """
    condition = daemon_set_pods_on_nodes(namespace, daemon_set, nodes)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def daemon_set_present_on_nodes(namespace: str, daemon_set: str, count: int) -> DaemonSetPods:
    """Return the condition of `wait_for_daemon_set_present_on_nodes`."""
    number = check_count("count", count)
    noun = "node" if number == 1 else "nodes"
    goal = f"have one pod that has started on each node that it is to run on, {number} {noun} or"
    return DaemonSetPods(namespace, daemon_set, f"{goal} more", is_started, least=number)


def wait_for_daemon_set_present_on_nodes(
    client: ApiClient,
    namespace: str,
    daemon_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a set's pods once one has started on each of its nodes, `count` nodes or more.

    Started is a pod that is no longer Pending; it need not be ready. Pods that are being deleted do
    not count.

    Args:
        client: the official client.
        namespace: where the set is.
        daemon_set: its name.
        count: how many nodes at least; 0 or more.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod is stuck, the set is to run on fewer nodes, or is
            deleted.
        WaitTimeout: it did not come within the limit.

    Source: daemonset/fixtures.go CheckPresentOnNodes.
    """
    condition = daemon_set_present_on_nodes(namespace, daemon_set, count)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def daemon_set_status(namespace: str, daemon_set: str) -> DaemonSetStatus:
    """Return the condition of `wait_for_daemon_set_status`."""
    return DaemonSetStatus(namespace, daemon_set)


def wait_for_daemon_set_status(
    client: ApiClient, namespace: str, daemon_set: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a set once its status counts all the pods it is to have as scheduled and ready.

    The status must be of the present generation: upstream takes one that nobody has written yet for
    a set of no pods. One that is to have none satisfies this.

    Args:
        client: the official client.
        namespace: where the set is.
        daemon_set: its name.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod is stuck, or the set is deleted.
        WaitTimeout: it did not come within the limit.

    Source: daemonset/fixtures.go CheckDaemonStatus.
    """
    condition = daemon_set_status(namespace, daemon_set)
    return cast("dict[str, Any]", _wait(client, condition, options))


def daemon_sets(namespace: str, allowed_not_ready: int = 0) -> DaemonSets:
    """Return the condition of `wait_for_daemon_sets`."""
    return DaemonSets(namespace, allowed_not_ready)


def wait_for_daemon_sets(
    client: ApiClient,
    namespace: str,
    allowed_not_ready: int = 0,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return all sets of a namespace once each has its pods ready, but for a few.

    A namespace without any satisfies this. Upstream only warns when the limit is over.

    Args:
        client: the official client.
        namespace: where the sets are.
        allowed_not_ready: how many pods of each set may be missing or not ready.
        **options: `timeout` (default: `system_daemonset_startup`, 5 minutes) and the other options
            of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: e2e.go waitForDaemonSets.
    """
    condition = daemon_sets(namespace, allowed_not_ready)
    settings = resolve_options(options, timeout="system_daemonset_startup")
    found = wait_for_condition(Session.of(client), condition, settings)
    return cast("list[dict[str, Any]]", found)


def _wait(client: ApiClient, condition: Condition, options: WaitOptions) -> Any:
    settings = resolve_options(options, timeout="pod_start")
    return wait_for_condition(Session.of(client), condition, settings)
