"""Waits on Jobs.

A Job's pods are found by its own selector, which names its UID unless it was made by hand: pods of
an earlier Job of the same name never count. A Job that is not there yet may still be created; one
that was seen and is deleted, or created anew, ends the wait.

Source: kubernetes/test/e2e/framework/job/wait.go and rest.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.durations import to_seconds
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.object_counter import decode_whole
from pytest_kwait.engine.options import WaitOptions, check_name, check_namespace, resolve_options
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.engine.timeouts import TIMEOUTS
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.job.conditions import JobOutcome, JobPods
from pytest_kwait.framework.job.fields import pod_selector
from pytest_kwait.framework.pod.fields import controller_uid

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.durations import Duration

__all__ = [
    "get_job_pods",
    "job_complete",
    "job_failed",
    "job_finish",
    "job_pods_running",
    "job_pods_succeeded",
    "wait_for_job_complete",
    "wait_for_job_failed",
    "wait_for_job_finish",
    "wait_for_job_pods_running",
    "wait_for_job_pods_succeeded",
]


def get_job_pods(
    client: ApiClient, namespace: str, job: str, *, timeout: Duration | None = None
) -> list[dict[str, Any]]:
    """Return the pods that a Job's selector matches now, sorted by name; empty before it has any.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        timeout: the limit; 5 minutes if not given.

    Raises:
        ApiError: the Job is not there, or the server refuses.
        DeadlineExceeded: there was no answer in time.
        InvalidArgument: a name that cannot be one.

    Source: job/rest.go GetJobPods, which selects by a label that only the framework's jobs have.
    """
    session = Session.of(client)
    check_namespace(namespace)
    check_name("job", job)
    default = TIMEOUTS["single_call"].seconds
    limit = default if timeout is None else to_seconds(timeout, what="timeout", allow_zero=False)
    deadline = Deadline.after(limit, session.clock)
    found = request_with_retry(
        lambda left: session.get(JOBS, job, namespace, deadline=left), deadline
    )
    selector = pod_selector(found)
    listed = request_with_retry(
        lambda left: session.list(PODS, namespace, label_selector=selector, deadline=left), deadline
    )
    owners = ("", found["metadata"].get("uid"))
    pods = [
        decode_whole(PODS, item.raw)
        for item in listed.items
        if controller_uid(item.object) in owners
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def job_pods_running(namespace: str, job: str, expected_count: int) -> JobPods:
    """Return the condition of `wait_for_job_pods_running`."""
    return JobPods(namespace, job, expected_count, "Running")


def wait_for_job_pods_running(
    client: ApiClient,
    namespace: str,
    job: str,
    expected_count: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a Job's pods in phase Running once they are exactly `expected_count`.

    Exactly as upstream counts: pods in other phases are ignored, one Running pod too many is as
    little as one too few, and a pod need not be ready. Upstream's wait for pods that have run and
    ended already lasts until the timeout; this one fails when the Job has ended, or cannot run so
    many at once any more.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        expected_count: how many pods, 0 or more.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job has ended, was deleted, or its pods are stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobPodsRunning.
    """
    return cast(
        "list[dict[str, Any]]",
        _wait(client, job_pods_running(namespace, job, expected_count), options),
    )


def job_pods_succeeded(namespace: str, job: str, expected_count: int) -> JobPods:
    """Return the condition of `wait_for_job_pods_succeeded`."""
    return JobPods(namespace, job, expected_count, "Succeeded")


def wait_for_job_pods_succeeded(
    client: ApiClient,
    namespace: str,
    job: str,
    expected_count: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a Job's pods in phase Succeeded once they are exactly `expected_count`.

    Counts as `wait_for_job_pods_running` does: pods that were deleted do not count, however they
    ended.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        expected_count: how many pods, 0 or more.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job has ended, was deleted, or its pods are stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobPodsSucceeded.
    """
    return cast(
        "list[dict[str, Any]]",
        _wait(client, job_pods_succeeded(namespace, job, expected_count), options),
    )


def job_finish(namespace: str, job: str) -> JobOutcome:
    """Return the condition of `wait_for_job_finish`."""
    return JobOutcome(namespace, job, ("Complete", "Failed"))


def wait_for_job_finish(
    client: ApiClient, namespace: str, job: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Job once it is Complete or Failed, whichever.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job was deleted, is suspended, or every pod is stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobFinish.
    """
    return cast("dict[str, Any]", _wait(client, job_finish(namespace, job), options))


def job_complete(
    namespace: str, job: str, reason: str | None = None, completions: int | None = None
) -> JobOutcome:
    """Return the condition of `wait_for_job_complete`."""
    return JobOutcome(namespace, job, ("Complete",), reason, completions)


def wait_for_job_complete(
    client: ApiClient,
    namespace: str,
    job: str,
    reason: str | None = None,
    completions: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Job once its Complete condition is True.

    Upstream gives the pods and the condition one limit each; here one limit holds for both.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        reason: the reason that the condition must have, for example `CompletionsReached`; None
            for any.
        completions: how many pods must have succeeded by the Job's own count; None for any number.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job has failed or is about to, is complete in another
            way, was deleted, is suspended, or a pod is stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobComplete.
    """
    condition = job_complete(namespace, job, reason, completions)
    return cast("dict[str, Any]", _wait(client, condition, options))


def job_failed(namespace: str, job: str) -> JobOutcome:
    """Return the condition of `wait_for_job_failed`."""
    return JobOutcome(namespace, job, ("Failed",))


def wait_for_job_failed(
    client: ApiClient, namespace: str, job: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Job once its Failed condition is True.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the Job is complete, was deleted, is suspended, or every
            pod is stuck.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobFailed.
    """
    return cast("dict[str, Any]", _wait(client, job_failed(namespace, job), options))


def _wait(client: ApiClient, condition: JobPods | JobOutcome, options: WaitOptions) -> Any:
    settings = resolve_options(options, timeout="job")
    return wait_for_condition(Session.of(client), condition, settings)
