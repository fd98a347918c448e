"""Waits on one container of a pod, by its name.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_namespace, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.pod.container_goals import failing, running, started, terminated
from pytest_kwait.framework.pod.pod_conditions import PodGoalCondition, check_text_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.framework.pod.conditions import PodGoal

__all__ = [
    "container_running",
    "container_started",
    "container_terminated",
    "container_to_fail",
    "wait_for_container_running",
    "wait_for_container_started",
    "wait_for_container_terminated",
    "wait_for_container_to_fail",
]


def container_started(namespace: str, pod: str, container: str) -> PodGoalCondition:
    """Return the condition of `wait_for_container_started`."""
    return _container_condition(namespace, pod, started, container)


def wait_for_container_started(
    client: ApiClient, namespace: str, pod: str, container: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once one of its containers runs and has passed its startup probe.

    Upstream takes the container's place in the list of statuses, which has another order than the
    spec, and reads through a nil where the kubelet has not said yet.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        container: the container's name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodContainerStarted, WaitForPodInitContainerStarted.
    """
    awaited = container_started(namespace, pod, container)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def container_running(namespace: str, pod: str, container: str) -> PodGoalCondition:
    """Return the condition of `wait_for_container_running`."""
    return _container_condition(namespace, pod, running, container)


def wait_for_container_running(
    client: ApiClient, namespace: str, pod: str, container: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once one of its containers is in state running.

    Init containers and ephemeral ones count as well.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        container: the container's name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForContainerRunning.
    """
    awaited = container_running(namespace, pod, container)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def container_terminated(namespace: str, pod: str, container: str) -> PodGoalCondition:
    """Return the condition of `wait_for_container_terminated`."""
    return _container_condition(namespace, pod, terminated, container)


def wait_for_container_terminated(
    client: ApiClient, namespace: str, pod: str, container: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once one of its containers is in state terminated.

    A container that is started again at once may be seen running only, in `poll` mode above all.
    Init containers and ephemeral ones count as well.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        container: the container's name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod was deleted, or the container cannot start.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForContainerTerminated.
    """
    awaited = container_terminated(namespace, pod, container)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def container_to_fail(namespace: str, pod: str, container: str, reason: str) -> PodGoalCondition:
    """Return the condition of `wait_for_container_to_fail`."""
    text = check_text_argument("reason", reason)
    return _container_condition(namespace, pod, lambda name: failing(name, text), container)


def wait_for_container_to_fail(
    client: ApiClient,
    namespace: str,
    pod: str,
    container: str,
    reason: str,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a pod once one of its containers waits for a reason.

    Upstream takes the container's place in the list of statuses, and looks only while the pod is
    Pending; here a container of a pod that runs may fail as well.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        container: the container's name.
        reason: why it waits, for example `CreateContainerConfigError`.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, or is being deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodContainerToFail.
    """
    awaited = container_to_fail(namespace, pod, container, reason)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def _container_condition(
    namespace: str, pod: str, goal: Callable[[str], PodGoal], container: str
) -> PodGoalCondition:
    return PodGoalCondition(namespace, pod, goal(check_namespace(container, "container")))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
