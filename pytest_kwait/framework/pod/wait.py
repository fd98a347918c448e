"""Waits on one pod: phase, readiness, scheduling, termination, absence.

A pod that does not exist yet may still be created. One that was seen and is deleted, or recreated
with another UID, ends the wait; upstream polls until the limit.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.engine.options import WaitOptions, check_count, check_text
from pytest_kwait.framework.pod.conditions import (
    NO_LONGER_RUNNING,
    NOT_PENDING,
    READY,
    RUNNING,
    RUNNING_READY,
    SCHEDULED,
    SUCCESS,
    TERMINATING,
    UNSCHEDULABLE,
    AbsentPod,
    PodGoalCondition,
    UserPodCondition,
    observed_generation,
    terminated_with,
)
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.verdicts import Verdict
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_pod_condition",
    "wait_for_pod_failed_reason",
    "wait_for_pod_no_longer_running",
    "wait_for_pod_not_found",
    "wait_for_pod_not_pending",
    "wait_for_pod_observed_generation",
    "wait_for_pod_ready",
    "wait_for_pod_running",
    "wait_for_pod_running_ready",
    "wait_for_pod_scheduled",
    "wait_for_pod_success",
    "wait_for_pod_terminated",
    "wait_for_pod_terminating",
    "wait_for_pod_unschedulable",
]


@wait(limit="pod", summary="a pod that a callable says is as awaited")
def wait_for_pod_condition(
    client: ApiClient,
    namespace: str,
    pod: str,
    description: str,
    condition: Callable[[dict[str, Any]], bool | Verdict],
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it satisfies a callable.

    Exceptions of the callable end the wait at once and propagate; upstream polls until the limit
    unless the error is marked as final. Deletion of the pod ends the wait as well; upstream waits
    for a pod of the same name.

    Args:
        description: the awaited state, as written after `become`, for messages.
        condition: given the whole pod, returns True, False or a verdict.

    Raises:
        WaitFailed: the callable returned `Failed`, or the pod was deleted.

    Source: pod/wait.go WaitForPodCondition.
    """
    return UserPodCondition(namespace, pod, description, condition)


@wait(limit="pod", summary="a pod in phase Running")
def wait_for_pod_running(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running.

    Its containers need not be ready, nor all started. Upstream returns at once if the given object
    is Running; here the pod is always read.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForPodRunningInNamespace, WaitTimeoutForPodRunningInNamespace.
    """
    return PodGoalCondition(namespace, pod, RUNNING)


@wait(limit="pod_start", summary="a pod that is Running and ready")
def wait_for_pod_ready(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitTimeoutForPodReadyInNamespace.
    """
    return PodGoalCondition(namespace, pod, READY)


@wait(limit="pod", summary="a pod that is Running and ready")
def wait_for_pod_running_ready(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    An alias of `wait_for_pod_ready`: upstream has both, with the same condition.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitTimeoutForPodRunningReadyInNamespace.
    """
    return PodGoalCondition(namespace, pod, RUNNING_READY)


@wait(limit="pod", summary="a pod in phase Succeeded")
def wait_for_pod_success(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Succeeded.

    Raises:
        WaitFailed: the pod has failed or was deleted, its containers cannot start or crash again
            and again, or its restart policy is Always and it is not being deleted.

    Source: pod/wait.go WaitForPodSuccessInNamespace.
    """
    return PodGoalCondition(namespace, pod, SUCCESS)


@wait(limit="pod", summary="a pod in phase Succeeded or Failed")
def wait_for_pod_no_longer_running(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Succeeded or Failed.

    A pod that is deleted before it was seen in one of them fails the wait: its outcome is unknown.

    Raises:
        WaitFailed: the pod was deleted, or its containers cannot start and nothing ends it.

    Source: pod/wait.go WaitForPodNoLongerRunningInNamespace.
    """
    return PodGoalCondition(namespace, pod, NO_LONGER_RUNNING)


@wait(limit="pod", summary="a pod that failed with a reason, or without any")
def wait_for_pod_terminated(
    client: ApiClient, namespace: str, pod: str, reason: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Failed with a reason in its status.

    Upstream polls until the limit when the pod fails with another reason, though it means to stop.

    Args:
        reason: the reason in its status, for example `Evicted`; empty for none.

    Raises:
        WaitFailed: the pod has failed with another reason, has succeeded or was deleted.

    Source: pod/wait.go WaitForPodTerminatedInNamespace.
    """
    return PodGoalCondition(
        namespace, pod, terminated_with(check_text("reason", reason, empty=True))
    )


@wait(limit="pod", summary="a pod that failed with a reason")
def wait_for_pod_failed_reason(
    client: ApiClient, namespace: str, pod: str, reason: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Failed with a reason in its status.

    Like `wait_for_pod_terminated`, but the reason must not be empty.

    Args:
        reason: the reason in its status; not empty.

    Raises:
        WaitFailed: the pod has failed with another reason, has succeeded or was deleted.

    Source: pod/wait.go WaitForPodFailedReason.
    """
    return PodGoalCondition(namespace, pod, terminated_with(check_text("reason", reason)))


@wait(limit="pod", summary="a pod in any phase but Pending")
def wait_for_pod_not_pending(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in any phase but Pending.

    A pod without a phase counts as Pending.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForPodNotPending.
    """
    return PodGoalCondition(namespace, pod, NOT_PENDING)


@wait(limit="pod_scheduled_before", summary="a pod that has a node")
def wait_for_pod_scheduled(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it has a node.

    A pod with a scheduling gate is pending until the gate is removed; the message names the gate.

    Raises:
        WaitFailed: the scheduler finds no node, the pod has ended, or is being deleted.

    Source: pod/wait.go WaitForPodScheduled.
    """
    return PodGoalCondition(namespace, pod, SCHEDULED)


@wait(limit="pod", summary="a pod that no node can take")
def wait_for_pod_unschedulable(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once the scheduler reports that it is unschedulable.

    Upstream polls until the limit when the pod is scheduled after all, though it means to stop.

    Raises:
        WaitFailed: the pod was scheduled, has ended, or is being deleted.

    Source: pod/wait.go WaitForPodNameUnschedulableInNamespace.
    """
    return PodGoalCondition(namespace, pod, UNSCHEDULABLE)


@wait(limit="pod_delete", summary="a pod that is being deleted")
def wait_for_pod_terminating(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod while it is being deleted.

    With a grace period of 0 a pod may be gone before it is seen terminating.

    Raises:
        WaitFailed: the pod was deleted before it was seen terminating.

    Source: pod/wait.go WaitForPodTerminatingInNamespaceTimeout.
    """
    return PodGoalCondition(namespace, pod, TERMINATING)


@wait(limit="pod_delete", summary="a pod that is gone, by its UID")
def wait_for_pod_not_found(
    client: ApiClient,
    namespace: str,
    pod: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once a pod is gone; at once if none has that name.

    A later pod of the same name does not count: it has another UID. Upstream waits by name, so also
    for the end of a later pod.

    Args:
        uid: its UID; None for the first one seen.

    Source: pod/wait.go WaitForPodNotFoundInNamespace.
    """
    return AbsentPod(namespace, pod, uid)


@wait(limit="pod", summary="a pod of which a generation has been observed")
def wait_for_pod_observed_generation(
    client: ApiClient,
    namespace: str,
    pod: str,
    expected_generation: int,
    condition: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once a generation of it has been observed.

    Args:
        expected_generation: the generation of its metadata that must be observed, exactly; 1 or
            more.
        condition: the type of the condition that must have observed it; None for the status as a
            whole.

    Raises:
        WaitFailed: a later generation is observed already, or the pod was deleted.

    Source: pod/wait.go WaitForPodObservedGeneration, WaitForPodConditionObservedGeneration.
    """
    count = check_count("expected_generation", expected_generation, least=1)
    kind = None if condition is None else check_text("condition", condition)
    goal = observed_generation(count, kind)
    return PodGoalCondition(namespace, pod, goal)
