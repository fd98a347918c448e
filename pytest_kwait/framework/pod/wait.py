"""Conditions and waits on one pod: phase, readiness, scheduling, termination, absence.

A goal decides whether it is met or has become impossible; `terminal_states` reports the reason
that a pod is stuck. A pod that does not exist yet may still be created. One that was seen and is
deleted, or recreated with another UID, ends the wait; upstream polls until the limit.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pytest_kwait.apimachinery.conditions import get_condition, get_phase
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import PartialObjectMetadata
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import WaitOptions, check_count, check_text
from pytest_kwait.engine.pod_fields import is_ready, is_terminating, node_of, phase_label
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import AbsentObject, ObjectCondition
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import (
    describe_pod_end,
    detect_not_ready,
    detect_not_running,
    detect_not_staying_up,
    detect_unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.framework.registry import ConditionOf

Obj: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class PodGoal:
    """The awaited state of a pod.

    Args:
        text: as a verb phrase: `become ready`.
        evaluate: returns whether the goal is met or has become impossible.
        detect: returns the reason that the pod cannot get there.
        alive: True if a pod that is being deleted cannot get there any more.
    """

    text: str
    evaluate: Callable[[Obj], Verdict]
    detect: Callable[[Obj, TerminalState | None], TerminalState | None] | None = None
    alive: bool = False


def to_pending(pod: Obj) -> Pending:
    """Return a pending verdict that names the pod's phase and its scheduling gates."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    behind = ", ".join(str(gate.get("name")) for gate in gates)
    return Pending(f"{phase_label(pod)}{f', behind scheduling gate {behind}' if behind else ''}")


def _running(pod: Obj) -> Verdict:
    if get_phase(pod) == "Running":
        return Met()
    ended = describe_pod_end(pod)
    return Failed(ended) if ended else to_pending(pod)


def _ready(pod: Obj) -> Verdict:
    verdict = _running(pod)
    if not isinstance(verdict, Met) or is_ready(pod):
        return verdict
    why = get_condition(pod, "Ready") or {}
    parts = (why.get("reason"), why.get("message"))
    text = ": ".join(" ".join(part.split()) for part in parts if part)
    return Pending(f"{phase_label(pod)}, not ready{f': {text}' if text else ''}")


def _success(pod: Obj) -> Verdict:
    phase = get_phase(pod)
    if phase == "Succeeded":
        return Met()
    if phase == "Failed":
        return Failed(describe_pod_end(pod))
    policy = (pod.get("spec") or {}).get("restartPolicy")
    if policy == "Always" and not is_terminating(pod):
        return Failed("its restart policy is Always: its containers are started again, always")
    return to_pending(pod)


def _no_longer_running(pod: Obj) -> Verdict:
    return Met() if get_phase(pod) in ("Succeeded", "Failed") else to_pending(pod)


def _terminating(pod: Obj) -> Verdict:
    return Met() if is_terminating(pod) else Pending("it is not being deleted")


def _not_pending(pod: Obj) -> Verdict:
    return to_pending(pod) if get_phase(pod) == "Pending" else Met()


def _unschedulable(pod: Obj) -> Verdict:
    if node_of(pod):
        return Failed(f"the pod was scheduled to {node_of(pod)}")
    if describe_pod_end(pod):
        return Failed(describe_pod_end(pod))
    return Met() if detect_unschedulable(pod) is not None else to_pending(pod)


def _scheduled(pod: Obj) -> Verdict:
    if node_of(pod):
        return Met()
    ended = describe_pod_end(pod)
    return Failed(ended) if ended else to_pending(pod)


def _by_scheduler(pod: Obj, _: TerminalState | None) -> TerminalState | None:
    return detect_unschedulable(pod)


def _unlimited(pod: Obj, before: TerminalState | None) -> TerminalState | None:
    # A pod with a deadline fails at that deadline, however stuck it is.
    limited = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return None if limited else detect_not_running(pod, before)


RUNNING = PodGoal("get to phase Running", _running, detect_not_running, alive=True)
READY = PodGoal("become ready", _ready, detect_not_ready, alive=True)
RUNNING_READY = PodGoal("become Running and ready", _ready, detect_not_ready, alive=True)
SUCCESS = PodGoal(
    "succeed",
    _success,
    lambda pod, before: detect_not_running(pod, before) or detect_not_staying_up(pod, before),
)
NO_LONGER_RUNNING = PodGoal("stop running", _no_longer_running, _unlimited)
TERMINATING = PodGoal("start terminating", _terminating)
NOT_PENDING = PodGoal("leave phase Pending", _not_pending, detect_not_running, alive=True)
UNSCHEDULABLE = PodGoal("prove unschedulable", _unschedulable, alive=True)
SCHEDULED = PodGoal("get scheduled", _scheduled, _by_scheduler, alive=True)


def terminated_with(reason: str) -> PodGoal:
    """Return the goal of a pod that failed with this reason; empty for no reason."""

    def evaluate(pod: Obj) -> Verdict:
        ended = describe_pod_end(pod)
        if not ended:
            return to_pending(pod)
        status = pod.get("status") or {}
        if get_phase(pod) == "Failed" and (status.get("reason") or "") == reason:
            return Met()
        return Failed(ended)

    return PodGoal(f"fail with {f'reason {reason}' if reason else 'no reason'}", evaluate)


def observed_generation(generation: int, condition: str | None) -> PodGoal:
    """Return the goal of a pod whose status, or condition, has observed a generation."""
    where = f"condition {condition}" if condition else "status"

    def evaluate(pod: Obj) -> Verdict:
        facts = get_condition(pod, condition) if condition else pod.get("status") or {}
        if facts is None:
            return Pending(f"no condition {condition} yet")
        status_generation = facts.get("observedGeneration")
        if not isinstance(status_generation, int) or status_generation < generation:
            return Pending(f"generation {status_generation or 0} is observed, not yet {generation}")
        if status_generation > generation:
            return Failed(f"generation {status_generation} is observed already", Grace.NONE)
        return Met()

    return PodGoal(f"have generation {generation} observed in its {where}", evaluate)


class NamedPod(ObjectCondition):
    """Base of the conditions on one pod.

    Args:
        uid: its UID; empty for the first one seen.
        fields: the fields to watch; None for all: one object costs little, and user code may need
            them.
    """

    goal = ""

    def __init__(
        self, namespace: str, pod: str, uid: str = "", fields: type[Any] | None = None
    ) -> None:
        super().__init__(PODS, namespace, check_name("pod", pod), fields, uid)

    def summarize(self) -> str:
        """Return its phase."""
        return "" if self.object.current is None else phase_label(self.object.current)


class PodGoalCondition(NamedPod):
    """One pod reaches the state of a goal.

    Args:
        goal: the awaited state.
    """

    def __init__(self, namespace: str, pod: str, goal: PodGoal) -> None:
        super().__init__(namespace, pod)
        self.goal = goal.text
        self._goal = goal
        self._terminal_state: TerminalState | None = None

    def verdict(self) -> Verdict:
        """Decide by the goal and by the terminal states of the pod."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        current = self.object.current or {}
        verdict = self._goal.evaluate(current)
        if not isinstance(verdict, Pending):
            return verdict
        if self._goal.alive and (ending := self.object.ending()) is not None:
            return ending
        if self._goal.detect is not None:
            self._terminal_state = self._goal.detect(current, self._terminal_state)
            # A pod with a deadline fails at that deadline.
            limited = (current.get("spec") or {}).get("activeDeadlineSeconds")
            terminal = self._terminal_state or (None if limited else self.object.marked)
            if terminal is not None:
                failed = Failed(terminal.reason, terminal.grace, repeats=terminal.repeats)
                return self.object.date_failure(failed)
        return verdict


class UserPodCondition(NamedPod):
    """One pod satisfies a callable of the user.

    Args:
        description: the awaited state, as written after `become`.
        condition: given the pod, returns a bool or a verdict.
    """

    runs_user_code = True

    def __init__(
        self, namespace: str, pod: str, description: str, condition: Callable[[Any], Any]
    ) -> None:
        super().__init__(namespace, pod)
        self.goal = f"become {check_text('description', description)}"
        value: object = condition
        if not callable(value):
            raise InvalidArgument("condition", value, "use a callable that is given the pod")
        self._test = UserPredicate(condition)

    def verdict(self) -> Verdict:
        """Return the callable's verdict on the pod."""
        absent = self.object.missing_verdict()
        return self._test.evaluate(self.object.object()) if absent is None else absent


@wait(limit="pod", kind=PODS, summary="a pod that a callable accepts")
def wait_for_pod_condition(
    client: ApiClient,
    namespace: str,
    name: str,
    description: str,
    condition: Callable[[dict[str, Any]], bool | Verdict],
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it satisfies a callable.

    Exceptions of the callable end the wait at once and propagate, but for fields that are not there
    yet; upstream polls until the limit unless the error is marked as final. Deletion of the pod
    ends the wait as well; upstream waits for a pod of the same name.

    Args:
        description: the awaited state, as written after `become`, for messages.
        condition: given the whole pod, returns True, False or a verdict.

    Raises:
        WaitFailed: the callable returned `Failed`, or the pod was deleted.

    Source: pod/wait.go WaitForPodCondition.
    """
    return UserPodCondition(namespace, name, description, condition)


@wait(limit="pod", kind=PODS, summary="a pod in phase Running")
def wait_for_pod_running(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running.

    Its containers need not be ready, nor all started. Upstream returns at once if the given object
    is Running; here the pod is always read.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForPodRunningInNamespace, WaitTimeoutForPodRunningInNamespace.
    """
    return PodGoalCondition(namespace, name, RUNNING)


@wait(limit="pod_start", kind=PODS, summary="a pod that is Running and ready")
def wait_for_pod_ready(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitTimeoutForPodReadyInNamespace.
    """
    return PodGoalCondition(namespace, name, READY)


@wait(limit="pod", kind=PODS, summary="a pod that is Running and ready")
def wait_for_pod_running_ready(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Running and its Ready condition is True.

    An alias of `wait_for_pod_ready`: upstream has both, with the same condition.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitTimeoutForPodRunningReadyInNamespace.
    """
    return PodGoalCondition(namespace, name, RUNNING_READY)


@wait(limit="pod", kind=PODS, summary="a pod in phase Succeeded")
def wait_for_pod_success(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Succeeded.

    Raises:
        WaitFailed: the pod has failed or was deleted, its containers cannot start or crash again
            and again, or its restart policy is Always and it is not being deleted.

    Source: pod/wait.go WaitForPodSuccessInNamespace.
    """
    return PodGoalCondition(namespace, name, SUCCESS)


@wait(limit="pod", kind=PODS, summary="a pod in phase Succeeded or Failed")
def wait_for_pod_no_longer_running(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Succeeded or Failed.

    A pod that is deleted before it was seen in one of them fails the wait: its outcome is unknown.

    Raises:
        WaitFailed: the pod was deleted, or its containers cannot start and nothing ends it.

    Source: pod/wait.go WaitForPodNoLongerRunningInNamespace.
    """
    return PodGoalCondition(namespace, name, NO_LONGER_RUNNING)


@wait(limit="pod", kind=PODS, summary="a pod that failed with a reason, or without any")
def wait_for_pod_terminated(
    client: ApiClient, namespace: str, name: str, reason: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Failed with a reason in its status.

    Upstream polls until the limit when the pod fails with another reason, though it means to stop.

    Args:
        reason: the reason in its status, for example `Evicted`; empty for none.

    Raises:
        WaitFailed: the pod has failed with another reason, has succeeded or was deleted.

    Source: pod/wait.go WaitForPodTerminatedInNamespace.
    """
    return PodGoalCondition(
        namespace, name, terminated_with(check_text("reason", reason, empty=True))
    )


@wait(limit="pod", kind=PODS, summary="a pod that failed with a reason")
def wait_for_pod_failed_reason(
    client: ApiClient, namespace: str, name: str, reason: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in phase Failed with a reason in its status.

    Like `wait_for_pod_terminated`, but the reason must not be empty.

    Args:
        reason: the reason in its status; not empty.

    Raises:
        WaitFailed: the pod has failed with another reason, has succeeded or was deleted.

    Source: pod/wait.go WaitForPodFailedReason.
    """
    return PodGoalCondition(namespace, name, terminated_with(check_text("reason", reason)))


@wait(limit="pod", kind=PODS, summary="a pod in any phase but Pending")
def wait_for_pod_not_pending(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it is in any phase but Pending.

    A pod without a phase counts as Pending.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForPodNotPending.
    """
    return PodGoalCondition(namespace, name, NOT_PENDING)


@wait(limit="pod_scheduled_before", kind=PODS, summary="a pod that has a node")
def wait_for_pod_scheduled(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once it has a node.

    A pod with a scheduling gate is pending until the gate is removed; the message names the gate.

    Raises:
        WaitFailed: the scheduler finds no node, the pod has ended, or is being deleted.

    Source: pod/wait.go WaitForPodScheduled.
    """
    return PodGoalCondition(namespace, name, SCHEDULED)


@wait(limit="pod", kind=PODS, summary="a pod that no node can take")
def wait_for_pod_unschedulable(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once the scheduler reports that it is unschedulable.

    Upstream polls until the limit when the pod is scheduled after all, though it means to stop.

    Raises:
        WaitFailed: the pod was scheduled, has ended, or is being deleted.

    Source: pod/wait.go WaitForPodNameUnschedulableInNamespace.
    """
    return PodGoalCondition(namespace, name, UNSCHEDULABLE)


@wait(limit="pod_delete", kind=PODS, summary="a pod that is being deleted")
def wait_for_pod_terminating(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod while it is being deleted.

    With a grace period of 0 a pod may be gone before it is seen terminating.

    Raises:
        WaitFailed: the pod was deleted before it was seen terminating.

    Source: pod/wait.go WaitForPodTerminatingInNamespaceTimeout.
    """
    return PodGoalCondition(namespace, name, TERMINATING)


@wait(limit="pod_delete", kind=PODS, summary="a pod that is gone, by its UID")
def wait_for_pod_not_found(
    client: ApiClient,
    namespace: str,
    name: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once a pod is gone; at once if none has that name.

    A later pod of the same name does not count: it has another UID. Upstream waits by name, so also
    for the end of a later pod.

    Args:
        uid: its UID; None for the first one seen.

    Source: pod/wait.go WaitForPodNotFoundInNamespace.
    """
    return AbsentObject(
        PODS, namespace, name, uid, lambda name: "it is there", fields=PartialObjectMetadata
    )


@wait(limit="pod", kind=PODS, summary="a pod whose kubelet has observed a generation")
def wait_for_pod_observed_generation(
    client: ApiClient,
    namespace: str,
    name: str,
    generation: int,
    condition: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once a generation of it has been observed.

    Args:
        generation: the generation of its metadata that must be observed, exactly; 1 or
            more.
        condition: the type of the condition that must have observed it; None for the status as a
            whole.

    Raises:
        WaitFailed: a later generation is observed already, or the pod was deleted.

    Source: pod/wait.go WaitForPodObservedGeneration, WaitForPodConditionObservedGeneration.
    """
    count = check_count("generation", generation, least=1)
    kind = None if condition is None else check_text("condition", condition)
    goal = observed_generation(count, kind)
    return PodGoalCondition(namespace, name, goal)
