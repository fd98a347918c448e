"""Pod fields: pure functions on a pod's JSON, whole or trimmed."""

from __future__ import annotations

from typing import Any, TypedDict

from pytest_kwait.apimachinery.conditions import get_condition, get_phase
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.container_states import ContainerStatuses, get_current_state

__all__ = [
    "PHASES",
    "PodFields",
    "is_finished",
    "is_ready",
    "is_terminating",
    "node_of",
    "phase_label",
]

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


class _PodSpec(TypedDict, total=False):
    nodeName: str | None


class _PodCondition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None
    observedGeneration: int | None


class _PodStatus(TypedDict, total=False):
    phase: str | None
    reason: str | None
    observedGeneration: int | None
    conditions: list[_PodCondition] | None
    initContainerStatuses: ContainerStatuses
    containerStatuses: ContainerStatuses


class PodFields(TypedDict, total=False):
    """The fields of a pod that waits read."""

    metadata: ObjectMeta
    spec: _PodSpec | None
    status: _PodStatus | None


def is_finished(pod: dict[str, Any]) -> bool:
    """Return whether all its containers have ended for good."""
    return get_phase(pod) in ("Succeeded", "Failed")


def is_terminating(pod: dict[str, Any]) -> bool:
    """Return whether it is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def node_of(pod: dict[str, Any]) -> str:
    """Return the name of its node; empty before it is scheduled."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def is_ready(pod: dict[str, Any]) -> bool:
    """Return whether its Ready condition is True."""
    condition = get_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def phase_label(pod: dict[str, Any]) -> str:
    """Return the phase and the blocking reason: `Pending (ContainerCreating)`."""
    phase = get_phase(pod)
    status = pod.get("status") or {}
    if phase in ("Pending", "Running"):
        for container in (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ):
            state, facts = get_current_state(container)
            if state == "waiting" and facts.get("reason"):
                return f"{phase} ({facts['reason']})"
        scheduled = get_condition(pod, "PodScheduled")
        if scheduled is not None and scheduled.get("status") == "False":
            return f"{phase} ({scheduled.get('reason') or 'not scheduled'})"
    elif status.get("reason"):
        return f"{phase} ({status['reason']})"
    return phase
