"""The Job controller.

In reading order: the state of one sync, finalizer tracking, creation and deletion of pods, one sync
of a Job, the controller. The order of writes matters. Finished pods are recorded in the status
before their finalizer is removed, and counted afterwards, so that none is lost or counted twice.

Source: kube-controller-manager, job/job_controller.go (`syncJobCtx`, `syncJob`,
`trackJobStatusAndRemoveFinalizers`, `manageJob`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.simulator.api_errors import StatusError, ignore_not_found
from pytest_kwait.simulator.controllers.job import policies
from pytest_kwait.simulator.controllers.job.policies import BackoffRecord
from pytest_kwait.simulator.controllers.pod_control import (
    PodControl,
    SlowStartError,
    is_active,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    make_pod_from_template,
    rank_for_deletion,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

# Seconds for which pod events are batched.
SYNC_BATCH_PERIOD = 1.0
# Seconds between failed syncs. Source: ditto, `DefaultJobApiBackOff`, `MaxJobApiBackOff`.
_BASE_DELAY = 1.0
_MAX_DELAY = 60.0
FINALIZER = "batch.kubernetes.io/job-tracking"
KIND = ("batch/v1", "Job")

_MAX_UNCOUNTED_PODS = 500

# Upstream creates up to 500 concurrently; here one by one, with requests served between.
_MAX_PODS_PER_SYNC = 100

_CONTROLLER = "kubernetes.io/job-controller"


def is_finished(job: Obj) -> bool:
    """Return whether the Job is Complete or Failed."""
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def remove_finalizer(cluster: Cluster, pod: Obj) -> None:
    """Remove the finalizer of a pod; a deleted pod is fine."""

    def remove(changed: Obj) -> None:
        metadata = changed["metadata"]
        finalizers = [
            finalizer for finalizer in metadata.get("finalizers") or () if finalizer != FINALIZER
        ]
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)

    with ignore_not_found():
        cluster.modify("pods", name_of(pod), namespace_of(pod), remove)


class JobControllerContext:
    """The parts that every sync of a Job needs, and the back-off records.

    Args:
        recorder: writes events of Jobs.
        control: creates and deletes pods.
    """

    def __init__(self, cluster: Cluster, recorder: EventRecorder, control: PodControl) -> None:
        self.cluster = cluster
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
            if statuses and all(
                (status.get("state") or {}).get("terminated") for status in statuses
            ):
                self._ends[uid] = self.cluster.clock.time()

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
class FinishedCondition:
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
    requeue_delays: list[float] = field(default_factory=list)
    ending: FinishedCondition | None = None
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
        return not self.indexed or policies.get_valid_index(pod, self.completions) is not None

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
        self.before = policies.parse_indexes(self.status.get("completedIndexes") or "", completions)
        self.succeeded_indexes = self.before | {
            index
            for pod in self.pods
            if self.tracked(pod)
            and (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := policies.get_valid_index(pod, completions)) is not None
        }
        self.succeeded = len(self.succeeded_indexes)
        if self.per_index:
            self.count_failed_indexes()
        if self.ending is None:
            message = policies.match_success_policy(self.job, self.succeeded_indexes)
            if message:
                self.ending = FinishedCondition("SuccessCriteriaMet", "SuccessPolicy", message)

    def count_failed_indexes(self) -> None:
        """Count the finally failed indexes, and collect those that wait for a replacement."""
        completions = self.completions
        failed = policies.parse_indexes(self.status.get("failedIndexes") or "", completions)
        failed |= {
            index
            for pod in self.pods
            if self.tracked(pod)
            and (index := policies.get_valid_index(pod, completions)) is not None
            and self.index_failed(pod)
        }
        self.failed_indexes = failed
        most = self.spec.get("maxFailedIndexes")
        if self.ending is None:
            if most is not None and len(failed) > most:
                message = "Job has exceeded the specified maximal number of failed indexes"
                self.ending = FinishedCondition(
                    "FailureTarget", "MaxFailedIndexesExceeded", message
                )
            elif failed and len(failed) + len(self.succeeded_indexes) >= completions:
                self.ending = FinishedCondition(
                    "FailureTarget", "FailedIndexes", "Job has failed indexes"
                )
        alive = {policies.get_completion_index(pod) for pod in self.active}
        for pod in self.pods:
            index = policies.get_valid_index(pod, completions)
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
            if last is None or policies.get_index_failure_count(
                last, include_ignored=True
            ) <= policies.get_index_failure_count(pod, include_ignored=True):
                self.delayed[index] = pod

    def index_failed(self, pod: Obj) -> bool:
        """Return whether the pod's failure exhausts the limit of its index."""
        if not policies.is_failed(pod, self.job):
            return False
        failure = policies.match_failure_policy(self.spec.get("podFailurePolicy"), pod)
        if failure.action == "FailIndex":
            return True
        limit: int = self.spec["backoffLimitPerIndex"]
        return failure.counts and policies.get_index_failure_count(pod) >= limit

    def record_event(self, severity: str, reason: str, message: str) -> None:
        """Record an event of the Job."""
        self.context.recorder.event(self.job, KIND, severity, reason, message)

    def set_condition(self, kind: str, value: str, reason: str, message: str) -> bool:
        """Set a condition; return whether it changed."""
        stamp = self.context.cluster.clock.stamp()
        new = {
            "type": kind, "status": value, "lastProbeTime": stamp, "lastTransitionTime": stamp,
            "reason": reason, "message": message,
        }  # fmt: skip
        conditions = self.status.setdefault("conditions", [])
        for position, condition in enumerate(conditions):
            if condition["type"] == kind:
                if all(
                    condition.get(name) == new[name] for name in ("status", "reason", "message")
                ):
                    return False
                conditions[position] = new
                return True
        conditions.append(new)
        return True

    def write(self) -> None:
        """Write the status."""
        self.job = clone(self.context.cluster.update_status("jobs.batch", self.job))
        self.status.setdefault("uncountedTerminatedPods", {})


@dataclass(slots=True)
class FinalizerTracking:
    """Counts finished pods and removes their finalizers during one sync."""

    view: SyncJobContext

    def track(self, flush: bool) -> None:
        """Record finished pods, write, remove their finalizers, count them, and write again.

        Source: `trackJobStatusAndRemoveFinalizers`, `flushUncountedAndRemoveFinalizers`.
        """
        tracked = {uid_of(pod) for pod in self.view.pods if self.view.tracked(pod)}
        flush = self._count_released(tracked) or flush
        release, noted, full = self._note_ended()
        flush = flush or noted
        if self.view.indexed:
            flush = self._write_counted_indexes(release) or flush
        ending = self.view.ending
        if ending is not None and ending.kind in ("FailureTarget", "SuccessCriteriaMet"):
            flush = (
                self.view.set_condition(ending.kind, "True", ending.reason, ending.message) or flush
            )
            ending.kind = "Failed" if ending.kind == "FailureTarget" else "Complete"
        if flush:
            self.view.write()
            self.view.retries = self.view.next_retries
        for pod in release:
            remove_finalizer(self.view.context.cluster, pod)
            tracked.discard(uid_of(pod))
        flush = self._count_released(tracked)
        finished = not full and ending is not None and self._finish(ending)
        if flush or finished:
            self.view.write()
        if finished and ending is not None:
            if ending.kind == "Complete":
                self.view.record_event(NORMAL, "Completed", "Job completed")
            else:
                self.view.record_event(WARNING, ending.reason, ending.message)

    def _count_released(self, tracked: set[str]) -> bool:
        """Count the recorded pods without a finalizer; return whether there were any."""
        status, changed = self.view.status, False
        for kind in ("succeeded", "failed"):
            uids = self.view.uncounted(kind)
            tracked_uids = [uid for uid in uids if uid in tracked]
            if len(tracked_uids) != len(uids):
                changed = True
                set_count(status, kind, status.get(kind, 0) + len(uids) - len(tracked_uids))
                if tracked_uids:
                    status["uncountedTerminatedPods"][kind] = tracked_uids
                else:
                    del status["uncountedTerminatedPods"][kind]
        return changed

    def _note_ended(self) -> tuple[list[Obj], bool, bool]:
        """Return the pods to release, whether the status changed, and whether it is full."""
        release: list[Obj] = []
        noted = False
        for pod in (
            sorted(self.view.pods, key=lambda pod: policies.get_completion_index(pod) or 0)
            if self.view.indexed
            else self.view.pods
        ):
            if not self.view.tracked(pod):
                continue
            failed = policies.is_failed(pod, self.view.job)
            if not self._may_release(pod, failed):
                continue
            release.append(pod)
            noted = self._note(pod, failed) or noted
            if (
                len(self.view.uncounted("succeeded")) + len(self.view.uncounted("failed"))
                >= _MAX_UNCOUNTED_PODS
            ):
                return release, noted, True
        return release, noted, False

    def _may_release(self, pod: Obj, failed: bool) -> bool:
        if is_being_deleted(self.view.job) or self.view.ending is not None:
            return True
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            return True
        if not failed:
            return False
        index = policies.get_completion_index(pod)
        delayed = (
            self.view.delayed.get(index) if self.view.per_index and index is not None else None
        )
        return delayed is None or uid_of(delayed) != uid_of(pod)

    def _note(self, pod: Obj, failed: bool) -> bool:
        uid, uncounted = uid_of(pod), self.view.status["uncountedTerminatedPods"]
        valid = (
            not self.view.indexed
            or policies.get_valid_index(pod, self.view.completions) is not None
        )
        if (pod.get("status") or {}).get("phase") == "Succeeded" and uid not in self.view.uncounted(
            "failed"
        ):
            if self.view.indexed or uid in self.view.uncounted("succeeded"):
                return False
            uncounted.setdefault("succeeded", []).append(uid)
            return True
        given_up = self.view.ending is not None and self.view.ending.kind not in (
            "SuccessCriteriaMet",
            "Complete",
        )
        if not (failed or given_up) or uid in self.view.uncounted("failed") or not valid:
            return False
        if not policies.match_failure_policy(self.view.spec.get("podFailurePolicy"), pod).counts:
            return False
        uncounted.setdefault("failed", []).append(uid)
        return True

    def _write_counted_indexes(self, release: list[Obj]) -> bool:
        status = self.view.status
        counted = self.view.before | {
            index
            for pod in release
            if (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := policies.get_valid_index(pod, self.view.completions)) is not None
        }
        text = policies.format_indexes(counted)
        changed = bool(text != status.get("completedIndexes", ""))
        if text:
            status["completedIndexes"] = text
        set_count(status, "succeeded", len(counted))
        if self.view.failed_indexes is not None:
            failed = policies.format_indexes(self.view.failed_indexes)
            changed = changed or bool(failed != status.get("failedIndexes"))
            status["failedIndexes"] = failed
        return changed

    def _finish(self, ending: FinishedCondition) -> bool:
        """Set the final condition once all pods are counted and terminated."""
        if (
            self.view.uncounted("succeeded")
            or self.view.uncounted("failed")
            or self.view.terminating > 0
        ):
            return False
        self.view.set_condition(ending.kind, "True", ending.reason, ending.message)
        if ending.kind == "Complete":
            self.view.status["completionTime"] = self.view.context.cluster.clock.stamp()
        return True


@dataclass(slots=True)
class JobPodSync:
    """Creates and deletes the pods of a Job during one sync.

    Source: kube-controller-manager, job_controller.go, `manageJob`.
    """

    view: SyncJobContext

    def remove_active(self) -> None:
        """Delete active pods; the finalizers stay until they are counted."""
        for pod in self.view.active:
            self.view.context.control.delete(pod, self.view.job)
            self.view.ready -= is_ready(pod)
            self.view.terminating += 1

    def _remove(self, pods: list[Obj]) -> int:
        """Delete surplus pods, which do not count."""
        for pod in pods:
            remove_finalizer(self.view.context.cluster, pod)
            self.view.context.control.delete(pod, self.view.job)
            self.view.ready -= is_ready(pod)
            self.view.terminating += 1
        return len(pods)

    def manage(self) -> tuple[int, StatusError | None]:
        """Create and delete pods; return the number of active ones and the first error."""
        spec, active = self.view.spec, len(self.view.active)
        if spec.get("suspend"):
            return active - self._remove(self._removable(active)), None
        parallelism = spec.get("parallelism", 1)
        if spec.get("completions") is None:
            target_count = active if self.view.succeeded > 0 else parallelism
        else:
            target_count = max(0, min(parallelism, spec["completions"] - self.view.succeeded))
        removable = self._removable(max(0, active - target_count))[:_MAX_PODS_PER_SYNC]
        if removable:
            return active - self._remove(removable), None
        terminating = (
            self.view.terminating if policies.has_failed_replacement_policy(self.view.job) else 0
        )
        missing = min(target_count - terminating - active, _MAX_PODS_PER_SYNC)
        if missing <= 0:
            return active, None
        if not self.view.per_index:
            wait = self._wait_for(self.view.next_retries.failures, self.view.next_retries.last)
            if wait > 0:
                self.view.requeue_delays.append(wait)
                return 0, None
        if not self.view.indexed:
            return self._create([None] * missing, active)
        chosen, wait = self._next_indexes(missing)
        if wait > 0:
            self.view.requeue_delays.append(wait)
            return 0, None
        return self._create(list(chosen), active)

    def _removable(self, least: int) -> list[Obj]:
        remove: list[Obj] = []
        keep = self.view.active
        if self.view.indexed:
            remove, keep = policies.split_duplicates(self.view.active, self.view.completions)
        if len(remove) < least:
            remove = remove + rank_for_deletion(keep, {})[: least - len(remove)]
        return remove

    def _wait_for(self, failures: int, last: float) -> float:
        """Return the real seconds until the next try, at least the batch period if any."""
        clock = self.view.context.cluster.clock
        remaining_seconds = (
            last + policies.calculate_backoff(failures) * clock.scale - clock.time()
            if failures
            else 0.0
        )
        return (
            max(remaining_seconds, SYNC_BATCH_PERIOD * clock.scale)
            if remaining_seconds > 0
            else 0.0
        )

    def _next_indexes(self, count: int) -> tuple[list[int], float]:
        taken = set(self.view.succeeded_indexes) | (self.view.failed_indexes or set())
        taken |= {
            index
            for pod in self.view.active
            if (index := policies.get_completion_index(pod)) is not None
        }
        if policies.has_failed_replacement_policy(self.view.job):
            going = [pod for pod in self.view.pods if is_terminating(pod)]
            taken |= {
                index for pod in going if (index := policies.get_completion_index(pod)) is not None
            }
        chosen = policies.first_pending_indexes(count, self.view.completions, taken)
        if not self.view.per_index:
            return chosen, 0.0
        waits: dict[int, float] = {}
        for index in chosen:
            last = self.view.delayed.get(index)
            if last is not None:
                failures = policies.get_index_failure_count(last, include_ignored=True) + 1
                waits[index] = self._wait_for(failures, self.view.context.ended(last))
        due = [index for index in chosen if waits.get(index, 0.0) <= 0]
        return (due, 0.0) if due else ([], min(waits.values(), default=0.0))

    def _create(self, chosen: list[int | None], active: int) -> tuple[int, StatusError | None]:
        template = self.view.spec["template"]
        plain = make_pod_from_template(template, self.view.job, *KIND)
        finalizers = plain["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

        def create(number: int) -> None:
            index = chosen[number]
            pod = clone(plain)
            if index is not None:
                self._place_index(pod, index)
            self.view.context.control.create(pod, self.view.job)

        try:
            return active + slow_start_batch(len(chosen), 1, create), None
        except SlowStartError as error:
            refusal = None if is_namespace_terminating(error.cause) else error.cause
            return active + error.done, refusal

    def _place_index(self, pod: Obj, index: int) -> None:
        metadata, spec, name = pod["metadata"], pod["spec"], name_of(self.view.job)
        metadata["generateName"] = f"{name[: 63 - 7 - len(str(index))]}-{index}-"
        metadata.setdefault("annotations", {})[policies.INDEX] = str(index)
        metadata.setdefault("labels", {})[policies.INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{policies.INDEX}']"}}
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            variables = container.setdefault("env", [])
            if all(variable["name"] != "JOB_COMPLETION_INDEX" for variable in variables):
                variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": clone(source)})
        if self.view.per_index:
            last = self.view.delayed.get(index)
            counted, ignored = 0, 0
            if last is not None:
                counted = policies.get_index_failure_count(last)
                ignored = policies.get_index_failure_count(last, include_ignored=True) - counted
                counts = policies.match_failure_policy(
                    self.view.spec.get("podFailurePolicy"), last
                ).counts
                counted, ignored = counted + counts, ignored + (not counts)
            metadata["annotations"][policies.FAILURE_COUNT] = str(counted)
            if ignored:
                metadata["annotations"][policies.IGNORED_FAILURE_COUNT] = str(ignored)


@dataclass(slots=True)
class JobSync:
    """One sync of a Job."""

    view: SyncJobContext
    changes: JobPodSync = field(init=False)

    def __post_init__(self) -> None:
        self.changes = JobPodSync(self.view)

    def run(self) -> None:
        """Sync the Job and update its status."""
        status = self.view.status
        status.setdefault("uncountedTerminatedPods", {})
        self.view.active = [pod for pod in self.view.pods if is_active(pod)]
        self.view.ready = sum(is_ready(pod) for pod in self.view.active)
        self.view.terminating = sum(is_terminating(pod) for pod in self.view.pods)
        self.view.count_ended()
        flush = False
        if "startTime" not in status and not self.view.spec.get("suspend"):
            status["startTime"] = self.view.context.cluster.clock.stamp()
            flush = True
        self.view.ending = self._get_interim_outcome() or self._failure()
        self.view.count_indexes()
        active = len(self.view.active)
        refusal: StatusError | None = None
        if self.view.ending is not None:
            self.changes.remove_active()
            active = 0
        else:
            managed = not is_being_deleted(self.view.job)
            if managed:
                active, refusal = self.changes.manage()
            if self._is_complete(active):
                message = "Reached expected number of succeeded pods"
                self.view.ending = FinishedCondition(
                    "SuccessCriteriaMet", "CompletionsReached", message
                )
            elif managed:
                flush = self._note_suspension() or flush
        flush = flush or active != status.get("active", 0)
        flush = (
            flush
            or self.view.ready != status.get("ready")
            or self.view.terminating != status.get("terminating")
        )
        set_count(status, "active", active)
        status["ready"] = self.view.ready
        status["terminating"] = self.view.terminating
        FinalizerTracking(self.view).track(flush)
        if refusal is not None:
            raise refusal

    def _get_interim_outcome(self) -> FinishedCondition | None:
        """Return the outcome that an earlier sync decided but has not finished."""
        met = get_condition(self.view.job, "SuccessCriteriaMet")
        if met is not None and met["status"] == "True":
            return FinishedCondition("SuccessCriteriaMet", met["reason"], met["message"])
        target = get_condition(self.view.job, "FailureTarget")
        if target is not None and target["status"] == "True":
            return FinishedCondition("Failed", target["reason"], target["message"])
        message = policies.find_failed_job_message(self.view.job, self.view.pods)
        return FinishedCondition("FailureTarget", "PodFailurePolicy", message) if message else None

    def _failure(self) -> FinishedCondition | None:
        limit = self.view.spec.get("backoffLimit", 6)
        if self.view.failed > limit or policies.has_exceeded_restart_limit(
            self.view.job, self.view.pods
        ):
            message = "Job has reached the specified backoff limit"
            return FinishedCondition("FailureTarget", "BackoffLimitExceeded", message)
        remaining_seconds = policies.seconds_until_deadline(
            self.view.job, self.view.context.cluster.clock.time()
        )
        if remaining_seconds is not None and remaining_seconds <= 0:
            message = "Job was active longer than specified deadline"
            return FinishedCondition("FailureTarget", "DeadlineExceeded", message)
        if remaining_seconds is not None:
            self.view.requeue_delays.append(remaining_seconds)
        return None

    def _is_complete(self, active: int) -> bool:
        completions = self.view.spec.get("completions")
        if completions is None:
            return self.view.succeeded > 0 and active == 0
        return self.view.succeeded >= completions and active == 0

    def _note_suspension(self) -> bool:
        """Update the Suspended condition; return whether it changed."""
        status = self.view.status
        if self.view.spec.get("suspend"):
            if not self.view.set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                return False
            status.pop("startTime", None)
            self.view.record_event(NORMAL, "Suspended", "Job suspended")
            return True
        if get_condition(self.view.job, "Suspended") is None:
            return False
        if not self.view.set_condition("Suspended", "False", "JobResumed", "Job resumed"):
            return False
        # The deadline counts from the last resumption.
        status["startTime"] = self.view.context.cluster.clock.stamp()
        self.view.record_event(NORMAL, "Resumed", "Job resumed")
        return True


class JobController:
    """Runs Jobs.

    Pod events are batched for a second before a Job is synced; changes of its spec are not.
    """

    def __init__(self, cluster: Cluster, pods: ControllerRefManager) -> None:
        self._cluster = cluster
        self._pods = pods
        recorder = EventRecorder(cluster, "job-controller")
        self._context = JobControllerContext(
            cluster, recorder, PodControl(cluster, recorder, *KIND)
        )
        self._queue: Workqueue[str] = Workqueue(
            cluster,
            self._sync,
            "job-controller",
            base_delay=_BASE_DELAY,
            max_delay=_MAX_DELAY,
        )
        self._orphans: Workqueue[str] = Workqueue(
            cluster,
            self._release,
            "job-controller orphans",
            base_delay=_BASE_DELAY,
            max_delay=_MAX_DELAY,
        )
        self._by_uid: dict[str, str] = {}
        self._retries: dict[str, BackoffRecord] = {}
        cluster.subscribe("jobs.batch", self._changed)
        pods.listen(self._pod_changed)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, uid = key_of(new), uid_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid, None)
            self._retries.pop(uid, None)
            self._queue.forget(key)
            # Pods of a deleted Job must not be kept for counting.
            for pod in self._pods.of(uid):
                self._orphans.add(key_of(pod))
            return
        if new["spec"].get("managedBy") not in (None, _CONTROLLER):
            return
        self._by_uid[uid] = key
        if old is not None and old["metadata"].get("generation") == new["metadata"].get(
            "generation"
        ):
            self._queue.add_after(key, SYNC_BATCH_PERIOD)
        else:
            self._queue.add(key)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        known = False
        for uid in dict.fromkeys((owner_uid, previous_uid)):
            if uid is not None and uid in self._by_uid:
                known = True
                self._context.note_end(pod, owner_uid is None)
                self._queue.add_after(self._by_uid[uid], SYNC_BATCH_PERIOD)
        tracked = FINALIZER in (pod["metadata"].get("finalizers") or ())
        if tracked and (owner_uid is None or not known):
            self._orphans.add(key_of(pod))

    def _release(self, key: str) -> None:
        """Remove the finalizer of a pod whose Job is deleted or finished."""
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if pod is None or FINALIZER not in (pod["metadata"].get("finalizers") or ()):
            return
        owner = owner_of(pod)
        if owner is not None:
            if (owner["apiVersion"], owner["kind"]) != KIND:
                return
            job = self._cluster.find("jobs.batch", owner["name"], namespace)
            if job is not None and uid_of(job) == owner["uid"] and not is_finished(job):
                return
        remove_finalizer(self._cluster, pod)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        job = self._cluster.find("jobs.batch", name, namespace)
        if job is None:
            return
        uid = uid_of(job)
        if is_finished(job):
            self._retries.pop(uid, None)
            for pod in self._pods.of(uid):
                if FINALIZER in (pod["metadata"].get("finalizers") or ()):
                    self._orphans.add(key_of(pod))
            return
        pods = self._pods.claim(job, *KIND, job["spec"]["selector"])
        view = SyncJobContext(
            self._context, clone(job), pods, self._retries.get(uid, BackoffRecord())
        )
        JobSync(view).run()
        self._retries[uid] = view.retries
        now = self._cluster.clock.time()
        for delay in view.requeue_delays:
            self._queue.add_at(f"{namespace_of(job)}/{name_of(job)}", now + delay)
