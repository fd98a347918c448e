"""Waits on where one pod is between its creation and its end, whatever its containers do.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.pod.conditions import (
    SCHEDULED,
    TERMINATING,
    UNSCHEDULABLE,
    observed_generation,
)
from pytest_kwait.framework.pod.pod_conditions import (
    AbsentPod,
    PodGoalCondition,
    check_text_argument,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "pod_not_found",
    "pod_observed_generation",
    "pod_scheduled",
    "pod_terminating",
    "pod_unschedulable",
    "wait_for_pod_not_found",
    "wait_for_pod_observed_generation",
    "wait_for_pod_scheduled",
    "wait_for_pod_terminating",
    "wait_for_pod_unschedulable",
]


def pod_scheduled(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_scheduled`."""
    return PodGoalCondition(namespace, pod, SCHEDULED)


def wait_for_pod_scheduled(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it has a node.

    One behind a scheduling gate is pending for as long as the gate is there; the message names the
    gate.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod_scheduled_before`, 5m20s) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the scheduler finds no node, the pod has ended, or is
            being deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodScheduled.
    """
    awaited = pod_scheduled(namespace, pod)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod_scheduled_before"))


def pod_unschedulable(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_unschedulable`."""
    return PodGoalCondition(namespace, pod, UNSCHEDULABLE)


def wait_for_pod_unschedulable(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once the scheduler says that no node can take it.

    Upstream goes on to the limit when the pod is scheduled after all, though it means to stop.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod was scheduled, has ended, or is being deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodNameUnschedulableInNamespace.
    """
    return cast("dict[str, Any]", _wait(client, pod_unschedulable(namespace, pod), options, "pod"))


def pod_terminating(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_terminating`."""
    return PodGoalCondition(namespace, pod, TERMINATING)


def wait_for_pod_terminating(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once somebody has asked for its deletion and while it is still there.

    With a grace period of 0 a pod may be gone before anyone sees it terminating.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod_delete`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the pod was deleted before it was seen terminating.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodTerminatingInNamespaceTimeout.
    """
    awaited = pod_terminating(namespace, pod)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod_delete"))


def pod_not_found(namespace: str, pod: str, uid: str | None = None) -> AbsentPod:
    """Return the condition of `wait_for_pod_not_found`."""
    return AbsentPod(namespace, pod, uid)


def wait_for_pod_not_found(
    client: ApiClient,
    namespace: str,
    pod: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> None:
    """Return None once a pod is gone, at once if there is none of that name.

    Another pod of the same name does not count: it has another UID. Upstream asks by name, and
    waits for the end of what came after.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `pod_delete`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodNotFoundInNamespace.
    """
    _wait(client, pod_not_found(namespace, pod, uid), options, "pod_delete")


def pod_observed_generation(
    namespace: str, pod: str, expected_generation: int, condition: str | None = None
) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_observed_generation`."""
    count = check_count("expected_generation", expected_generation, least=1)
    kind = None if condition is None else check_text_argument("condition", condition)
    goal = observed_generation(count, kind)
    return PodGoalCondition(namespace, pod, goal)


def wait_for_pod_observed_generation(
    client: ApiClient,
    namespace: str,
    pod: str,
    expected_generation: int,
    condition: str | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a pod once a generation of it has been observed.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        expected_generation: the generation of its metadata that must be observed, exactly; 1 or
            more.
        condition: the type of the condition that must have observed it; None for the status as a
            whole.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: a later generation is observed already, or the pod was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodObservedGeneration, WaitForPodConditionObservedGeneration.
    """
    awaited = pod_observed_generation(namespace, pod, expected_generation, condition)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
