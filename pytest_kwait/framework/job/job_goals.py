"""What a Job itself can be awaited to say: so many ready pods, a condition, whatever a test asks.

The conditions by which a Job ends are `JobOutcome`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.job.conditions import JobCondition
from pytest_kwait.framework.job.fields import (
    find_end,
    find_halt,
    is_missing_pods_for_end,
    max_active_pods,
    pod_selector,
    required_completions,
)
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.terminal_states.pods import detect_not_staying_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.engine.condition import EvidenceScope, Source

__all__ = ["JobReadiness", "JobStatusCondition", "UserJobCondition"]


class JobReadiness(JobCondition):
    """A number of ready pods, as the Job's controller has counted them.

    Args:
        namespace: where the Job is.
        job: its name.
        ready: how many.

    Raises:
        InvalidArgument: a name or a count that cannot be one.
    """

    pod_doom = staticmethod(detect_not_staying_up)

    def __init__(self, namespace: str, job: str, ready: int) -> None:
        self._ready = check_count("ready", ready)
        noun = "pod" if ready == 1 else "pods"
        super().__init__(namespace, job, f"count {ready} ready {noun}")

    def verdict(self) -> Verdict:
        """Judge by the Job's own count, and by how far it can still get."""
        absent = self.job.missing_verdict()
        if absent is not None:
            return absent
        counted = self.job.status.get("ready")
        if counted == self._ready:
            return Met()
        return self._out_of_reach() or Pending(self._progress(counted))

    def _out_of_reach(self) -> Failed | None:
        ended = find_end(self.job, "Failed", "Complete")
        if ended is not None:
            return Failed(ended.reason, Patience.SHORT)
        if not self._ready:
            return None
        hindrance = find_end(self.job, "FailureTarget", "SuccessCriteriaMet")
        if hindrance is not None:
            return Failed(hindrance.reason, Patience.SHORT)
        if (stopped := find_halt(self.job)) is not None:
            return stopped
        active = max_active_pods(self.job)
        if active is None:
            return None
        if active < self._ready:
            # More parallelism may yet be given; a success is never taken back.
            enough = (self.job.spec.get("parallelism") or 1) >= self._ready
            text = f"the job keeps {active} {'pod' if active == 1 else 'pods'} active at most"
            return Failed(text, Patience.SHORT if enough else Patience.LONG)
        return self._doom(active - self._ready + 1)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether there are fewer pods than are to be ready."""
        return alive < self._ready

    def _progress(self, counted: object) -> str:
        rest = self.pods.summary()
        count = counted if isinstance(counted, int) else 0
        noun = "pod" if count == 1 else "pods"
        return f"{count} ready {noun} counted by the job{': ' if rest else ''}{rest}"


CONDITION_KINDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")
"""The types of conditions that Kubernetes gives to Jobs."""

_EXCLUDED_BY = {
    "FailureTarget": ("Failed", "Complete", "SuccessCriteriaMet"),
    "SuccessCriteriaMet": ("Failed", "Complete", "FailureTarget"),
    "Suspended": ("Failed", "Complete"),
}


class JobStatusCondition(JobCondition):
    """A condition of a Job that is True, but for those by which it ends.

    Args:
        namespace: where the Job is.
        job: its name.
        kind: the condition's type.
        reason: the reason that the condition must have; None for any.
        goal: what is awaited, as a verb.
    """

    def __init__(self, namespace: str, job: str, kind: str, reason: str | None, goal: str) -> None:
        super().__init__(namespace, job, goal)
        self._kind = kind
        self._reason = reason

    def verdict(self) -> Verdict:
        """Judge by the condition, and by those that exclude it."""
        absent = self.job.missing_verdict()
        if absent is not None:
            return absent
        held = self.job.holds(self._kind)
        if held is not None and self._reason in (None, held.get("reason") or ""):
            return Met()
        hindrance = find_end(self.job, *_EXCLUDED_BY.get(self._kind, ())) or self._doomed()
        if hindrance is not None:
            return hindrance
        if held is not None:
            return Pending(f"{self._kind} is True with reason {held.get('reason') or ''!r}")
        return Pending(self._progress())

    def _doomed(self) -> Failed | None:
        if self._kind == "Suspended":
            return self.job.ending()
        if self._kind not in CONDITION_KINDS:
            return None
        if (stopped := find_halt(self.job)) is not None:
            return stopped
        spec, active = self.job.spec, max_active_pods(self.job)
        if self._kind == "SuccessCriteriaMet" and not spec.get("successPolicy"):
            return self._doom(1)
        if self._kind == "FailureTarget" and spec.get("activeDeadlineSeconds"):
            return None
        return None if active is None else self._doom(active)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether the pods that there are cannot bring the condition about."""
        if self._kind == "Suspended" or self._kind not in CONDITION_KINDS:
            return False
        return is_missing_pods_for_end(self.job, alive, success=self._kind == "SuccessCriteriaMet")

    def _progress(self) -> str:
        condition = self.job.condition(self._kind)
        text = f"no condition {self._kind} yet"
        if condition is not None:
            text = f"{self._kind} is {condition.get('status')}"
        if self._kind == "Suspended" and not self.job.spec.get("suspend"):
            text += ", nobody has asked to suspend the job"
        rest = self.pods.summary()
        return f"{text}{': ' if rest else ''}{rest}"


class UserJobCondition(JobCondition):
    """A Job that satisfies code of the user.

    Args:
        namespace: where the Job is.
        job: its name.
        state: given the Job, returns what is missing or an empty text; or a bool or a verdict.

    Raises:
        InvalidArgument: a name or a callable that cannot be one.
    """

    runs_user_code = True

    def __init__(self, namespace: str, job: str, state: Callable[[Any], Any]) -> None:
        given: object = state
        if not callable(given):
            raise InvalidArgument("state", given, "use a callable that is given the Job")
        self._test = _StatePredicate(state)
        super().__init__(namespace, job, self._test.goal)

    def sources(self) -> Sequence[Source]:
        """Return the Job alone: the verdict is about nothing else."""
        return self._sources

    def verdict(self) -> Verdict:
        """Return what the user's code says of the Job."""
        absent = self.job.missing_verdict()
        return self._test.judge(self.job.object()) if absent is None else absent

    def seen(self) -> str:
        """Say how far the Job is by its own count."""
        if self.job.current is None:
            return ""
        wanted = required_completions(self.job)
        of = f" of {wanted}" if wanted is not None else ""
        status = self.job.status
        counts = (f"{status.get(name) or 0} {name}" for name in ("ready", "succeeded"))
        return f"{', '.join(counts)}{of}"

    def scope(self) -> EvidenceScope:
        """Return the Job and its pods."""
        current = self.job.current
        self._selector = None if current is None else pod_selector(current)
        return super().scope()


class _StatePredicate(UserPredicate):
    """A test that may say in a text what is missing, as upstream's do."""

    def judge(self, subject: Any) -> Verdict:
        """Return what the callable says; what it raises comes through.

        Raises:
            InvalidArgument: it returned neither a text, nor a bool, nor a verdict.
        """
        answer: object = self.call(subject)
        if isinstance(answer, str):
            return Pending(answer) if answer else Met()
        if isinstance(answer, Met | Pending | Failed):
            return answer
        if not isinstance(answer, bool):
            valid = "use a text (empty if nothing is missing), True, False, Met, Pending or Failed"
            raise InvalidArgument(f"what {self.name} returned", answer, valid)
        return Met() if answer else Pending(f"{self.name} says False")
