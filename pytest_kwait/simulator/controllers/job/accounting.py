"""Counting a Job's pods in its status without losing one or counting one twice.

The order of writes is the point: pods that ended are noted in the status before the finalizer that
keeps them is removed, and counted after.

Source: kube-controller-manager, job_controller.go, `trackJobStatusAndRemoveFinalizers`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.job import indexed_jobs, policies
from pytest_kwait.simulator.controllers.job.sync_context import (
    JobOutcome,
    SyncJobContext,
    remove_finalizer,
    set_count,
)
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import Obj, uid_of

__all__ = ["FinalizerTracking"]

_MAX_UNCOUNTED_PODS = 500


@dataclass(slots=True)
class FinalizerTracking:
    """What a look writes."""

    view: SyncJobContext

    def track(self, flush: bool) -> None:
        """Note who ended, write, let them go, count them, write again.

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
            remove_finalizer(self.view.context.api, pod)
            tracked.discard(uid_of(pod))
        flush = self._count_released(tracked)
        finished = not full and ending is not None and self._finish(ending)
        if flush or finished:
            self.view.write()
        if finished and ending is not None:
            if ending.kind == "Complete":
                self.view.tell(NORMAL, "Completed", "Job completed")
            else:
                self.view.tell(WARNING, ending.reason, ending.message)

    def _count_released(self, tracked: set[str]) -> bool:
        """Count the noted pods that no finalizer keeps any more; True where there were some."""
        status, changed = self.view.status, False
        for kind in ("succeeded", "failed"):
            uids = self.view.uncounted(kind)
            left = [uid for uid in uids if uid in tracked]
            if len(left) != len(uids):
                changed = True
                set_count(status, kind, status.get(kind, 0) + len(uids) - len(left))
                if left:
                    status["uncountedTerminatedPods"][kind] = left
                else:
                    del status["uncountedTerminatedPods"][kind]
        return changed

    def _note_ended(self) -> tuple[list[Obj], bool, bool]:
        """Return the pods to let go, whether the status changed, and whether it is full."""
        release: list[Obj] = []
        noted = False
        for pod in (
            sorted(self.view.pods, key=lambda one: indexed_jobs.get_completion_index(one) or 0)
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
        index = indexed_jobs.get_completion_index(pod)
        delayed = (
            self.view.delayed.get(index) if self.view.per_index and index is not None else None
        )
        return delayed is None or uid_of(delayed) != uid_of(pod)

    def _note(self, pod: Obj, failed: bool) -> bool:
        uid, uncounted = uid_of(pod), self.view.status["uncountedTerminatedPods"]
        valid = (
            not self.view.indexed
            or indexed_jobs.get_valid_index(pod, self.view.completions) is not None
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
            and (index := indexed_jobs.get_valid_index(pod, self.view.completions)) is not None
        }
        text = indexed_jobs.format_indexes(counted)
        changed = bool(text != status.get("completedIndexes", ""))
        if text:
            status["completedIndexes"] = text
        set_count(status, "succeeded", len(counted))
        if self.view.failed_indexes is not None:
            failed = indexed_jobs.format_indexes(self.view.failed_indexes)
            changed = changed or bool(failed != status.get("failedIndexes"))
            status["failedIndexes"] = failed
        return changed

    def _finish(self, ending: JobOutcome) -> bool:
        """Set the last condition, unless pods are still to be counted or going."""
        if (
            self.view.uncounted("succeeded")
            or self.view.uncounted("failed")
            or self.view.terminating > 0
        ):
            return False
        self.view.set_condition(ending.kind, "True", ending.reason, ending.message)
        if ending.kind == "Complete":
            self.view.status["completionTime"] = self.view.context.api.clock.stamp()
        return True
