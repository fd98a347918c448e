"""Waits on Jobs: their pods, their end, their status conditions, their deletion.

A Job's pods are found by its own selector, which names its UID unless it was written by hand, so
pods of an earlier Job of the same name never count. A Job that does not exist yet may still be
created; one that was seen and is deleted, or recreated, ends the wait. Deletion is awaited by
UID.

Source: kubernetes/test/e2e/framework/job/wait.go and rest.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Met, Pending, Source, TerminalState, Verdict
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState, decode_whole
from pytest_kwait.engine.options import TIMEOUTS, check_text
from pytest_kwait.engine.pod_fields import PodFields, is_terminating, phase_label
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.job.conditions import (
    CONDITION_KINDS,
    JobCondition,
    JobOutcome,
    JobPods,
    JobReadiness,
    JobStatusCondition,
    UserJobCondition,
    find_end,
    pod_selector,
)
from pytest_kwait.framework.named_objects import (
    controller_uid,
    count_noun,
    describe_deletion,
    strip_kind,
)
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

_NAME_LABEL = "batch.kubernetes.io/job-name"


def get_job_pods(
    client: ApiClient, namespace: str, name: str, *, timeout: Duration | None = None
) -> list[dict[str, Any]]:
    """Return the pods that a Job's selector matches now, sorted by name.

    The list is empty while the Job has no pods.

    Args:
        timeout: the limit; 5 minutes if not given.

    Raises:
        ApiError: the Job does not exist, or the server refuses.
        DeadlineExceeded: there was no answer in time.

    Source: job/rest.go GetJobPods, which selects by a label that only the framework's jobs have.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    name = check_name("job", strip_kind(name, JOBS))
    default = TIMEOUTS["single_call"].seconds
    limit = default if timeout is None else to_seconds(timeout, what="timeout", allow_zero=False)
    deadline = Deadline.after(limit, session.clock)
    job = request_with_retry(
        lambda attempt_deadline: session.get(JOBS, name, namespace, deadline=attempt_deadline),
        deadline,
    )
    selector = pod_selector(job)
    listed = request_with_retry(
        lambda attempt_deadline: session.list(
            PODS, namespace, label_selector=selector, deadline=attempt_deadline
        ),
        deadline,
    )
    owners = ("", job["metadata"].get("uid"))
    pods = [
        decode_whole(PODS, item.raw)
        for item in listed.items
        if controller_uid(item.object) in owners
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


@wait(limit="job", kind=JOBS, summary="an exact number of a job's pods in phase Running")
def wait_for_job_pods_running(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a Job's pods in phase Running once there are exactly `count`.

    Counts as upstream does: pods in other phases are ignored, a surplus Running pod is as wrong as
    a missing one, and a pod need not be ready. Upstream waits until the timeout for pods that have
    already ended; this wait fails when the Job has ended, or can no longer run that many at once.

    Args:
        count: the number of pods; 0 or more.

    Raises:
        WaitFailed: the Job has ended, was deleted, or its pods are stuck.

    Source: job/wait.go WaitForJobPodsRunning.
    """
    return JobPods(namespace, name, count, "Running")


@wait(limit="job", kind=JOBS, summary="an exact number of a job's pods in phase Succeeded")
def wait_for_job_pods_succeeded(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a Job's pods in phase Succeeded once there are exactly `count`.

    Counts as `wait_for_job_pods_running` does; deleted pods never count.

    Args:
        count: the number of pods; 0 or more.

    Raises:
        WaitFailed: the Job has ended, was deleted, or its pods are stuck.

    Source: job/wait.go WaitForJobPodsSucceeded.
    """
    return JobPods(namespace, name, count, "Succeeded")


@wait(limit="job", kind=JOBS, summary="a job that is complete or has failed")
def wait_for_job_finish(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once it is Complete or Failed.

    Raises:
        WaitFailed: the Job was deleted, is suspended, or every pod is stuck.

    Source: job/wait.go WaitForJobFinish.
    """
    return JobOutcome(namespace, name, ("Complete", "Failed"))


@wait(limit="job", kind=JOBS, summary="a job that is complete")
def wait_for_job_complete(
    client: ApiClient,
    namespace: str,
    name: str,
    reason: str | None = None,
    completions: int | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once its Complete condition is True.

    Upstream gives the pods and the condition one limit each; here one limit holds for both.

    Args:
        reason: the reason that the condition must have, for example `CompletionsReached`; None for
            any.
        completions: how many pods must have succeeded by the Job's own count; None for any number.

    Raises:
        WaitFailed: the Job has failed or is about to, is complete in another way, was deleted, is
            suspended, or a pod is stuck.

    Source: job/wait.go WaitForJobComplete.
    """
    return JobOutcome(namespace, name, ("Complete",), reason, completions)


@wait(limit="job", kind=JOBS, summary="a job that has failed")
def wait_for_job_failed(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once its Failed condition is True.

    Raises:
        WaitFailed: the Job is complete, was deleted, is suspended, or every pod is stuck.

    Source: job/wait.go WaitForJobFailed.
    """
    return JobOutcome(namespace, name, ("Failed",))


@wait(limit="job", kind=JOBS, summary="a job whose status has an exact number of ready pods")
def wait_for_job_ready(
    client: ApiClient, namespace: str, name: str, count: int, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once its controller has counted exactly `count` ready pods.

    The count in the Job's status lags the pods by up to a second. Upstream also accepts a status
    without a count, and waits until the limit for pods that cannot come.

    Args:
        count: the number of pods; 0 or more.

    Raises:
        WaitFailed: the Job has ended, was deleted, is suspended, keeps fewer pods active, or its
            pods are stuck.

    Source: job/wait.go WaitForJobReady.
    """
    return JobReadiness(namespace, name, count)


@wait(limit="job", kind=JOBS, summary="a job that is suspended")
def wait_for_job_suspend(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once its Suspended condition is True.

    Its pods may still be terminating.

    Raises:
        WaitFailed: the Job has ended, or was deleted.

    Source: job/wait.go WaitForJobSuspend.
    """
    return JobStatusCondition(namespace, name, "Suspended", None, "become suspended")


@wait(limit="job", kind=JOBS, summary="a job with a condition that is True")
def wait_for_job_condition(
    client: ApiClient,
    namespace: str,
    name: str,
    condition: str,
    reason: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once one of its conditions is True, with the given reason.

    Upstream waits until the limit for conditions that exclude each other; here a failed Job ends a
    wait for completion, and an ended Job a wait for suspension.

    Args:
        condition: `Complete`, `Failed`, `FailureTarget`, `SuccessCriteriaMet` or `Suspended`; or
            the type of another controller's condition, with its domain (`example.com/Queued`).
        reason: the reason that the condition must have; None for any.

    Raises:
        WaitFailed: another condition excludes it, it is True for another reason and stays so, the
            Job was deleted, is suspended, or its pods are stuck.

    Source: job/wait.go WaitForJobCondition.
    """
    kind = _check_condition_kind(condition)
    value: object = reason
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidArgument("reason", value, "use the reason of a condition, or None")
    if kind in ("Complete", "Failed"):
        return JobOutcome(namespace, name, (kind,), reason)
    because = "" if reason is None else f" with reason {reason}"
    return JobStatusCondition(namespace, name, kind, reason, f"have condition {kind} True{because}")


@wait(limit="job", kind=JOBS, summary="a job that a callable accepts")
def wait_for_job_state(
    client: ApiClient,
    namespace: str,
    name: str,
    state: Callable[[dict[str, Any]], Any],
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Job once a callable reports nothing missing.

    An exception of the callable ends the wait at once, unless a field is not there yet.

    Args:
        state: given the Job as the API returns it, returns a text that names the missing part,
            empty for none; or True, False or a verdict.

    Raises:
        InvalidArgument: an invalid argument, or an invalid return value of the callable.
        WaitFailed: the callable returned `Failed`, or the Job was deleted.

    Source: job/wait.go WaitForJobState.
    """
    return UserJobCondition(namespace, name, state)


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


class AbsentJob(JobCondition):
    """A Job is gone; a later Job of the same name does not count.

    Args:
        uid: its UID; None for the first one seen.
    """

    awaits_absence = True

    def __init__(self, namespace: str, job: str, uid: str | None) -> None:
        super().__init__(namespace, job, "go away", uid=_check_uid(uid))

    def verdict(self) -> Verdict:
        """Decide by the presence of the Job with that UID; name its finalizers."""
        if self.object.missing_verdict() is not None:
            return Met()
        return Pending(describe_deletion(self.object.current or {}, self._holder, self._undeleted))

    def _undeleted(self, job: dict[str, Any]) -> str:
        after = self.object.spec.get("ttlSecondsAfterFinished")
        if after is None:
            return "not being deleted"
        ended = find_end(self.object, "Complete", "Failed")
        return f"to be deleted {after}s after its end{'' if ended else ', which has not come'}"

    def _holder(self, job: dict[str, Any], finalizer: str) -> str:
        # The garbage collector removes it once the pods that block their owner are gone.
        if finalizer != "foregroundDeletion" or not len(self.pods):
            return ""
        return f"{count_noun(len(self.pods), 'pod')}: {self.pods.summary()}"

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        return ObjectState(_describe_pod(pod))

    def result(self) -> None:
        """Return None."""


class AbsentJobPods(JobCondition):
    """No pod of a Job is left, whether the Job itself exists or not.

    The pods are found by the label with the Job's name, so pods of a deleted Job are found too;
    with a manual selector, by that selector. Pods of another Job of the same name do not count.

    Args:
        uid: its UID; None for the first one seen.
    """

    awaits_absence = True

    def __init__(self, namespace: str, job: str, uid: str | None) -> None:
        super().__init__(namespace, job, "lose its last pod", uid=_check_uid(uid))
        self._select(f"{_NAME_LABEL}={job}")

    def _select(self, selector: str) -> None:
        self._selector = selector
        self.pods = ObjectCounter(self._pod_state)
        self._sources = (
            self._sources[0],
            Source(PODS, self.namespace, self.pods, selector=selector, fields=PodFields),
        )

    def sources(self) -> Sequence[Source]:
        """Return the Job and its pods."""
        current = self.object.current
        if current is not None and self.object.spec.get("manualSelector"):
            selector = pod_selector(current)
            if selector != self._selector:
                self._select(selector)
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the number of the Job's pods."""
        pod_count = len(self.pods)
        if self.object.uid:
            pod_count = self.pods.count(self.object.uid) + self.pods.count("")
        if not pod_count:
            return Met()
        other_count = len(self.pods) - pod_count
        more = f" ({other_count} of them of another job of that name)" if other_count else ""
        text = f"{count_noun(pod_count, 'pod')} still there: {self.pods.summary()}{more}"
        note = self._note()
        return Pending(f"{text}; {note}" if note else text)

    def _note(self) -> str:
        if self.object.missing_verdict() is not None or self.object.ending() is not None:
            return ""
        if find_end(self.object, "Complete", "Failed") is not None:
            return "those of a job that is over stay until it is deleted"
        return "" if self.object.spec.get("suspend") else "the job is at work, and makes pods"

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        return ObjectState(_describe_pod(pod), (controller_uid(pod),))

    def summarize(self) -> str:
        """Return a summary of the pods."""
        return self.pods.summary() or "no pods"

    def result(self) -> None:
        """Return None."""


def _describe_pod(pod: dict[str, Any]) -> str:
    return describe_deletion(pod) if is_terminating(pod) else phase_label(pod)


def _check_uid(uid: str | None) -> str:
    return "" if uid is None else check_text("uid", uid)


@wait(limit="job", kind=JOBS, summary="a job that is gone, by its UID")
def wait_for_job_gone(
    client: ApiClient,
    namespace: str,
    name: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once a Job is gone; at once if none has that name.

    Another Job of the same name does not count: it has another UID. While the Job exists the
    verdict names its finalizers, and the pods that block a foreground deletion. Upstream's wait
    never succeeds: the not-found answer ends it as an error.

    Args:
        uid: its UID; None for the first one seen.

    Source: job/wait.go WaitForJobGone.
    """
    return AbsentJob(namespace, name, uid)


@wait(limit="job", kind=JOBS, summary="a job without any pods left")
def wait_for_all_job_pods_gone(
    client: ApiClient,
    namespace: str,
    name: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once no pod of a Job is left, in any phase.

    The Job itself may exist (suspended, or not started) or be gone. Pods of another Job of the same
    name do not count if the UID is known, by argument or because the Job was seen.

    Args:
        uid: its UID; None for the first one seen.

    Source: job/wait.go WaitForAllJobPodsGone, whose label only the framework's jobs have.
    """
    return AbsentJobPods(namespace, name, uid)
