"""Waits on one pod: phase, readiness, scheduling, termination, absence.

A pod that is not there yet may still be created. One that was seen and is deleted, or created
again with another UID, ends the wait; upstream polls until the limit.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
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
    check_text_argument,
    observed_generation,
    terminated_with,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.engine.verdicts import Verdict

__all__ = [
    "pod_condition",
    "pod_failed_reason",
    "pod_no_longer_running",
    "pod_not_found",
    "pod_not_pending",
    "pod_observed_generation",
    "pod_ready",
    "pod_running",
    "pod_running_ready",
    "pod_scheduled",
    "pod_success",
    "pod_terminated",
    "pod_terminating",
    "pod_unschedulable",
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


def pod_condition(
    namespace: str,
    pod: str,
    description: str,
    condition: Callable[[dict[str, Any]], bool | Verdict],
) -> UserPodCondition:
    """Return the condition of `wait_for_pod_condition`."""
    return UserPodCondition(namespace, pod, description, condition)


def wait_for_pod_condition(
    client: ApiClient,
    namespace: str,
    pod: str,
    description: str,
    condition: Callable[[dict[str, Any]], bool | Verdict],
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a pod once a callable says that it is as awaited.

    What the callable raises ends the wait at once and comes through; upstream goes on to the limit
    unless the error is marked as final. A pod that is deleted while it is awaited ends the wait as
    well, upstream waits for one of the same name.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        description: what is awaited, as it stands after `become`, for messages.
        condition: given the whole pod, returns True, False or a verdict.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the callable says `Failed`, or the pod was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodCondition.
    """
    awaited = pod_condition(namespace, pod, description, condition)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def pod_running(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_running`."""
    return PodGoalCondition(namespace, pod, RUNNING)


def wait_for_pod_running(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Running.

    Its containers need not be ready, nor all of them up. Upstream returns at once if the object it
    is given says Running; here the pod is always looked at.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodRunningInNamespace, WaitTimeoutForPodRunningInNamespace.
    """
    return cast("dict[str, Any]", _wait(client, pod_running(namespace, pod), options, "pod"))


def pod_ready(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_ready`."""
    return PodGoalCondition(namespace, pod, READY)


def wait_for_pod_ready(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitTimeoutForPodReadyInNamespace.
    """
    return cast("dict[str, Any]", _wait(client, pod_ready(namespace, pod), options, "pod_start"))


def pod_running_ready(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_running_ready`."""
    return PodGoalCondition(namespace, pod, RUNNING_READY)


def wait_for_pod_running_ready(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    The same as `wait_for_pod_ready`: upstream has both and they ask for the same.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitTimeoutForPodRunningReadyInNamespace.
    """
    return cast("dict[str, Any]", _wait(client, pod_running_ready(namespace, pod), options, "pod"))


def pod_success(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_success`."""
    return PodGoalCondition(namespace, pod, SUCCESS)


def wait_for_pod_success(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Succeeded.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has failed or was deleted, its containers cannot
            start or crash again and again, or its restart policy is Always and nobody is deleting
            it.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodSuccessInNamespace.
    """
    return cast("dict[str, Any]", _wait(client, pod_success(namespace, pod), options, "pod"))


def pod_no_longer_running(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_no_longer_running`."""
    return PodGoalCondition(namespace, pod, NO_LONGER_RUNNING)


def wait_for_pod_no_longer_running(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Succeeded or Failed, whichever.

    A pod that is deleted before it was seen in one of them ends the wait with a failure: how it
    ended is not known any more.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod was deleted, or its containers cannot start and
            nothing puts an end to that.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodNoLongerRunningInNamespace.
    """
    awaited = pod_no_longer_running(namespace, pod)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def pod_terminated(namespace: str, pod: str, reason: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_terminated`."""
    return PodGoalCondition(
        namespace, pod, terminated_with(check_text_argument("reason", reason, empty=True))
    )


def wait_for_pod_terminated(
    client: ApiClient, namespace: str, pod: str, reason: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Failed with a reason in its status.

    Upstream goes on to the limit when the pod fails with another reason, though it means to stop.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        reason: the reason in its status, for example `Evicted`; empty for none.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has failed with another reason, has succeeded or
            was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodTerminatedInNamespace.
    """
    awaited = pod_terminated(namespace, pod, reason)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def pod_failed_reason(namespace: str, pod: str, reason: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_failed_reason`."""
    return PodGoalCondition(namespace, pod, terminated_with(check_text_argument("reason", reason)))


def wait_for_pod_failed_reason(
    client: ApiClient, namespace: str, pod: str, reason: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in phase Failed with a reason in its status.

    As `wait_for_pod_terminated`, for callers who mean a reason.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        reason: the reason in its status; not empty.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has failed with another reason, has succeeded or
            was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodFailedReason.
    """
    awaited = pod_failed_reason(namespace, pod, reason)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod"))


def pod_not_pending(namespace: str, pod: str) -> PodGoalCondition:
    """Return the condition of `wait_for_pod_not_pending`."""
    return PodGoalCondition(namespace, pod, NOT_PENDING)


def wait_for_pod_not_pending(
    client: ApiClient, namespace: str, pod: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a pod once it is in any phase but Pending.

    A pod that nobody has reported on counts as Pending.

    Args:
        client: the official client.
        namespace: where the pod is.
        pod: its name.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod has ended, is being deleted or was, or cannot get
            there.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodNotPending.
    """
    return cast("dict[str, Any]", _wait(client, pod_not_pending(namespace, pod), options, "pod"))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)


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
