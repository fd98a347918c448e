"""Containers that cannot be configured, created or started.

Source: the reasons are those of kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.framework.terminal_states.endings import NEVER_STARTED

__all__ = ["detect_start_failure"]

# What is wrong with the pod itself, which cannot be changed any more; a config map, a secret or a
# volume that is missing may still come.
_FINAL_START_MESSAGES = {
    "CreateContainerConfigError": (
        "runasnonroot and image will run as root",
        "runasnonroot and image has non-numeric user",
        "cannot be run as root",
    ),
    "CreateContainerError": ("no command specified",),
    "RunContainerError": (
        "executable file not found",
        "no such file or directory",
        "permission denied",
        "exec format error",
    ),
    "PreCreateHookError": (),
    "PreStartHookError": (),
    "PostStartHookError": (),
}


def detect_start_failure(status: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a container that cannot be started; None for any other."""
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting":
        return None
    if reason in _FINAL_START_MESSAGES:
        message = " ".join((facts.get("message") or "").split())
        patience = Patience.SHORT if _is_final_start_message(reason, message) else Patience.LONG
        return TerminalState(f"{reason}: {message}" if message else reason, patience)
    last = (status.get("lastState") or {}).get("terminated") or {}
    if reason == "CrashLoopBackOff" and last.get("reason") in NEVER_STARTED:
        message = " ".join((last.get("message") or "").split())
        if _is_final_start_message("RunContainerError", message):
            return TerminalState(f"{last['reason']}: {message}", Patience.SHORT)
    return None


def _is_final_start_message(reason: str, message: str) -> bool:
    return any(phrase in message.lower() for phrase in _FINAL_START_MESSAGES[reason])
