"""One look at one Job: count what ended, decide, make and remove pods, write the status.

Source: kube-controller-manager, job_controller.go, `syncJob`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import get_condition, is_being_deleted
from pytest_kwait.simulator.controllers.job import policies
from pytest_kwait.simulator.controllers.job.accounting import FinalizerTracking
from pytest_kwait.simulator.controllers.job.pod_changes import JobPods
from pytest_kwait.simulator.controllers.job.sync_context import (
    JobOutcome,
    SyncJobContext,
    set_count,
)
from pytest_kwait.simulator.controllers.pod_control import is_active, is_ready, is_terminating
from pytest_kwait.simulator.event_recorder import NORMAL

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import StatusError

__all__ = ["JobSync"]


@dataclass(slots=True)
class JobSync:
    """Decides what becomes of the Job that `view` shows."""

    view: SyncJobContext
    changes: JobPods = field(init=False)

    def __post_init__(self) -> None:
        self.changes = JobPods(self.view)

    def run(self) -> None:
        """Look, decide, act, write."""
        status = self.view.status
        status.setdefault("uncountedTerminatedPods", {})
        self.view.active = [pod for pod in self.view.pods if is_active(pod)]
        self.view.ready = sum(is_ready(pod) for pod in self.view.active)
        self.view.terminating = sum(is_terminating(pod) for pod in self.view.pods)
        self.view.count_ended()
        flush = False
        if "startTime" not in status and not self.view.spec.get("suspend"):
            status["startTime"] = self.view.context.api.clock.stamp()
            flush = True
        self.view.ending = self._decided() or self._failure()
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
                self.view.ending = JobOutcome("SuccessCriteriaMet", "CompletionsReached", message)
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

    def _decided(self) -> JobOutcome | None:
        """Return what an earlier look decided and has not finished yet."""
        met = get_condition(self.view.job, "SuccessCriteriaMet")
        if met is not None and met["status"] == "True":
            return JobOutcome("SuccessCriteriaMet", met["reason"], met["message"])
        target = get_condition(self.view.job, "FailureTarget")
        if target is not None and target["status"] == "True":
            return JobOutcome("Failed", target["reason"], target["message"])
        message = policies.find_failed_job_message(self.view.job, self.view.pods)
        return JobOutcome("FailureTarget", "PodFailurePolicy", message) if message else None

    def _failure(self) -> JobOutcome | None:
        limit = self.view.spec.get("backoffLimit", 6)
        if self.view.failed > limit or policies.has_exceeded_restart_limit(
            self.view.job, self.view.pods
        ):
            message = "Job has reached the specified backoff limit"
            return JobOutcome("FailureTarget", "BackoffLimitExceeded", message)
        left = policies.seconds_until_deadline(self.view.job, self.view.context.api.clock.time())
        if left is not None and left <= 0:
            message = "Job was active longer than specified deadline"
            return JobOutcome("FailureTarget", "DeadlineExceeded", message)
        if left is not None:
            self.view.look_again.append(left)
        return None

    def _is_complete(self, active: int) -> bool:
        completions = self.view.spec.get("completions")
        if completions is None:
            return self.view.succeeded > 0 and active == 0
        return self.view.succeeded >= completions and active == 0

    def _note_suspension(self) -> bool:
        """Keep the Suspended condition; True where it changed."""
        status = self.view.status
        if self.view.spec.get("suspend"):
            if not self.view.set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                return False
            status.pop("startTime", None)
            self.view.tell(NORMAL, "Suspended", "Job suspended")
            return True
        if get_condition(self.view.job, "Suspended") is None:
            return False
        if not self.view.set_condition("Suspended", "False", "JobResumed", "Job resumed"):
            return False
        # The deadline counts from the last resumption.
        status["startTime"] = self.view.context.api.clock.stamp()
        self.view.tell(NORMAL, "Resumed", "Job resumed")
        return True
