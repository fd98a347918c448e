"""The state of one sync of a Job: the Job, its pods and their counts.

Source: kube-controller-manager, job/job_controller.go (`syncJobCtx`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.job import indexed_jobs, policies
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.pod_control import PodControl
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = [
    "FINALIZER",
    "KIND",
    "SYNC_BATCH_PERIOD",
    "JobControllerContext",
    "JobOutcome",
    "SyncJobContext",
    "is_finished",
    "remove_finalizer",
    "set_count",
]

# Seconds for which pod events are batched.
SYNC_BATCH_PERIOD = 1.0
FINALIZER = "batch.kubernetes.io/job-tracking"
KIND = ("batch/v1", "Job")


def is_finished(job: Obj) -> bool:
    """Return whether the Job is Complete or Failed."""
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def remove_finalizer(api: Cluster, pod: Obj) -> None:
    """Remove the finalizer of a pod; a deleted pod is fine."""

    def remove(changed: Obj) -> None:
        metadata = changed["metadata"]
        left = [one for one in metadata.get("finalizers") or () if one != FINALIZER]
        if left:
            metadata["finalizers"] = left
        else:
            metadata.pop("finalizers", None)

    try:
        api.modify("pods", name_of(pod), namespace_of(pod), remove)
    except StatusError as error:
        if error.reason != "NotFound":
            raise


class JobControllerContext:
    """The parts that every sync of a Job needs, and the back-off records.

    Args:
        recorder: writes events of Jobs.
        control: creates and deletes pods.
    """

    def __init__(self, api: Cluster, recorder: EventRecorder, control: PodControl) -> None:
        self.api = api
        self.recorder = recorder
        self.control = control
        self._ends: dict[str, float] = {}

    def note_end(self, pod: Obj, gone: bool) -> None:
        """Record the time when a pod finished, as its own timestamps have whole seconds."""
        uid = uid_of(pod)
        if gone:
            self._ends.pop(uid, None)
        elif uid not in self._ends:
            statuses = (pod.get("status") or {}).get("containerStatuses") or ()
            if statuses and all((one.get("state") or {}).get("terminated") for one in statuses):
                self._ends[uid] = self.api.clock.time()

    def ended(self, pod: Obj) -> float:
        """Return when the pod ended, in seconds since the epoch."""
        return self._ends.get(uid_of(pod)) or policies.get_finish_time(pod)


def set_count(status: Obj, name: str, value: int) -> None:
    """Set a count in a status; zeros are omitted, as in the API."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)


@dataclass(slots=True)
class JobOutcome:
    """The end of a Job; `kind` is the interim condition's type until that is written."""

    kind: str
    reason: str
    message: str


@dataclass(slots=True)
class SyncJobContext:
    """The state of one sync of `job`, a private copy.

    Args:
        context: the cluster and its recorders.
        job: the Job; its status is updated with each write.
        pods: the pods it owns.
        retries: failures counted before; `next_retries` has those of this sync.
    """

    context: JobControllerContext
    job: Obj
    pods: list[Obj]
    retries: policies.BackoffRecord
    look_again: list[float] = field(default_factory=list)
    ending: JobOutcome | None = None
    active: list[Obj] = field(default_factory=list)
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    before: set[int] = field(default_factory=set)
    succeeded_indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] | None = None
    delayed: dict[int, Obj] = field(default_factory=dict)
    next_retries: policies.BackoffRecord = field(default_factory=policies.BackoffRecord)

    @property
    def spec(self) -> Obj:
        """The Job's spec."""
        spec: Obj = self.job["spec"]
        return spec

    @property
    def status(self) -> Obj:
        """The Job's status; changes are written by `write`."""
        status: Obj = self.job.setdefault("status", {})
        return status

    @property
    def indexed(self) -> bool:
        """True for an Indexed Job."""
        return self.spec.get("completionMode") == "Indexed"

    @property
    def completions(self) -> int:
        """The requested completions; 0 if unset."""
        completions: int = self.spec.get("completions") or 0
        return completions

    @property
    def per_index(self) -> bool:
        """True if failures are limited per index."""
        return self.spec.get("backoffLimitPerIndex") is not None

    def uncounted(self, kind: str) -> list[str]:
        """Return the UIDs of pods recorded as `succeeded` or `failed` and not counted yet."""
        uids: list[str] = (self.status.get("uncountedTerminatedPods") or {}).get(kind) or []
        return uids

    def tracked(self, pod: Obj) -> bool:
        """Return whether the pod has the finalizer that keeps it until it is counted."""
        return FINALIZER in (pod["metadata"].get("finalizers") or ())

    def countable(self, pod: Obj) -> bool:
        """Return whether the pod can count: tracked, with a valid index if needed."""
        if not self.tracked(pod):
            return False
        return not self.indexed or indexed_jobs.get_valid_index(pod, self.completions) is not None

    def count_ended(self) -> None:
        """Count succeeded and failed pods, including those not yet in the status."""
        uncounted_ok, uncounted_bad = (
            set(self.uncounted("succeeded")),
            set(self.uncounted("failed")),
        )
        succeeded = [
            pod
            for pod in self.pods
            if self.countable(pod)
            and uid_of(pod) not in uncounted_ok
            and (pod.get("status") or {}).get("phase") == "Succeeded"
        ]
        failed = [
            pod
            for pod in self.pods
            if self.countable(pod)
            and uid_of(pod) not in uncounted_bad
            and policies.is_failed(pod, self.job)
        ]
        policy = self.spec.get("podFailurePolicy")
        counted = [pod for pod in failed if policies.match_failure_policy(policy, pod).counts]
        self.succeeded = self.status.get("succeeded", 0) + len(succeeded) + len(uncounted_ok)
        self.failed = self.status.get("failed", 0) + len(counted) + len(uncounted_bad)
        self.next_retries = self.retries.counting(
            [self.context.ended(pod) for pod in succeeded],
            [self.context.ended(pod) for pod in failed],
        )

    def count_indexes(self) -> None:
        """Count the completed indexes, and derive the outcome."""
        if not self.indexed:
            return
        completions = self.completions
        self.before = indexed_jobs.parse_indexes(
            self.status.get("completedIndexes") or "", completions
        )
        self.succeeded_indexes = self.before | {
            index
            for pod in self.pods
            if self.tracked(pod)
            and (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := indexed_jobs.get_valid_index(pod, completions)) is not None
        }
        self.succeeded = len(self.succeeded_indexes)
        if self.per_index:
            self.count_failed_indexes()
        if self.ending is None:
            message = policies.match_success_policy(self.job, self.succeeded_indexes)
            if message:
                self.ending = JobOutcome("SuccessCriteriaMet", "SuccessPolicy", message)

    def count_failed_indexes(self) -> None:
        """Count the finally failed indexes, and collect those that wait for a replacement."""
        completions = self.completions
        failed = indexed_jobs.parse_indexes(self.status.get("failedIndexes") or "", completions)
        failed |= {
            index
            for pod in self.pods
            if self.tracked(pod)
            and (index := indexed_jobs.get_valid_index(pod, completions)) is not None
            and self.index_failed(pod)
        }
        self.failed_indexes = failed
        most = self.spec.get("maxFailedIndexes")
        if self.ending is None:
            if most is not None and len(failed) > most:
                message = "Job has exceeded the specified maximal number of failed indexes"
                self.ending = JobOutcome("FailureTarget", "MaxFailedIndexesExceeded", message)
            elif failed and len(failed) + len(self.succeeded_indexes) >= completions:
                self.ending = JobOutcome("FailureTarget", "FailedIndexes", "Job has failed indexes")
        alive = {indexed_jobs.get_completion_index(pod) for pod in self.active}
        for pod in self.pods:
            index = indexed_jobs.get_valid_index(pod, completions)
            if (
                index is None
                or not self.tracked(pod)
                or index in alive
                or index in failed
                or index in self.succeeded_indexes
                or not policies.is_failed(pod, self.job)
            ):
                continue
            last = self.delayed.get(index)
            if last is None or indexed_jobs.get_index_failure_count(
                last, ignored_too=True
            ) <= indexed_jobs.get_index_failure_count(pod, ignored_too=True):
                self.delayed[index] = pod

    def index_failed(self, pod: Obj) -> bool:
        """Return whether the pod's failure exhausts the limit of its index."""
        if not policies.is_failed(pod, self.job):
            return False
        failure = policies.match_failure_policy(self.spec.get("podFailurePolicy"), pod)
        if failure.action == "FailIndex":
            return True
        limit: int = self.spec["backoffLimitPerIndex"]
        return failure.counts and indexed_jobs.get_index_failure_count(pod) >= limit

    def record_event(self, severity: str, reason: str, message: str) -> None:
        """Record an event of the Job."""
        self.context.recorder.event(self.job, KIND, severity, reason, message)

    def set_condition(self, kind: str, value: str, reason: str, message: str) -> bool:
        """Set a condition; return whether it changed."""
        stamp = self.context.api.clock.stamp()
        new = {
            "type": kind, "status": value, "lastProbeTime": stamp, "lastTransitionTime": stamp,
            "reason": reason, "message": message,
        }  # fmt: skip
        conditions = self.status.setdefault("conditions", [])
        for position, one in enumerate(conditions):
            if one["type"] == kind:
                if all(one.get(name) == new[name] for name in ("status", "reason", "message")):
                    return False
                conditions[position] = new
                return True
        conditions.append(new)
        return True

    def write(self) -> None:
        """Write the status."""
        self.job = clone(self.context.api.update_status("jobs.batch", self.job))
        self.status.setdefault("uncountedTerminatedPods", {})
