"""Pods that have ended for good: Succeeded, Failed, Evicted, killed for their memory."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["NEVER_STARTED", "describe_exit", "describe_pod_end", "detect_pod_end"]

NEVER_STARTED = frozenset({"ContainerCannotRun", "StartError"})
"""How a run ended that never began, in the words of containerd and of others."""


def describe_pod_end(pod: dict[str, Any]) -> str:
    """Return how a pod has ended, with its reason; empty for one that has not.

    A phase of Succeeded or Failed is never left: who replaces the pod makes another one.
    """
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return "the pod has succeeded"
    if phase != "Failed":
        return ""
    parts = (status.get("reason"), status.get("message"))
    why = ": ".join(" ".join(part.split()) for part in parts if part)
    return f"the pod has failed: {why or _describe_failed_container(status)}"


def detect_pod_end(pod: dict[str, Any], *, replaced: bool) -> TerminalState | None:
    """Return the doom of a pod that has ended; None for one that has not.

    Args:
        pod: the pod.
        replaced: whether a controller makes another one in its place: then nothing is lost.
    """
    text = describe_pod_end(pod)
    return TerminalState(text, Patience.SHORT) if text and not replaced else None


def _describe_failed_container(status: dict[str, Any]) -> str:
    """Return how the first container ended that did not end well."""
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(statuses) or ():
            state, facts = get_current_state(container)
            code = facts.get("exitCode")
            if state == "terminated" and code != 0:
                text = f"container {container.get('name')} ended with {describe_exit(facts)}"
                message = " ".join((facts.get("message") or "").split())
                # What a container wrote of its own accord is in the log; this is the runtime's.
                told = message and facts.get("reason") in NEVER_STARTED
                return f"{text}: {message}" if told else text
    return "no reason is given"


def describe_exit(terminated: dict[str, Any]) -> str:
    """Return exit code and reason of a container's end, as they stand in a sentence."""
    code, reason = terminated.get("exitCode"), terminated.get("reason")
    text = "an unknown exit code" if code is None else f"exit code {code}"
    return text if reason in (None, "", "Error", "Completed") else f"{text} ({reason})"
