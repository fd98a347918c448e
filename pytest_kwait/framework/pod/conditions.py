"""Conditions on one named pod: goals on its JSON, user callables, absence.

A goal decides whether it is met or has become impossible; `terminal_states` reports the reason
that a pod is stuck.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.apimachinery.conditions import get_condition, get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import PartialObjectMetadata
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import check_text
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.pod.fields import is_ready, is_terminating, node_of, phase_label
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.terminal_states.containers import describe_pod_end
from pytest_kwait.framework.terminal_states.pods import (
    detect_not_ready,
    detect_not_running,
    detect_not_staying_up,
    detect_unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.engine.object_counter import TerminalState

__all__ = [
    "NOT_PENDING",
    "NO_LONGER_RUNNING",
    "READY",
    "RUNNING",
    "RUNNING_READY",
    "SCHEDULED",
    "SUCCESS",
    "TERMINATING",
    "UNSCHEDULABLE",
    "AbsentPod",
    "NamedPod",
    "PodGoal",
    "PodGoalCondition",
    "UserPodCondition",
    "observed_generation",
    "terminated_with",
]

Obj: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class PodGoal:
    """The awaited state of a pod.

    Args:
        text: as a verb phrase: `become ready`.
        judge: returns whether the goal is met or has become impossible.
        doom: returns the reason that the pod cannot get there.
        alive: True if a pod that is being deleted cannot get there any more.
    """

    text: str
    judge: Callable[[Obj], Verdict]
    doom: Callable[[Obj, TerminalState | None], TerminalState | None] | None = None
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
    return Met() if is_terminating(pod) else Pending("nobody is deleting it")


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

    def judge(pod: Obj) -> Verdict:
        ended = describe_pod_end(pod)
        if not ended:
            return to_pending(pod)
        status = pod.get("status") or {}
        if get_phase(pod) == "Failed" and (status.get("reason") or "") == reason:
            return Met()
        return Failed(ended)

    return PodGoal(f"fail with {f'reason {reason}' if reason else 'no reason'}", judge)


def observed_generation(generation: int, condition: str | None) -> PodGoal:
    """Return the goal of a pod whose status, or condition, has observed a generation."""
    where = f"condition {condition}" if condition else "status"

    def judge(pod: Obj) -> Verdict:
        facts = get_condition(pod, condition) if condition else pod.get("status") or {}
        if facts is None:
            return Pending(f"no condition {condition} yet")
        seen = facts.get("observedGeneration")
        if not isinstance(seen, int) or seen < generation:
            return Pending(f"generation {seen or 0} is observed, not yet {generation}")
        if seen > generation:
            return Failed(f"generation {seen} is observed already", Patience.NONE)
        return Met()

    return PodGoal(f"have generation {generation} observed in its {where}", judge)


class NamedPod:
    """Base of the conditions on one pod.

    Args:
        uid: its UID; empty for the first one seen.
        fields: the fields to watch; None for all: one object costs little, and user code may need
            them.

    Raises:
        InvalidArgument: an invalid name.
    """

    runs_user_code = False
    goal = ""

    def __init__(
        self, namespace: str, pod: str, uid: str = "", fields: type[Any] | None = None
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.pod = SingleObject(PODS, check_name("pod", pod), uid)
        self._sources = (Source(PODS, namespace, self.pod, pod, fields=fields),)

    @property
    def subject(self) -> str:
        """The pod."""
        return f"pod {self.namespace}/{self.pod.name}"

    def sources(self) -> Sequence[Source]:
        """Return the pod."""
        return self._sources

    def seen(self) -> str:
        """Return its phase."""
        return "" if self.pod.current is None else phase_label(self.pod.current)

    def result(self) -> Any:
        """Return the last pod seen."""
        return self.pod.object()

    def scope(self) -> EvidenceScope:
        """Return the pod."""
        names = () if self.pod.current is None else (self.pod.name,)
        return EvidenceScope(self.namespace, objects=(self.pod.reference(),), pod_names=names)


class PodGoalCondition(NamedPod):
    """One pod reaches the state of a goal.

    Args:
        goal: the awaited state.
    """

    def __init__(self, namespace: str, pod: str, goal: PodGoal) -> None:
        super().__init__(namespace, pod)
        self.goal = goal.text
        self._goal = goal
        self._doom: TerminalState | None = None

    def verdict(self) -> Verdict:
        """Decide by the goal and by the terminal states of the pod."""
        absent = self.pod.missing_verdict()
        if absent is not None:
            return absent
        current = self.pod.current or {}
        verdict = self._goal.judge(current)
        if not isinstance(verdict, Pending):
            return verdict
        if self._goal.alive and (ending := self.pod.ending()) is not None:
            return ending
        if self._goal.doom is not None:
            self._doom = self._goal.doom(current, self._doom)
            if self._doom is not None:
                return Failed(self._doom.reason, self._doom.patience)
        return verdict


class UserPodCondition(NamedPod):
    """One pod satisfies a callable of the user.

    Args:
        description: the awaited state, as written after `become`.
        condition: given the pod, returns a bool or a verdict.

    Raises:
        InvalidArgument: an invalid name, description or callable.
    """

    runs_user_code = True

    def __init__(
        self, namespace: str, pod: str, description: str, condition: Callable[[Any], Any]
    ) -> None:
        super().__init__(namespace, pod)
        self.goal = f"become {check_text('description', description)}"
        given: object = condition
        if not callable(given):
            raise InvalidArgument("condition", given, "use a callable that is given the pod")
        self._test = UserPredicate(condition)

    def verdict(self) -> Verdict:
        """Return the callable's verdict on the pod."""
        absent = self.pod.missing_verdict()
        return self._test.judge(self.pod.object()) if absent is None else absent


class AbsentPod(NamedPod):
    """One pod is gone; a later pod of the same name does not count.

    Args:
        uid: its UID; None for the first one seen.
    """

    goal = "go away"

    def __init__(self, namespace: str, pod: str, uid: str | None) -> None:
        meant = "" if uid is None else check_text("uid", uid)
        super().__init__(namespace, pod, meant, PartialObjectMetadata)

    def verdict(self) -> Verdict:
        """Decide by the presence of the pod with that UID."""
        if self.pod.missing_verdict() is not None:
            return Met()
        metadata = (self.pod.current or {})["metadata"]
        if not metadata.get("deletionTimestamp"):
            return Pending("still there, nobody is deleting it")
        finalizers = ", ".join(metadata.get("finalizers") or ())
        return Pending(f"being deleted{f', held by {finalizers}' if finalizers else ''}")

    def seen(self) -> str:
        """Return whether it exists."""
        return "" if self.pod.current is None else "it is there"

    def result(self) -> None:
        """Return None."""
