"""Conditions on a Job: its pods, its ready count, its status conditions, user callables.

A Job that retries is pending; its own conditions report when it gives up. Its pods fail a wait
only once so many of them are stuck that the goal is out of reach. `JobOutcome` covers the
conditions that end a Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import (
    ObjectCounter,
    ObjectState,
    ObjectStateCache,
    TerminalState,
)
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, LazyPending, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.job.fields import (
    JobFields,
    find_end,
    find_halt,
    is_missing_pods_for_end,
    max_active_pods,
    pod_selector,
    required_completions,
    succeeded_count,
)
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.fields import PodFields, is_finished, is_terminating, phase_label
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.terminal_states.pods import detect_not_starting, detect_not_staying_up
from pytest_kwait.framework.workload.conditions import RefusedPods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "JobCondition",
    "JobOutcome",
    "JobPods",
    "JobReadiness",
    "JobStatusCondition",
    "UserJobCondition",
]

_ALIVE = "alive"
_OF_ANOTHER = ObjectState("of another owner")
_ENDS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


class JobCondition:
    """Base of the conditions on a Job and the pods of its own selector.

    Args:
        goal: the awaited state, as a verb phrase.
        phase: the phase of the pods in the result; empty if the result is the Job itself.
        uid: the Job's UID; empty for the first one seen.
    """

    runs_user_code = False
    pod_doom = staticmethod(detect_not_starting)
    """Returns the reason that a pod cannot reach the awaited state."""

    def __init__(self, namespace: str, job: str, goal: str, phase: str = "", uid: str = "") -> None:
        self.namespace = check_namespace(namespace)
        self.job = SingleObject(JOBS, check_name("job", job), uid)
        self.goal = goal
        self._phase = phase
        self._states = ObjectStateCache(self._judged)
        self.pods = ObjectCounter(self._pod_state)
        self._job_source = Source(JOBS, namespace, self.job, name=job, fields=JobFields)
        self._sources: tuple[Source, ...] = (self._job_source,)
        self._selected_for = ""
        self._selector: str | None = None
        self._refusals = RefusedPods(namespace, "")

    @property
    def subject(self) -> str:
        """The Job."""
        return f"job {self.namespace}/{self.job.name}"

    def sources(self) -> Sequence[Source]:
        """Return the Job, and its pods once its selector and UID are known."""
        current = self.job.current
        uid = current["metadata"].get("uid") or "" if current is not None else ""
        if current is not None and uid != self._selected_for:
            # The selector of a Job is immutable: its pods change only with the Job.
            self._selected_for = uid
            self.pods = ObjectCounter(self._pod_state)
            self._refusals = RefusedPods(self.namespace, uid)
            self._selector = pod_selector(current)
            self._sources = (
                self._job_source,
                Source(PODS, self.namespace, self.pods, selector=self._selector, fields=PodFields),
            )
        return self._sources

    def deferred_source(self) -> Source | None:
        """Return the Job's events while pods are missing that it could have created."""
        alive = self.pods.count(_ALIVE)
        # Checked after every change of a pod, so the cheap check of the counts comes first.
        if self.job.current is None or not self.has_missing_pods(alive):
            return None
        if find_end(self.job, *_ENDS) or find_halt(self.job):
            return None
        active = max_active_pods(self.job)
        return None if active is None or alive >= active else self._refusals.source

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if the creation of the last pod was refused."""
        return self._refusals.deferred_verdict()

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether the goal needs more pods than there are.

        Args:
            alive: the number of pods that have not ended.
        """
        return False

    def seen(self) -> str:
        """Return a summary of the Job's pods."""
        if self.job.current is None:
            return ""
        summary = self.pods.summary() or "no pods"
        return f"{summary}; {succeeded_count(self.job)} counted as succeeded by the job"

    def scope(self) -> EvidenceScope:
        """Return the Job and its pods."""
        return EvidenceScope(
            self.namespace,
            objects=(self.job.reference(),),
            pods=self._selector,
            suspects=self.pods.suspects(),
        )

    def result(self) -> Any:
        """Return the pods in the awaited phase, sorted by name, or the Job."""
        return self.pods.objects(PODS) if self._phase else self.job.object()

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        # A manual selector may match pods of an earlier Job.
        if controller_uid(pod) not in ("", self._selected_for):
            return _OF_ANOTHER
        self._refusals.made(pod)
        return self._states.get_state(pod, before, is_terminating(pod))

    def _judged(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        phase = get_phase(pod)
        alive = not is_finished(pod) and not is_terminating(pod)
        return ObjectState(
            phase_label(pod),
            (phase, _ALIVE) if alive else (phase,),
            keep=phase == self._phase,
            doom=self.pod_doom(pod, before) if alive else None,
        )

    def _doom(self, needed: int) -> Failed | None:
        """Return the verdict if that many pods are stuck; None while fewer are."""
        if needed < 1:
            return None
        stuck = self.pods.nth_terminal(needed)
        if stuck is None:
            return None
        entry, patience, since = stuck
        doom = entry.state.doom
        reason = doom.reason if doom is not None else ""
        others = self.pods.doomed - 1
        more = f" (and {others} more {'pod' if others == 1 else 'pods'})" if others else ""
        return Failed(f"pod {entry.name}{more}: {reason}", patience, since)


@dataclass(frozen=True, slots=True)
class _JobFacts:
    """Facts of a Job about its pods, computed once per change of the Job.

    Args:
        absent: the verdict if the Job does not exist.
        ended: the verdict if it has ended.
        failing: the verdict if it is about to fail.
        halted: the verdict if it starts no pods for now.
        slots: the number of pods active at once; None if it starts no more.
        completions: the number that must succeed; None if the first success ends it.
    """

    absent: Pending | Failed | None
    ended: Failed | None
    failing: Failed | None
    halted: Failed | None
    slots: int | None
    completions: int | None


def _facts(job: SingleObject) -> _JobFacts:
    return _JobFacts(
        absent=job.missing_verdict(),
        ended=find_end(job, "Failed", "Complete"),
        failing=find_end(job, "FailureTarget"),
        halted=find_halt(job),
        slots=max_active_pods(job),
        completions=required_completions(job),
    )


class JobPods(JobCondition):
    """An exact number of a Job's pods are in one phase.

    Args:
        expected_count: the number of pods.
        phase: `Running` or `Succeeded`.
    """

    def __init__(self, namespace: str, job: str, expected_count: int, phase: str) -> None:
        count = check_count("expected_count", expected_count)
        noun = "pod" if count == 1 else "pods"
        super().__init__(namespace, job, f"have {count} {noun} {phase}", phase)
        self.expected = count
        self._facts_of = -1
        self._known = _JobFacts(None, None, None, None, None, None)

    def verdict(self) -> Verdict:
        """Decide by the count, and by the counts that are still reachable."""
        facts = self._facts()
        if facts.absent is not None:
            return facts.absent
        count = self.pods.count(self._phase)
        if count == self.expected:
            return Met()
        return self._out_of_reach(facts, count) or LazyPending(self._progress)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether the count cannot be reached with the existing pods."""
        if self._phase == "Running":
            return alive < self.expected
        return self.pods.count(self._phase) + alive < self.expected

    def _facts(self) -> _JobFacts:
        # Pods change often and the Job rarely.
        if self._facts_of != self.job.changes:
            self._facts_of = self.job.changes
            self._known = _facts(self.job)
        return self._known

    def _progress(self) -> str:
        count = self.pods.count(self._phase)
        rest = self.pods.summary()
        noun = "pod" if self.expected == 1 else "pods"
        text = f"{count} of {self.expected} {noun} {self._phase}"
        if count > self.expected:
            noun = "pod" if count == 1 else "pods"
            text = f"{count} {noun} {self._phase}, {count - self.expected} more than awaited"
        return f"{text}{': ' if rest else ''}{rest}"

    def _out_of_reach(self, facts: _JobFacts, count: int) -> Failed | None:
        if facts.ended is not None:
            return self._after_the_end(facts.ended, count)
        if count > self.expected:
            if self._phase == "Running":
                return None
            noun = "pod" if count == 1 else "pods"
            return Failed(f"{count} {noun} {self._phase}, more than awaited", Patience.LONG)
        if facts.failing is not None:
            return self._after_the_end(facts.failing, count)
        if facts.halted is not None:
            return facts.halted
        reachable = self._reachable(facts, count)
        if reachable < self.expected:
            # A success is final; parallelism may still be raised.
            enough = (self.job.spec.get("parallelism") or 1) >= self.expected
            patience = Patience.SHORT if enough else Patience.LONG
            return Failed(self._too_few(reachable), patience)
        return self._doom(reachable - self.expected + 1)

    def _after_the_end(self, ended: Failed, count: int) -> Failed:
        """Return the verdict on a Job that has ended, or is about to."""
        noun = "pod" if count == 1 else "pods"
        reason = f"{ended.reason}, with {count} {noun} {self._phase}"
        # A pod that has not been seen to end yet may be about to reach the awaited phase.
        alive = self.pods.count(_ALIVE) > 0
        return Failed(reason, Patience.SHORT if alive else Patience.NONE)

    def _reachable(self, facts: _JobFacts, count: int) -> int:
        """Return the number of pods that can be in the phase at once if none is stuck."""
        active = facts.slots
        if self._phase == "Running":
            return active if active is not None else self.pods.count(_ALIVE)
        if facts.completions is not None:
            return facts.completions
        return active if active is not None else count + self.pods.count(_ALIVE)

    def _too_few(self, reachable: int) -> str:
        parallelism = self.job.spec.get("parallelism") or 1
        wanted = required_completions(self.job)
        wanted_text = "no" if wanted is None else f"{wanted}"
        noun = "pod" if reachable == 1 else "pods"
        return (
            f"the job comes to {reachable} {noun} {self._phase} at most (parallelism"
            f" {parallelism}, {wanted_text} completions, {succeeded_count(self.job)} succeeded)"
        )


class JobOutcome(JobCondition):
    """The end of a Job: any, success or failure.

    Args:
        outcomes: the awaited condition types: `Complete`, `Failed` or both.
        reason: the reason that the condition must have; None for any.
        succeeded_pods: the number of pods that must have succeeded; None for any number.
    """

    def __init__(
        self,
        namespace: str,
        job: str,
        outcomes: tuple[str, ...],
        reason: str | None = None,
        succeeded_pods: int | None = None,
    ) -> None:
        goal = "finish"
        if len(outcomes) == 1:
            goal = "become complete" if outcomes[0] == "Complete" else "fail"
        if reason is not None:
            given: object = reason
            if not isinstance(given, str) or not given:
                raise InvalidArgument("reason", given, "use the reason of a condition, or None")
            goal += f" with reason {reason}"
        if succeeded_pods is not None:
            check_count("completions", succeeded_pods)
            goal += f" {'with' if reason is None else 'and'} {succeeded_pods} pods succeeded"
        super().__init__(namespace, job, goal)
        self._outcomes = outcomes
        self._reason = reason
        self._succeeded = succeeded_pods

    def verdict(self) -> Verdict:
        """Decide by the Job's conditions, and by the outcomes its pods can still reach."""
        absent = self.job.missing_verdict()
        if absent is not None:
            return absent
        for kind in self._outcomes:
            condition = self.job.holds(kind)
            if condition is not None:
                return self._judge_end(condition)
        return self._doomed() or LazyPending(self._progress)

    def _judge_end(self, condition: dict[str, Any]) -> Verdict:
        reason = condition.get("reason") or ""
        if self._reason is not None and reason != self._reason:
            return Failed(f"the job is {condition['type'].lower()} with reason {reason!r}")
        count = succeeded_count(self.job)
        if self._succeeded is not None and count != self._succeeded:
            return Failed(f"the job is {condition['type'].lower()} with {count} pods succeeded")
        return Met()

    def _doomed(self) -> Failed | None:
        against: tuple[str, ...] = ()
        if self._outcomes == ("Complete",):
            against = ("Failed", "FailureTarget")
        elif self._outcomes == ("Failed",):
            against = ("Complete", "SuccessCriteriaMet")
        hindrance = find_end(self.job, *against) or find_halt(self.job)
        if hindrance is not None:
            return hindrance
        if self._outcomes == ("Complete",) and not self.job.spec.get("successPolicy"):
            # Success needs every slot: one stuck pod is enough to fail.
            return self._doom(1)
        if "Failed" in self._outcomes and self.job.spec.get("activeDeadlineSeconds"):
            return None
        active = max_active_pods(self.job)
        return self._doom(active if active is not None else self.pods.count(_ALIVE))

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether no pod is left to end the Job, or one is missing for success."""
        return is_missing_pods_for_end(self.job, alive, success=self._outcomes == ("Complete",))

    def _progress(self) -> str:
        wanted = required_completions(self.job)
        of = f" of {wanted}" if wanted is not None else ""
        text = f"{succeeded_count(self.job)}{of} succeeded"
        rest = self.pods.summary()
        return f"{text}{': ' if rest else ''}{rest}"


class JobReadiness(JobCondition):
    """An exact number of ready pods, as counted by the Job controller.

    Args:
        ready: the number of pods.
    """

    pod_doom = staticmethod(detect_not_staying_up)

    def __init__(self, namespace: str, job: str, ready: int) -> None:
        self._ready = check_count("ready", ready)
        noun = "pod" if ready == 1 else "pods"
        super().__init__(namespace, job, f"count {ready} ready {noun}")

    def verdict(self) -> Verdict:
        """Decide by the Job's own count, and by the counts that are still reachable."""
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
            # Parallelism may still be raised; a success is final.
            enough = (self.job.spec.get("parallelism") or 1) >= self._ready
            text = f"the job keeps {active} {'pod' if active == 1 else 'pods'} active at most"
            return Failed(text, Patience.SHORT if enough else Patience.LONG)
        return self._doom(active - self._ready + 1)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether there are fewer pods than must become ready."""
        return alive < self._ready

    def _progress(self, counted: object) -> str:
        rest = self.pods.summary()
        count = counted if isinstance(counted, int) else 0
        noun = "pod" if count == 1 else "pods"
        return f"{count} ready {noun} counted by the job{': ' if rest else ''}{rest}"


CONDITION_KINDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")
"""The types of conditions that Kubernetes sets on Jobs."""

_EXCLUDED_BY = {
    "FailureTarget": ("Failed", "Complete", "SuccessCriteriaMet"),
    "SuccessCriteriaMet": ("Failed", "Complete", "FailureTarget"),
    "Suspended": ("Failed", "Complete"),
}


class JobStatusCondition(JobCondition):
    """A condition of a Job is True; conditions that end the Job excluded.

    Args:
        kind: the condition's type.
        reason: the reason that the condition must have; None for any.
        goal: the awaited state, as a verb phrase.
    """

    def __init__(self, namespace: str, job: str, kind: str, reason: str | None, goal: str) -> None:
        super().__init__(namespace, job, goal)
        self._kind = kind
        self._reason = reason

    def verdict(self) -> Verdict:
        """Decide by the condition, and by conditions that exclude it."""
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
        """Return whether the existing pods cannot bring the condition about."""
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
    """A Job satisfies a callable of the user.

    Args:
        state: given the Job, returns a text that names the missing part, empty for none; or a bool
            or a verdict.
    """

    runs_user_code = True

    def __init__(self, namespace: str, job: str, state: Callable[[Any], Any]) -> None:
        given: object = state
        if not callable(given):
            raise InvalidArgument("state", given, "use a callable that is given the Job")
        self._test = _StatePredicate(state)
        super().__init__(namespace, job, self._test.goal)

    def sources(self) -> Sequence[Source]:
        """Return the Job alone: the verdict depends on nothing else."""
        return self._sources

    def verdict(self) -> Verdict:
        """Return the callable's verdict on the Job."""
        absent = self.job.missing_verdict()
        return self._test.judge(self.job.object()) if absent is None else absent

    def seen(self) -> str:
        """Return the Job's progress by its own counts."""
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
    """Adapter of a callable that may return the missing part as a text, as upstream's do."""

    def judge(self, subject: Any) -> Verdict:
        """Return the callable's answer; its exceptions propagate.

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
