"""Terminal states of pods: the first family of reasons that applies to a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.terminal_states.containers import (
    detect_crash_loop,
    detect_finished_container,
    detect_image_failure,
    detect_init_container_failure,
    detect_pod_end,
    detect_start_failure,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "detect_not_ready",
    "detect_not_running",
    "detect_not_starting",
    "detect_not_staying_up",
    "detect_owned_pod_failure",
    "detect_unschedulable",
]


def detect_unschedulable(pod: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of an unschedulable pod by its PodScheduled condition; else None.

    It may pass: a node may be added, or room made on one. A scheduling gate is no terminal state.
    """
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
                message = " ".join((condition.get("message") or "").split())
                return TerminalState(
                    f"Unschedulable: {message}" if message else "Unschedulable", Patience.LONG
                )
            return None
    return None


def detect_not_starting(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod's containers will not start; None while they may.

    Args:
        pod: the pod.
        before: its terminal state so far.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    if (doom := detect_unschedulable(pod)) is not None:
        return doom
    for container in _container_statuses(status):
        doom = detect_image_failure(container, before) or detect_start_failure(container)
        if doom is not None:
            return doom
    return None


def detect_not_staying_up(
    pod: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return why a pod's containers will not start and stay up; None while they may."""
    doom = detect_not_starting(pod, before)
    status = pod.get("status") or {}
    if doom is not None or status.get("phase") in ("Succeeded", "Failed"):
        return doom
    for container in _container_statuses(status):
        if (doom := detect_crash_loop(container)) is not None:
            return doom
    return None


def detect_not_running(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod will not reach phase Running; None while it may.

    A crash loop of an init container prevents that phase; one of another container does not.
    """
    return detect_not_starting(pod, before) or detect_init_container_failure(pod)


def detect_not_ready(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod will not become ready; None while it may."""
    return (
        detect_not_running(pod, before)
        or detect_not_staying_up(pod, before)
        or detect_finished_container(pod)
    )


def detect_owned_pod_failure(
    pod: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return why neither an owned pod nor its replacement will become ready; else None."""
    ended = detect_pod_end(pod, replaced=bool(controller_uid(pod)))
    phase = (pod.get("status") or {}).get("phase")
    return ended if phase in ("Succeeded", "Failed") else detect_not_ready(pod, before)


def _container_statuses(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
