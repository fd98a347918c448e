"""One look at one Job: count what ended, decide, make and remove pods, write the status.

The order of writes is the point: pods that ended are noted in the status before the finalizer that
keeps them is removed, and counted after, so that none is lost or counted twice.

Source: kube-controller-manager, job_controller.go, `syncJob` and what it calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.events import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.controllers.jobs import indexes, rules
from pytest_kwait.simulator.controllers.pods import (
    PodControl,
    SlowStartError,
    condition_of,
    is_active,
    is_being_deleted,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    pod_from_template,
    rank_for_removal,
    slow_start,
)
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of
from pytest_kwait.simulator.status_error import StatusError

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["BATCH_PERIOD", "FINALIZER", "Context", "JobTracking", "is_finished", "remove_finalizer"]

# Seconds that pod events are gathered.
BATCH_PERIOD = 1.0
FINALIZER = "batch.kubernetes.io/job-tracking"

_KIND = ("batch/v1", "Job")
_MOST_UNCOUNTED = 500
_MOST_PODS_PER_LOOK = 500


def is_finished(job: Obj) -> bool:
    """Whether the Job is Complete or Failed."""
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def remove_finalizer(api: ClusterApi, pod: Obj) -> None:
    """Let the pod go; one that is gone already is fine."""

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


class Context:
    """What every look at a Job needs, and when pods ended.

    Args:
        api: the cluster.
        recorder: tells what happened to Jobs.
        control: makes and removes pods.
    """

    def __init__(self, api: ClusterApi, recorder: EventRecorder, control: PodControl) -> None:
        self.api = api
        self.recorder = recorder
        self.control = control
        self._ends: dict[str, float] = {}

    def note_end(self, pod: Obj, gone: bool) -> None:
        """Remember when a pod was first seen ended: its own stamps are cut to seconds."""
        uid = uid_of(pod)
        if gone:
            self._ends.pop(uid, None)
        elif uid not in self._ends:
            statuses = (pod.get("status") or {}).get("containerStatuses") or ()
            if statuses and all((one.get("state") or {}).get("terminated") for one in statuses):
                self._ends[uid] = self.api.clock.time()

    def ended(self, pod: Obj) -> float:
        """When the pod ended, in seconds since the epoch."""
        return self._ends.get(uid_of(pod)) or rules.finished_at(pod)


def _count(status: Obj, name: str, value: int) -> None:
    """Zero counts are left out, as the API does."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)


@dataclass(slots=True)
class _Ending:
    """The condition that a look comes to; `kind` is the interim one until it is written."""

    kind: str
    reason: str
    message: str


@dataclass(slots=True)
class JobTracking:
    """One look at `job`, a private copy.

    Args:
        context: the cluster and its recorders.
        job: the Job; its status follows what was written.
        pods: the pods it owns.
        retries: failures counted so far; the look's result is in the same place.
    """

    context: Context
    job: Obj
    pods: list[Obj]
    retries: rules.Retries
    look_again: list[float] = field(default_factory=list)
    _ending: _Ending | None = None
    _active: list[Obj] = field(default_factory=list)
    _ready: int = 0
    _terminating: int = 0
    _succeeded: int = 0
    _failed: int = 0
    _before: set[int] = field(default_factory=set)
    _indexes: set[int] = field(default_factory=set)
    _failed_indexes: set[int] | None = None
    _delayed: dict[int, Obj] = field(default_factory=dict)
    _next_retries: rules.Retries = field(default_factory=rules.Retries)

    # -- facts

    @property
    def _spec(self) -> Obj:
        spec: Obj = self.job["spec"]
        return spec

    @property
    def _status(self) -> Obj:
        status: Obj = self.job.setdefault("status", {})
        return status

    @property
    def _indexed(self) -> bool:
        return self._spec.get("completionMode") == "Indexed"

    @property
    def _completions(self) -> int:
        completions: int = self._spec.get("completions") or 0
        return completions

    @property
    def _per_index(self) -> bool:
        return self._spec.get("backoffLimitPerIndex") is not None

    def _uncounted(self, kind: str) -> list[str]:
        uids: list[str] = (self._status.get("uncountedTerminatedPods") or {}).get(kind) or []
        return uids

    def _tracked(self, pod: Obj) -> bool:
        return FINALIZER in (pod["metadata"].get("finalizers") or ())

    def _countable(self, pod: Obj) -> bool:
        if not self._tracked(pod):
            return False
        return not self._indexed or indexes.valid_index(pod, self._completions) is not None

    # -- the look

    def run(self) -> None:
        """Look, decide, act, write."""
        status = self._status
        status.setdefault("uncountedTerminatedPods", {})
        self._active = [pod for pod in self.pods if is_active(pod)]
        self._ready = sum(is_ready(pod) for pod in self._active)
        self._terminating = sum(is_terminating(pod) for pod in self.pods)
        self._count_ended()
        flush = False
        if "startTime" not in status and not self._spec.get("suspend"):
            status["startTime"] = self.context.api.clock.stamp()
            flush = True
        self._ending = self._decided() or self._failure()
        self._count_indexes()
        active = len(self._active)
        refusal: StatusError | None = None
        if self._ending is not None:
            self._remove_active()
            active = 0
        else:
            managed = not is_being_deleted(self.job)
            if managed:
                active, refusal = self._manage()
            if self._is_complete(active):
                message = "Reached expected number of succeeded pods"
                self._ending = _Ending("SuccessCriteriaMet", "CompletionsReached", message)
            elif managed:
                flush = self._note_suspension() or flush
        flush = flush or active != status.get("active", 0)
        flush = (
            flush
            or self._ready != status.get("ready")
            or self._terminating != status.get("terminating")
        )
        _count(status, "active", active)
        status["ready"] = self._ready
        status["terminating"] = self._terminating
        self._track(flush)
        if refusal is not None:
            raise refusal

    def _count_ended(self) -> None:
        uncounted_ok, uncounted_bad = (
            set(self._uncounted("succeeded")),
            set(self._uncounted("failed")),
        )
        succeeded = [
            pod
            for pod in self.pods
            if self._countable(pod)
            and uid_of(pod) not in uncounted_ok
            and (pod.get("status") or {}).get("phase") == "Succeeded"
        ]
        failed = [
            pod
            for pod in self.pods
            if self._countable(pod)
            and uid_of(pod) not in uncounted_bad
            and rules.is_failed(pod, self.job)
        ]
        policy = self._spec.get("podFailurePolicy")
        counted = [pod for pod in failed if rules.match_failure(policy, pod).counts]
        self._succeeded = self._status.get("succeeded", 0) + len(succeeded) + len(uncounted_ok)
        self._failed = self._status.get("failed", 0) + len(counted) + len(uncounted_bad)
        self._next_retries = self.retries.counting(
            [self.context.ended(pod) for pod in succeeded],
            [self.context.ended(pod) for pod in failed],
        )

    def _decided(self) -> _Ending | None:
        """What an earlier look decided and has not finished yet."""
        met = condition_of(self.job, "SuccessCriteriaMet")
        if met is not None and met["status"] == "True":
            return _Ending("SuccessCriteriaMet", met["reason"], met["message"])
        target = condition_of(self.job, "FailureTarget")
        if target is not None and target["status"] == "True":
            return _Ending("Failed", target["reason"], target["message"])
        message = rules.failed_job_message(self.job, self.pods)
        return _Ending("FailureTarget", "PodFailurePolicy", message) if message else None

    def _failure(self) -> _Ending | None:
        limit = self._spec.get("backoffLimit", 6)
        if self._failed > limit or rules.past_restart_limit(self.job, self.pods):
            message = "Job has reached the specified backoff limit"
            return _Ending("FailureTarget", "BackoffLimitExceeded", message)
        left = rules.past_deadline(self.job, self.context.api.clock.time())
        if left is not None and left <= 0:
            message = "Job was active longer than specified deadline"
            return _Ending("FailureTarget", "DeadlineExceeded", message)
        if left is not None:
            self.look_again.append(left)
        return None

    def _count_indexes(self) -> None:
        if not self._indexed:
            return
        completions = self._completions
        self._before = indexes.read_indexes(self._status.get("completedIndexes") or "", completions)
        self._indexes = self._before | {
            index
            for pod in self.pods
            if self._tracked(pod)
            and (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := indexes.valid_index(pod, completions)) is not None
        }
        self._succeeded = len(self._indexes)
        if self._per_index:
            self._count_failed_indexes()
        if self._ending is None:
            message = rules.met_success_policy(self.job, self._indexes)
            if message:
                self._ending = _Ending("SuccessCriteriaMet", "SuccessPolicy", message)

    def _count_failed_indexes(self) -> None:
        completions = self._completions
        failed = indexes.read_indexes(self._status.get("failedIndexes") or "", completions)
        failed |= {
            index
            for pod in self.pods
            if self._tracked(pod)
            and (index := indexes.valid_index(pod, completions)) is not None
            and self._index_failed(pod)
        }
        self._failed_indexes = failed
        most = self._spec.get("maxFailedIndexes")
        if self._ending is None:
            if most is not None and len(failed) > most:
                message = "Job has exceeded the specified maximal number of failed indexes"
                self._ending = _Ending("FailureTarget", "MaxFailedIndexesExceeded", message)
            elif failed and len(failed) + len(self._indexes) >= completions:
                self._ending = _Ending("FailureTarget", "FailedIndexes", "Job has failed indexes")
        alive = {indexes.index_of(pod) for pod in self._active}
        for pod in self.pods:
            index = indexes.valid_index(pod, completions)
            if (
                index is None
                or not self._tracked(pod)
                or index in alive
                or index in failed
                or index in self._indexes
                or not rules.is_failed(pod, self.job)
            ):
                continue
            last = self._delayed.get(index)
            if last is None or indexes.failure_count(
                last, ignored_too=True
            ) <= indexes.failure_count(pod, ignored_too=True):
                self._delayed[index] = pod

    def _index_failed(self, pod: Obj) -> bool:
        if not rules.is_failed(pod, self.job):
            return False
        failure = rules.match_failure(self._spec.get("podFailurePolicy"), pod)
        if failure.action == "FailIndex":
            return True
        limit: int = self._spec["backoffLimitPerIndex"]
        return failure.counts and indexes.failure_count(pod) >= limit

    def _is_complete(self, active: int) -> bool:
        completions = self._spec.get("completions")
        if completions is None:
            return self._succeeded > 0 and active == 0
        return self._succeeded >= completions and active == 0

    def _note_suspension(self) -> bool:
        """The Suspended condition; True where it changed."""
        status = self._status
        if self._spec.get("suspend"):
            if not self._set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                return False
            status.pop("startTime", None)
            self._tell(NORMAL, "Suspended", "Job suspended")
            return True
        if condition_of(self.job, "Suspended") is None:
            return False
        if not self._set_condition("Suspended", "False", "JobResumed", "Job resumed"):
            return False
        # The deadline counts from the last resumption.
        status["startTime"] = self.context.api.clock.stamp()
        self._tell(NORMAL, "Resumed", "Job resumed")
        return True

    def _tell(self, severity: str, reason: str, message: str) -> None:
        self.context.recorder.event(self.job, _KIND, severity, reason, message)

    def _set_condition(self, kind: str, value: str, reason: str, message: str) -> bool:
        stamp = self.context.api.clock.stamp()
        new = {
            "type": kind, "status": value, "lastProbeTime": stamp, "lastTransitionTime": stamp,
            "reason": reason, "message": message,
        }  # fmt: skip
        conditions = self._status.setdefault("conditions", [])
        for position, one in enumerate(conditions):
            if one["type"] == kind:
                if all(one.get(name) == new[name] for name in ("status", "reason", "message")):
                    return False
                conditions[position] = new
                return True
        conditions.append(new)
        return True

    # -- pods

    def _remove_active(self) -> None:
        """Delete what runs; the finalizers stay until it is counted."""
        for pod in self._active:
            self.context.control.delete(pod, self.job)
            self._ready -= is_ready(pod)
            self._terminating += 1

    def _remove(self, pods: list[Obj]) -> int:
        """Delete pods that are too many: they do not count."""
        for pod in pods:
            remove_finalizer(self.context.api, pod)
            self.context.control.delete(pod, self.job)
            self._ready -= is_ready(pod)
            self._terminating += 1
        return len(pods)

    def _manage(self) -> tuple[int, StatusError | None]:
        """Make and remove pods; how many are active then, and what was refused."""
        spec, active = self._spec, len(self._active)
        if spec.get("suspend"):
            return active - self._remove(self._removable(active)), None
        parallelism = spec.get("parallelism", 1)
        if spec.get("completions") is None:
            wanted = active if self._succeeded > 0 else parallelism
        else:
            wanted = max(0, min(parallelism, spec["completions"] - self._succeeded))
        removable = self._removable(max(0, active - wanted))[:_MOST_PODS_PER_LOOK]
        if removable:
            return active - self._remove(removable), None
        terminating = self._terminating if rules.replaces_only_failed(self.job) else 0
        missing = min(wanted - terminating - active, _MOST_PODS_PER_LOOK)
        if missing <= 0:
            return active, None
        if not self._per_index:
            wait = self._wait_for(self._next_retries.failures, self._next_retries.last)
            if wait > 0:
                self.look_again.append(wait)
                return 0, None
        if not self._indexed:
            return self._create([None] * missing, active)
        chosen, wait = self._next_indexes(missing)
        if wait > 0:
            self.look_again.append(wait)
            return 0, None
        return self._create(list(chosen), active)

    def _removable(self, least: int) -> list[Obj]:
        remove: list[Obj] = []
        keep = self._active
        if self._indexed:
            remove, keep = indexes.duplicated(self._active, self._completions)
        if len(remove) < least:
            remove = remove + rank_for_removal(keep, {})[: least - len(remove)]
        return remove

    def _wait_for(self, failures: int, last: float) -> float:
        """Real seconds until the next try may be made, at least the batch period if any."""
        clock = self.context.api.clock
        left = last + rules.retry_delay(failures) * clock.scale - clock.time() if failures else 0.0
        return max(left, BATCH_PERIOD * clock.scale) if left > 0 else 0.0

    def _next_indexes(self, count: int) -> tuple[list[int], float]:
        taken = set(self._indexes) | (self._failed_indexes or set())
        taken |= {index for pod in self._active if (index := indexes.index_of(pod)) is not None}
        if rules.replaces_only_failed(self.job):
            going = [pod for pod in self.pods if is_terminating(pod)]
            taken |= {index for pod in going if (index := indexes.index_of(pod)) is not None}
        chosen = indexes.pending(count, self._completions, taken)
        if not self._per_index:
            return chosen, 0.0
        waits: dict[int, float] = {}
        for index in chosen:
            last = self._delayed.get(index)
            if last is not None:
                failures = indexes.failure_count(last, ignored_too=True) + 1
                waits[index] = self._wait_for(failures, self.context.ended(last))
        due = [index for index in chosen if waits.get(index, 0.0) <= 0]
        return (due, 0.0) if due else ([], min(waits.values(), default=0.0))

    def _create(self, chosen: list[int | None], active: int) -> tuple[int, StatusError | None]:
        template = self._spec["template"]
        plain = pod_from_template(template, self.job, *_KIND)
        finalizers = plain["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

        def create(number: int) -> None:
            index = chosen[number]
            pod = clone(plain)
            if index is not None:
                self._place_index(pod, index)
            self.context.control.create(pod, self.job)

        try:
            return active + slow_start(len(chosen), 1, create), None
        except SlowStartError as error:
            refusal = None if is_namespace_terminating(error.cause) else error.cause
            return active + error.done, refusal

    def _place_index(self, pod: Obj, index: int) -> None:
        metadata, spec, name = pod["metadata"], pod["spec"], name_of(self.job)
        metadata["generateName"] = f"{name[: 63 - 7 - len(str(index))]}-{index}-"
        metadata.setdefault("annotations", {})[indexes.INDEX] = str(index)
        metadata.setdefault("labels", {})[indexes.INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{indexes.INDEX}']"}}
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            variables = container.setdefault("env", [])
            if all(one["name"] != "JOB_COMPLETION_INDEX" for one in variables):
                variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": clone(source)})
        if self._per_index:
            last = self._delayed.get(index)
            counted, ignored = 0, 0
            if last is not None:
                counted = indexes.failure_count(last)
                ignored = indexes.failure_count(last, ignored_too=True) - counted
                counts = rules.match_failure(self._spec.get("podFailurePolicy"), last).counts
                counted, ignored = counted + counts, ignored + (not counts)
            metadata["annotations"][indexes.FAILURE_COUNT] = str(counted)
            if ignored:
                metadata["annotations"][indexes.IGNORED_FAILURE_COUNT] = str(ignored)

    # -- status

    def _write(self) -> None:
        self.job = clone(self.context.api.update_status("jobs.batch", self.job))
        self._status.setdefault("uncountedTerminatedPods", {})

    def _track(self, flush: bool) -> None:
        """Note who ended, write, let them go, count them, write again.

        Source: `trackJobStatusAndRemoveFinalizers`, `flushUncountedAndRemoveFinalizers`.
        """
        tracked = {uid_of(pod) for pod in self.pods if self._tracked(pod)}
        flush = self._count_released(tracked) or flush
        release, noted, full = self._note_ended()
        flush = flush or noted
        if self._indexed:
            flush = self._write_counted_indexes(release) or flush
        ending = self._ending
        if ending is not None and ending.kind in ("FailureTarget", "SuccessCriteriaMet"):
            flush = self._set_condition(ending.kind, "True", ending.reason, ending.message) or flush
            ending.kind = "Failed" if ending.kind == "FailureTarget" else "Complete"
        if flush:
            self._write()
            self.retries = self._next_retries
        for pod in release:
            remove_finalizer(self.context.api, pod)
            tracked.discard(uid_of(pod))
        flush = self._count_released(tracked)
        finished = not full and ending is not None and self._finish(ending)
        if flush or finished:
            self._write()
        if finished and ending is not None:
            if ending.kind == "Complete":
                self._tell(NORMAL, "Completed", "Job completed")
            else:
                self._tell(WARNING, ending.reason, ending.message)

    def _count_released(self, tracked: set[str]) -> bool:
        """Count the noted pods that no finalizer keeps any more; True where there were some."""
        status, changed = self._status, False
        for kind in ("succeeded", "failed"):
            uids = self._uncounted(kind)
            left = [uid for uid in uids if uid in tracked]
            if len(left) != len(uids):
                changed = True
                _count(status, kind, status.get(kind, 0) + len(uids) - len(left))
                if left:
                    status["uncountedTerminatedPods"][kind] = left
                else:
                    del status["uncountedTerminatedPods"][kind]
        return changed

    def _note_ended(self) -> tuple[list[Obj], bool, bool]:
        """The pods to let go, whether the status changed, and whether it can take no more of them."""
        release: list[Obj] = []
        noted = False
        for pod in (
            sorted(self.pods, key=lambda one: indexes.index_of(one) or 0)
            if self._indexed
            else self.pods
        ):
            if not self._tracked(pod):
                continue
            failed = rules.is_failed(pod, self.job)
            if not self._may_release(pod, failed):
                continue
            release.append(pod)
            noted = self._note(pod, failed) or noted
            if (
                len(self._uncounted("succeeded")) + len(self._uncounted("failed"))
                >= _MOST_UNCOUNTED
            ):
                return release, noted, True
        return release, noted, False

    def _may_release(self, pod: Obj, failed: bool) -> bool:
        if is_being_deleted(self.job) or self._ending is not None:
            return True
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            return True
        if not failed:
            return False
        index = indexes.index_of(pod)
        delayed = self._delayed.get(index) if self._per_index and index is not None else None
        return delayed is None or uid_of(delayed) != uid_of(pod)

    def _note(self, pod: Obj, failed: bool) -> bool:
        uid, uncounted = uid_of(pod), self._status["uncountedTerminatedPods"]
        valid = not self._indexed or indexes.valid_index(pod, self._completions) is not None
        if (pod.get("status") or {}).get("phase") == "Succeeded" and uid not in self._uncounted(
            "failed"
        ):
            if self._indexed or uid in self._uncounted("succeeded"):
                return False
            uncounted.setdefault("succeeded", []).append(uid)
            return True
        given_up = self._ending is not None and self._ending.kind not in (
            "SuccessCriteriaMet",
            "Complete",
        )
        if not (failed or given_up) or uid in self._uncounted("failed") or not valid:
            return False
        if not rules.match_failure(self._spec.get("podFailurePolicy"), pod).counts:
            return False
        uncounted.setdefault("failed", []).append(uid)
        return True

    def _write_counted_indexes(self, release: list[Obj]) -> bool:
        status = self._status
        counted = self._before | {
            index
            for pod in release
            if (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := indexes.valid_index(pod, self._completions)) is not None
        }
        text = indexes.write_indexes(counted)
        changed = bool(text != status.get("completedIndexes", ""))
        if text:
            status["completedIndexes"] = text
        _count(status, "succeeded", len(counted))
        if self._failed_indexes is not None:
            failed = indexes.write_indexes(self._failed_indexes)
            changed = changed or bool(failed != status.get("failedIndexes"))
            status["failedIndexes"] = failed
        return changed

    def _finish(self, ending: _Ending) -> bool:
        """Set the last condition, unless pods are still to be counted or going."""
        if self._uncounted("succeeded") or self._uncounted("failed") or self._terminating > 0:
            return False
        self._set_condition(ending.kind, "True", ending.reason, ending.message)
        if ending.kind == "Complete":
            self._status["completionTime"] = self.context.api.clock.stamp()
        return True
