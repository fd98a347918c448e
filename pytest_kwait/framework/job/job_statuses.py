"""Waits on what a Job itself says: its ready pods, its conditions, whatever a test asks of it.

Source: kubernetes/test/e2e/framework/job/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.job.conditions import JobOutcome
from pytest_kwait.framework.job.job_goals import (
    CONDITION_KINDS,
    JobReadiness,
    JobStatusCondition,
    UserJobCondition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "job_condition",
    "job_ready",
    "job_state",
    "job_suspend",
    "wait_for_job_condition",
    "wait_for_job_ready",
    "wait_for_job_state",
    "wait_for_job_suspend",
]


def job_ready(namespace: str, job: str, ready: int) -> JobReadiness:
    """Return the condition of `wait_for_job_ready`."""
    return JobReadiness(namespace, job, ready)


def wait_for_job_ready(
    client: ApiClient, namespace: str, job: str, ready: int, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Job once its controller has counted exactly `ready` pods that are ready.

    The count in the Job's status follows the pods by up to a second. Upstream also takes no number
    for a Job whose controller has not counted yet, and waits to the limit for pods that cannot
    come.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        ready: how many, 0 or more.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job has ended, was deleted, is suspended, keeps fewer
            pods active, or its pods are stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobReady.
    """
    return cast(
        "dict[str, Any]", _wait_for_status(client, job_ready(namespace, job, ready), options)
    )


def job_suspend(namespace: str, job: str) -> JobStatusCondition:
    """Return the condition of `wait_for_job_suspend`."""
    return JobStatusCondition(namespace, job, "Suspended", None, "become suspended")


def wait_for_job_suspend(
    client: ApiClient, namespace: str, job: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Job once its Suspended condition is True; its pods may be on their way out still.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job has ended, or was deleted.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobSuspend.
    """
    return cast("dict[str, Any]", _wait_for_status(client, job_suspend(namespace, job), options))


def job_condition(
    namespace: str, job: str, condition: str, reason: str | None = None
) -> JobOutcome | JobStatusCondition:
    """Return the condition of `wait_for_job_condition`."""
    kind = _check_condition_kind(condition)
    given: object = reason
    if given is not None and (not isinstance(given, str) or not given):
        raise InvalidArgument("reason", given, "use the reason of a condition, or None")
    if kind in ("Complete", "Failed"):
        return JobOutcome(namespace, job, (kind,), reason)
    because = "" if reason is None else f" with reason {reason}"
    return JobStatusCondition(namespace, job, kind, reason, f"have condition {kind} True{because}")


def wait_for_job_condition(
    client: ApiClient,
    namespace: str,
    job: str,
    condition: str,
    reason: str | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Job once one of its conditions is True, for the given reason if there is one.

    Upstream waits to the limit for conditions that exclude each other; here a Job that failed is
    no longer awaited to become complete, nor one that has ended to be suspended.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        condition: `Complete`, `Failed`, `FailureTarget`, `SuccessCriteriaMet` or `Suspended`; or
            the type of another controller's condition, with its domain (`example.com/Queued`).
        reason: the reason that the condition must have; None for any.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: another condition excludes it, it is True for another
            reason and stays so, the Job was deleted, is suspended, or its pods are stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobCondition.
    """
    awaited = job_condition(namespace, job, condition, reason)
    return cast("dict[str, Any]", _wait_for_status(client, awaited, options))


def job_state(namespace: str, job: str, state: Callable[[Any], Any]) -> UserJobCondition:
    """Return the condition of `wait_for_job_state`."""
    return UserJobCondition(namespace, job, state)


def wait_for_job_state(
    client: ApiClient,
    namespace: str,
    job: str,
    state: Callable[[dict[str, Any]], Any],
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Job once a callable finds nothing missing of it.

    What the callable raises ends the wait at once.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        state: is given the Job as the API has it, and returns a text of what is missing, or an
            empty one; it may return True, False or a verdict instead.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant, or another answer of the callable.
        WaitFailed: the callable says so, or the Job was deleted.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobState.
    """
    return cast(
        "dict[str, Any]", _wait_for_status(client, job_state(namespace, job, state), options)
    )


def _check_condition_kind(value: object) -> str:
    if isinstance(value, str):
        domain, slash, name = value.rpartition("/")
        if value in CONDITION_KINDS or (slash and domain and name):
            return value
    raise InvalidArgument(
        "condition",
        value,
        f"use {', '.join(CONDITION_KINDS)}, or a type with its domain: 'example.com/Type'",
    )


def _wait_for_status(client: ApiClient, condition: Condition, options: WaitOptions) -> Any:
    settings = resolve_options(options, timeout="job")
    return wait_for_condition(Session.of(client), condition, settings)
