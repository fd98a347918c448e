"""Waits for the end of Jobs and of their pods as objects: deleted, by their UIDs.

Source: kubernetes/test/e2e/framework/job/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import Session
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.job.conditions import JobCondition
from pytest_kwait.framework.job.fields import find_end, pod_selector
from pytest_kwait.framework.pod.fields import PodFields, controller_uid, is_terminating, phase_label
from pytest_kwait.framework.pod.pod_conditions import check_text_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "AbsentJob",
    "AbsentJobPods",
    "all_job_pods_gone",
    "job_gone",
    "wait_for_all_job_pods_gone",
    "wait_for_job_gone",
]

_NAME_LABEL = "batch.kubernetes.io/job-name"


class AbsentJob(JobCondition):
    """A Job is gone, whatever of the same name came after it.

    Args:
        namespace: where the Job is.
        job: its name.
        uid: its UID; None to take the first one seen for the one that is meant.

    Raises:
        InvalidArgument: a name or a UID that cannot be one.
    """

    def __init__(self, namespace: str, job: str, uid: str | None) -> None:
        super().__init__(namespace, job, "go away", uid=_check_uid(uid))

    def verdict(self) -> Verdict:
        """Judge by whether the Job of that UID is there; say what holds it."""
        if self.job.missing_verdict() is not None:
            return Met()
        metadata = (self.job.current or {})["metadata"]
        if not metadata.get("deletionTimestamp"):
            return Pending(f"still there, {self._undeleted()}")
        holders = [self._holder(str(each)) for each in metadata.get("finalizers") or ()]
        return Pending(f"being deleted{', held by ' if holders else ''}{' and '.join(holders)}")

    def _undeleted(self) -> str:
        after = self.job.spec.get("ttlSecondsAfterFinished")
        if after is None:
            return "nobody is deleting it"
        ended = find_end(self.job, "Complete", "Failed")
        return f"to be deleted {after}s after its end{'' if ended else ', which has not come'}"

    def _holder(self, finalizer: str) -> str:
        # The garbage collector takes it off once the pods are gone that block their owner.
        if finalizer != "foregroundDeletion":
            return finalizer
        count = len(self.pods)
        pods = f"{count} {'pod' if count == 1 else 'pods'}: {self.pods.summary()}"
        return f"{finalizer} ({pods})" if count else finalizer

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        return ObjectState(_describe_pod(pod))

    def result(self) -> None:
        """Return nothing: there is none."""


class AbsentJobPods(JobCondition):
    """No pod of a Job is left, whether the Job itself is there or not.

    The pods are found by the Job's name, which its controller puts on them as a label, so that
    those of a Job that is gone are found too; by the Job's own selector where that was made by
    hand. Pods of another Job of the same name do not count.

    Args:
        namespace: where the Job is, or was.
        job: its name.
        uid: its UID; None to take the first one seen for the one that is meant.

    Raises:
        InvalidArgument: a name or a UID that cannot be one.
    """

    def __init__(self, namespace: str, job: str, uid: str | None) -> None:
        super().__init__(namespace, job, "lose its last pod", uid=_check_uid(uid))
        self._select(f"{_NAME_LABEL}={job}")

    def _select(self, selector: str) -> None:
        self._selector = selector
        self.pods = ObjectCounter(self._pod_state)
        self._sources = (
            self._job_source,
            Source(PODS, self.namespace, self.pods, selector=selector, fields=PodFields),
        )

    def sources(self) -> Sequence[Source]:
        """Return the Job and its pods."""
        current = self.job.current
        if current is not None and self.job.spec.get("manualSelector"):
            selector = pod_selector(current)
            if selector != self._selector:
                self._select(selector)
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by how many pods of the Job are there."""
        left = len(self.pods)
        if self.job.uid:
            left = self.pods.count(self.job.uid) + self.pods.count("")
        if not left:
            return Met()
        others = len(self.pods) - left
        more = f" ({others} of them of another job of that name)" if others else ""
        text = f"{left} {'pod' if left == 1 else 'pods'} still there: {self.pods.summary()}{more}"
        note = self._note()
        return Pending(f"{text}; {note}" if note else text)

    def _note(self) -> str:
        if self.job.missing_verdict() is not None or self.job.ending() is not None:
            return ""
        if find_end(self.job, "Complete", "Failed") is not None:
            return "those of a job that is over stay until it is deleted"
        return "" if self.job.spec.get("suspend") else "the job is at work, and makes pods"

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        return ObjectState(_describe_pod(pod), (controller_uid(pod),))

    def seen(self) -> str:
        """Sum up the pods."""
        return self.pods.summary() or "no pods"

    def result(self) -> None:
        """Return nothing: there are none."""


def _describe_pod(pod: dict[str, Any]) -> str:
    if not is_terminating(pod):
        return phase_label(pod)
    holders = ", ".join(pod["metadata"].get("finalizers") or ())
    return f"being deleted{', held by ' if holders else ''}{holders}"


def _check_uid(uid: str | None) -> str:
    return "" if uid is None else check_text_argument("uid", uid)


def job_gone(namespace: str, job: str, uid: str | None = None) -> AbsentJob:
    """Return the condition of `wait_for_job_gone`."""
    return AbsentJob(namespace, job, uid)


def wait_for_job_gone(
    client: ApiClient,
    namespace: str,
    job: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> None:
    """Return None once a Job is gone, at once if there is none of that name.

    Another Job of the same name does not count: it has another UID. While the Job is there the
    verdict names what holds it: its finalizers, and the pods that a deletion in the foreground
    waits for. Upstream's wait never succeeds: the answer that the Job is not found ends it as an
    error.

    Args:
        client: the official client.
        namespace: where the Job is.
        job: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForJobGone.
    """
    _wait_for_removal(client, job_gone(namespace, job, uid), options)


def all_job_pods_gone(namespace: str, job: str, uid: str | None = None) -> AbsentJobPods:
    """Return the condition of `wait_for_all_job_pods_gone`."""
    return AbsentJobPods(namespace, job, uid)


def wait_for_all_job_pods_gone(
    client: ApiClient,
    namespace: str,
    job: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> None:
    """Return None once no pod of a Job is left, in whatever phase; at once if it has none.

    The Job itself may be there (suspended, or not started) or be gone. Pods of another Job of the
    same name do not count where the UID is known, by argument or because the Job was seen.

    Args:
        client: the official client.
        namespace: where the Job is, or was.
        job: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `job`, 15 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: job/wait.go WaitForAllJobPodsGone, whose label only the framework's jobs have.
    """
    _wait_for_removal(client, all_job_pods_gone(namespace, job, uid), options)


def _wait_for_removal(client: ApiClient, condition: Condition, options: WaitOptions) -> None:
    settings = resolve_options(options, timeout="job")
    wait_for_condition(Session.of(client), condition, settings)
