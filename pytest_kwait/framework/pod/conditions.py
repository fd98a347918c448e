"""What one pod can be awaited to be: pure functions from its JSON to a verdict.

A goal says whether it is met, and what can no longer become of it; what holds a pod up on the way
is said by the families of `doom`.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.pod.fields import (
    condition_of,
    is_ready,
    is_terminating,
    node_of,
    phase_label,
    phase_of,
)
from pytest_kwait.framework.terminal_states.endings import describe_pod_end
from pytest_kwait.framework.terminal_states.pods import (
    detect_not_ready,
    detect_not_running,
    detect_not_staying_up,
)
from pytest_kwait.framework.terminal_states.scheduling import detect_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "PodGoal",
    "observed_generation",
    "terminated_with",
]

Obj: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class PodGoal:
    """What a pod is awaited to be.

    Args:
        text: as a verb: `become ready`.
        judge: whether it is met, or can no longer be.
        doom: what keeps the pod from it.
        alive: whether a pod that is being deleted does not get there any more.
    """

    text: str
    judge: Callable[[Obj], Verdict]
    doom: Callable[[Obj, TerminalState | None], TerminalState | None] | None = None
    alive: bool = False


def to_pending(pod: Obj) -> Pending:
    """Return a verdict that says where a pod is, and what gates it waits behind."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    behind = ", ".join(str(gate.get("name")) for gate in gates)
    return Pending(f"{phase_label(pod)}{f', behind scheduling gate {behind}' if behind else ''}")


def _running(pod: Obj) -> Verdict:
    if phase_of(pod) == "Running":
        return Met()
    ended = describe_pod_end(pod)
    return Failed(ended) if ended else to_pending(pod)


def _ready(pod: Obj) -> Verdict:
    verdict = _running(pod)
    if not isinstance(verdict, Met) or is_ready(pod):
        return verdict
    why = condition_of(pod, "Ready") or {}
    parts = (why.get("reason"), why.get("message"))
    text = ": ".join(" ".join(part.split()) for part in parts if part)
    return Pending(f"{phase_label(pod)}, not ready{f': {text}' if text else ''}")


def _success(pod: Obj) -> Verdict:
    phase = phase_of(pod)
    if phase == "Succeeded":
        return Met()
    if phase == "Failed":
        return Failed(describe_pod_end(pod))
    policy = (pod.get("spec") or {}).get("restartPolicy")
    if policy == "Always" and not is_terminating(pod):
        return Failed("its restart policy is Always: its containers are started again, always")
    return to_pending(pod)


def _no_longer_running(pod: Obj) -> Verdict:
    return Met() if phase_of(pod) in ("Succeeded", "Failed") else to_pending(pod)


def _terminating(pod: Obj) -> Verdict:
    return Met() if is_terminating(pod) else Pending("nobody is deleting it")


def _not_pending(pod: Obj) -> Verdict:
    return to_pending(pod) if phase_of(pod) == "Pending" else Met()


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
    # A pod with a deadline fails at that, however stuck it is.
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
    """Return the goal of a pod that failed with this reason in its status; empty for none."""

    def judge(pod: Obj) -> Verdict:
        ended = describe_pod_end(pod)
        if not ended:
            return to_pending(pod)
        status = pod.get("status") or {}
        if phase_of(pod) == "Failed" and (status.get("reason") or "") == reason:
            return Met()
        return Failed(ended)

    return PodGoal(f"fail with {f'reason {reason}' if reason else 'no reason'}", judge)


def observed_generation(generation: int, condition: str | None) -> PodGoal:
    """Return the goal of a pod of which the kubelet, or a condition, has seen a generation."""
    where = f"condition {condition}" if condition else "status"

    def judge(pod: Obj) -> Verdict:
        facts = condition_of(pod, condition) if condition else pod.get("status") or {}
        if facts is None:
            return Pending(f"no condition {condition} yet")
        seen = facts.get("observedGeneration")
        if not isinstance(seen, int) or seen < generation:
            return Pending(f"generation {seen or 0} is observed, not yet {generation}")
        if seen > generation:
            return Failed(f"generation {seen} is observed already", Patience.NONE)
        return Met()

    return PodGoal(f"have generation {generation} observed in its {where}", judge)
