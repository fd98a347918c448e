"""Conditions on a Job: its pods, its ready count, its status conditions, user callables.

A Job that retries is pending; its own conditions report when it gives up. Its pods fail a wait
only once so many of them are stuck that the goal is out of reach. `JobOutcome` covers the
conditions that end a Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.conditions import StatusCondition, get_phase
from pytest_kwait.apimachinery.selectors import format_label_selector
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    LazyPending,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState, ObjectStateCache
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.pod_fields import PodFields, is_finished, is_terminating, phase_label
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition, controller_uid, count_noun
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.terminal_states.pods import detect_not_starting, detect_not_staying_up
from pytest_kwait.framework.workload.conditions import RefusedPods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.engine.object_sinks import SingleObject

CONDITION_KINDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")
"""The types of conditions that Kubernetes sets on Jobs."""

_ENDS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")

_END_TEXTS = {
    "Complete": "is complete",
    "Failed": "failed",
    "FailureTarget": "is about to fail",
    "SuccessCriteriaMet": "has met its success criteria",
}

_ALIVE = "alive"
_OF_ANOTHER = ObjectState("of another owner")

_EXCLUDED_BY = {
    "FailureTarget": ("Failed", "Complete", "SuccessCriteriaMet"),
    "SuccessCriteriaMet": ("Failed", "Complete", "FailureTarget"),
    "Suspended": ("Failed", "Complete"),
}


class _Requirement(TypedDict, total=False):
    key: str
    operator: str
    values: list[str] | None


class _LabelSelector(TypedDict, total=False):
    matchLabels: dict[str, str] | None
    matchExpressions: list[_Requirement] | None


class _JobSpec(TypedDict, total=False):
    parallelism: int | None
    completions: int | None
    suspend: bool | None
    selector: _LabelSelector | None
    activeDeadlineSeconds: int | None
    ttlSecondsAfterFinished: int | None
    manualSelector: bool | None
    successPolicy: dict[str, Any] | None


class _JobStatus(TypedDict, total=False):
    conditions: list[StatusCondition] | None
    succeeded: int | None
    ready: int | None


class JobFields(TypedDict, total=False):
    """The fields of a Job that waits read."""

    metadata: ObjectMeta
    spec: _JobSpec | None
    status: _JobStatus | None


def pod_selector(job: dict[str, Any]) -> str:
    """Return the text of the Job's own selector, which by default names its UID.

    Source: kubernetes/pkg/registry/batch/job/strategy.go, generateSelector.
    """
    selector = format_label_selector((job.get("spec") or {}).get("selector")) or None
    return selector or f"batch.kubernetes.io/controller-uid={job['metadata'].get('uid')}"


def succeeded_count(job: SingleObject) -> int:
    """Return the number of succeeded pods, as counted by the Job controller."""
    count = job.status.get("succeeded")
    return count if isinstance(count, int) else 0


def required_completions(job: SingleObject) -> int | None:
    """Return the number of pods that must succeed; None if the first success ends the Job."""
    count = job.spec.get("completions")
    return count if isinstance(count, int) else None


def max_active_pods(job: SingleObject) -> int | None:
    """Return the maximum number of pods that the Job controller keeps active.

    None if it starts no more: a Job without completions of which a pod has succeeded.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    parallelism = job.spec.get("parallelism")
    parallelism = parallelism if isinstance(parallelism, int) else 1
    completions = required_completions(job)
    if completions is not None:
        return max(0, min(parallelism, completions - succeeded_count(job)))
    return None if succeeded_count(job) else parallelism


def is_missing_pods_for_end(job: SingleObject, alive: int, *, success: bool) -> bool:
    """Return whether a Job cannot end with the existing pods.

    Any one of them may still fail it; success needs a pod for every completion. A Job with a
    deadline ends at that deadline, unless success is awaited.

    Args:
        alive: the number of its pods that have not ended.
        success: whether success is awaited.
    """
    if not success:
        return not alive and not job.spec.get("activeDeadlineSeconds")
    completions = required_completions(job)
    if completions is None or job.spec.get("successPolicy"):
        return not alive
    return succeeded_count(job) + alive < completions


def desired_active_pods(job: SingleObject) -> int | None:
    """Return the number of pods that a Job is to have active now; None if unknown."""
    if find_end(job, *_ENDS) or job.spec.get("suspend") or job.ending():
        return 0
    return max_active_pods(job)


def find_end(job: SingleObject, *kinds: str) -> Failed | None:
    """Return the verdict if one of these conditions ends the Job; else None.

    Args:
        *kinds: of `Complete`, `SuccessCriteriaMet`, `Failed` and `FailureTarget`.
    """
    for kind in kinds:
        condition = job.holds(kind)
        if condition is not None:
            return Failed(f"the job {_END_TEXTS[kind]}{_describe_condition(condition)}")
    return None


def find_halt(job: SingleObject) -> Failed | None:
    """Return the verdict if a Job starts no pods for now, or none any more; else None."""
    if job.spec.get("suspend"):
        return Failed("the job is suspended", Grace.LONG)
    return job.ending()


def _describe_condition(condition: dict[str, Any]) -> str:
    parts = (condition.get("reason"), condition.get("message"))
    text = ": ".join(" ".join(part.split()) for part in parts if part)
    return f": {text}" if text else ""


class JobCondition(ObjectCondition):
    """Base of the conditions on a Job and the pods of its own selector.

    Args:
        goal: the awaited state, as a verb phrase.
        phase: the phase of the pods in the result; empty if the result is the Job itself.
        uid: the Job's UID; empty for the first one seen.
    """

    namespace: str
    detect_pod_failure = staticmethod(detect_not_starting)
    """Returns the reason that a pod cannot reach the awaited state."""

    goal: str

    def __init__(self, namespace: str, job: str, goal: str, phase: str = "", uid: str = "") -> None:
        super().__init__(JOBS, namespace, check_name("job", job), JobFields, uid)
        self.goal = goal
        self._phase = phase
        self._states = ObjectStateCache(self._classify)
        self.pods = ObjectCounter(self._pod_state)
        self._selected_for = ""
        self._selector: str | None = None
        self._refusals = RefusedPods(namespace, "")

    def sources(self) -> Sequence[Source]:
        """Return the Job, and its pods once its selector and UID are known."""
        current = self.object.current
        uid = current["metadata"].get("uid") or "" if current is not None else ""
        if current is not None and uid != self._selected_for:
            # The selector of a Job is immutable: its pods change only with the Job.
            self._selected_for = uid
            self.pods = ObjectCounter(self._pod_state)
            self._refusals = RefusedPods(self.namespace, uid)
            self._selector = pod_selector(current)
            self._sources = (
                self._sources[0],
                Source(PODS, self.namespace, self.pods, selector=self._selector, fields=PodFields),
            )
        return self._sources

    def deferred_source(self) -> Source | None:
        """Return the Job's events while pods are missing that it could have created."""
        alive = self.pods.count(_ALIVE)
        # Checked after every change of a pod, so the cheap check of the counts comes first.
        if self.object.current is None or not self.has_missing_pods(alive):
            return None
        if find_end(self.object, *_ENDS) or find_halt(self.object):
            return None
        active = max_active_pods(self.object)
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

    def summarize(self) -> str:
        """Return a summary of the Job's pods."""
        if self.object.current is None:
            return ""
        summary = self.pods.summary() or "no pods"
        return f"{summary}; {succeeded_count(self.object)} counted as succeeded by the job"

    def scope(self) -> EvidenceScope:
        """Return the Job and its pods."""
        return EvidenceScope(
            self.namespace,
            objects=(self.object.reference(),),
            pods=self._selector,
            suspects=self.pods.suspects(),
        )

    def result(self) -> Any:
        """Return the pods in the awaited phase, sorted by name, or the Job."""
        return self.pods.objects(PODS) if self._phase else self.object.object()

    def _pod_state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        # A manual selector may match pods of an earlier Job.
        if controller_uid(pod) not in ("", self._selected_for):
            return _OF_ANOTHER
        self._refusals.made(pod)
        return self._states.get_state(pod, before, is_terminating(pod))

    def _classify(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        phase = get_phase(pod)
        alive = not is_finished(pod) and not is_terminating(pod)
        return ObjectState(
            phase_label(pod),
            (phase, _ALIVE) if alive else (phase,),
            keep=phase == self._phase,
            terminal_state=self.detect_pod_failure(pod, before) if alive else None,
        )


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
        count: the number of pods.
        phase: `Running` or `Succeeded`.
    """

    def __init__(self, namespace: str, job: str, count: int, phase: str) -> None:
        count = check_count("count", count)
        super().__init__(namespace, job, f"have {count_noun(count, 'pod')} {phase}", phase)
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
            return Met(settled=self._is_settled(facts, count))
        return self._out_of_reach(facts, count) or LazyPending(self._progress)

    def _is_settled(self, facts: _JobFacts, count: int) -> bool:
        """Return whether the Job wants no more and no fewer pods in the phase."""
        if self._phase == "Running":
            return desired_active_pods(self.object) == count
        return facts.completions == count or facts.ended is not None

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether the count cannot be reached with the existing pods."""
        if self._phase == "Running":
            return alive < self.expected
        return self.pods.count(self._phase) + alive < self.expected

    def _facts(self) -> _JobFacts:
        # Pods change often and the Job rarely.
        if self._facts_of != self.object.changes:
            self._facts_of = self.object.changes
            self._known = _facts(self.object)
        return self._known

    def _progress(self) -> str:
        count = self.pods.count(self._phase)
        rest = self.pods.summary()
        noun = "pod" if self.expected == 1 else "pods"
        text = f"{count} of {self.expected} {noun} {self._phase}"
        if count > self.expected:
            more = f"{count - self.expected} more than awaited"
            text = f"{count_noun(count, 'pod')} {self._phase}, {more}"
        return f"{text}{': ' if rest else ''}{rest}"

    def _out_of_reach(self, facts: _JobFacts, count: int) -> Failed | None:
        if facts.ended is not None:
            return self._after_the_end(facts.ended, count)
        if count > self.expected:
            if self._phase == "Running":
                return None
            return Failed(
                f"{count_noun(count, 'pod')} {self._phase}, more than awaited", Grace.LONG
            )
        if facts.failing is not None:
            return self._after_the_end(facts.failing, count)
        if facts.halted is not None:
            return facts.halted
        reachable = self._reachable(facts, count)
        if reachable < self.expected:
            # A success is final; parallelism may still be raised.
            enough = (self.object.spec.get("parallelism") or 1) >= self.expected
            grace = Grace.SHORT if enough else Grace.LONG
            return Failed(self._too_few(reachable), grace)
        return self.pods.terminal_verdict(reachable - self.expected + 1)

    def _after_the_end(self, ended: Failed, count: int) -> Failed:
        """Return the verdict on a Job that has ended, or is about to."""
        reason = f"{ended.reason}, with {count_noun(count, 'pod')} {self._phase}"
        # A pod that has not been seen to end yet may be about to reach the awaited phase.
        alive = self.pods.count(_ALIVE) > 0
        return Failed(reason, Grace.SHORT if alive else Grace.NONE)

    def _reachable(self, facts: _JobFacts, count: int) -> int:
        """Return the number of pods that can be in the phase at once if none is stuck."""
        active = facts.slots
        if self._phase == "Running":
            return active if active is not None else self.pods.count(_ALIVE)
        if facts.completions is not None:
            return facts.completions
        return active if active is not None else count + self.pods.count(_ALIVE)

    def _too_few(self, reachable: int) -> str:
        parallelism = self.object.spec.get("parallelism") or 1
        completions = required_completions(self.object)
        wanted_text = "no" if completions is None else f"{completions}"
        return (
            f"the job comes to {count_noun(reachable, 'pod')} {self._phase} at most (parallelism"
            f" {parallelism}, {wanted_text} completions, {succeeded_count(self.object)} succeeded)"
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
            value: object = reason
            if not isinstance(value, str) or not value:
                raise InvalidArgument("reason", value, "use the reason of a condition, or None")
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
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        for kind in self._outcomes:
            condition = self.object.holds(kind)
            if condition is not None:
                return self._evaluate_end(condition)
        return self._detect_failure() or LazyPending(self._progress)

    def _evaluate_end(self, condition: dict[str, Any]) -> Verdict:
        reason = condition.get("reason") or ""
        if self._reason is not None and reason != self._reason:
            return Failed(f"the job is {condition['type'].lower()} with reason {reason!r}")
        count = succeeded_count(self.object)
        if self._succeeded is not None and count != self._succeeded:
            return Failed(f"the job is {condition['type'].lower()} with {count} pods succeeded")
        return Met()

    def _detect_failure(self) -> Failed | None:
        against: tuple[str, ...] = ()
        if self._outcomes == ("Complete",):
            against = ("Failed", "FailureTarget")
        elif self._outcomes == ("Failed",):
            against = ("Complete", "SuccessCriteriaMet")
        failed = find_end(self.object, *against) or find_halt(self.object)
        if failed is not None:
            return failed
        if self._outcomes == ("Complete",) and not self.object.spec.get("successPolicy"):
            # Success needs every slot: one stuck pod is enough to fail.
            return self.pods.terminal_verdict(1)
        if "Failed" in self._outcomes and self.object.spec.get("activeDeadlineSeconds"):
            return None
        active = max_active_pods(self.object)
        return self.pods.terminal_verdict(active if active is not None else self.pods.count(_ALIVE))

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether no pod is left to end the Job, or one is missing for success."""
        return is_missing_pods_for_end(self.object, alive, success=self._outcomes == ("Complete",))

    def _progress(self) -> str:
        completions = required_completions(self.object)
        of = f" of {completions}" if completions is not None else ""
        text = f"{succeeded_count(self.object)}{of} succeeded"
        rest = self.pods.summary()
        return f"{text}{': ' if rest else ''}{rest}"


class JobReadiness(JobCondition):
    """An exact number of ready pods, as counted by the Job controller.

    Args:
        ready: the number of pods.
    """

    detect_pod_failure = staticmethod(detect_not_staying_up)

    def __init__(self, namespace: str, job: str, ready: int) -> None:
        self._ready = check_count("count", ready)
        noun = "pod" if ready == 1 else "pods"
        super().__init__(namespace, job, f"count {ready} ready {noun}")

    def verdict(self) -> Verdict:
        """Decide by the Job's own count, and by the counts that are still reachable."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        counted = self.object.status.get("ready")
        if counted == self._ready:
            return Met(settled=desired_active_pods(self.object) == counted)
        return self._out_of_reach() or Pending(self._progress(counted))

    def _out_of_reach(self) -> Failed | None:
        ended = find_end(self.object, "Failed", "Complete")
        if ended is not None:
            return Failed(ended.reason, Grace.SHORT)
        if not self._ready:
            return None
        failed = find_end(self.object, "FailureTarget", "SuccessCriteriaMet")
        if failed is not None:
            return Failed(failed.reason, Grace.SHORT)
        if (stopped := find_halt(self.object)) is not None:
            return stopped
        active = max_active_pods(self.object)
        if active is None:
            return None
        if active < self._ready:
            # Parallelism may still be raised; a success is final.
            enough = (self.object.spec.get("parallelism") or 1) >= self._ready
            text = f"the job keeps {active} {'pod' if active == 1 else 'pods'} active at most"
            return Failed(text, Grace.SHORT if enough else Grace.LONG)
        return self.pods.terminal_verdict(active - self._ready + 1)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether there are fewer pods than must become ready."""
        return alive < self._ready

    def _progress(self, counted: object) -> str:
        rest = self.pods.summary()
        count = counted if isinstance(counted, int) else 0
        noun = "pod" if count == 1 else "pods"
        return f"{count} ready {noun} counted by the job{': ' if rest else ''}{rest}"


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
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        held = self.object.holds(self._kind)
        if held is not None and self._reason in (None, held.get("reason") or ""):
            return Met()
        failed = find_end(self.object, *_EXCLUDED_BY.get(self._kind, ())) or self._detect_failure()
        if failed is not None:
            return failed
        if held is not None:
            return Pending(f"{self._kind} is True with reason {held.get('reason') or ''!r}")
        return Pending(self._progress())

    def _detect_failure(self) -> Failed | None:
        if self._kind == "Suspended":
            return self.object.ending()
        if self._kind not in CONDITION_KINDS:
            return None
        if (stopped := find_halt(self.object)) is not None:
            return stopped
        spec, active = self.object.spec, max_active_pods(self.object)
        if self._kind == "SuccessCriteriaMet" and not spec.get("successPolicy"):
            return self.pods.terminal_verdict(1)
        if self._kind == "FailureTarget" and spec.get("activeDeadlineSeconds"):
            return None
        return None if active is None else self.pods.terminal_verdict(active)

    def has_missing_pods(self, alive: int) -> bool:
        """Return whether the existing pods cannot bring the condition about."""
        if self._kind == "Suspended" or self._kind not in CONDITION_KINDS:
            return False
        return is_missing_pods_for_end(
            self.object, alive, success=self._kind == "SuccessCriteriaMet"
        )

    def _progress(self) -> str:
        condition = self.object.condition(self._kind)
        text = f"no condition {self._kind} yet"
        if condition is not None:
            text = f"{self._kind} is {condition.get('status')}"
        if self._kind == "Suspended" and not self.object.spec.get("suspend"):
            text += ", spec.suspend is not true"
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
        value: object = state
        if not callable(value):
            raise InvalidArgument("state", value, "use a callable that is given the Job")
        self._test = _StatePredicate(state)
        super().__init__(namespace, job, self._test.goal)

    def sources(self) -> Sequence[Source]:
        """Return the Job alone: the verdict depends on nothing else."""
        return self._sources

    def verdict(self) -> Verdict:
        """Return the callable's verdict on the Job."""
        absent = self.object.missing_verdict()
        return self._test.evaluate(self.object.object()) if absent is None else absent

    def summarize(self) -> str:
        """Return the Job's progress by its own counts."""
        if self.object.current is None:
            return ""
        completions = required_completions(self.object)
        of = f" of {completions}" if completions is not None else ""
        status = self.object.status
        counts = (f"{status.get(name) or 0} {name}" for name in ("ready", "succeeded"))
        return f"{', '.join(counts)}{of}"

    def scope(self) -> EvidenceScope:
        """Return the Job and its pods."""
        current = self.object.current
        self._selector = None if current is None else pod_selector(current)
        return super().scope()


class _StatePredicate(UserPredicate):
    """Adapter of a callable that may return the missing part as a text, as upstream's do."""

    def evaluate(self, subject: Any) -> Verdict:
        """Return the callable's answer; exceptions propagate, but for fields not there yet.

        Raises:
            InvalidArgument: it returned neither a text, nor a bool, nor a verdict.
        """
        answer = self.ask(subject)
        if isinstance(answer, str):
            return Pending(answer) if answer else Met()
        if isinstance(answer, Met | Pending | Failed):
            return answer
        if not isinstance(answer, bool):
            valid = "use a text (empty if nothing is missing), True, False, Met, Pending or Failed"
            raise InvalidArgument(f"what {self.name} returned", answer, valid)
        return Met() if answer else Pending(f"{self.name} says False")
