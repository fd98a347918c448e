"""Containers that cannot be configured, created or started.

Source: the reasons are those of kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import current_state
from pytest_kwait.engine.tally import Doom
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.resources.doom.endings import NEVER_STARTED

__all__ = ["container_start_doom"]

# What is wrong with the pod itself, which cannot be changed any more; a config map, a secret or a
# volume that is missing may still come.
_FINAL = {
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


def container_start_doom(status: dict[str, Any]) -> Doom | None:
    """Return the doom of a container that cannot be started; None for any other."""
    state, facts = current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting":
        return None
    if reason in _FINAL:
        message = " ".join((facts.get("message") or "").split())
        patience = Patience.SHORT if _is_final(reason, message) else Patience.LONG
        return Doom(f"{reason}: {message}" if message else reason, patience)
    last = (status.get("lastState") or {}).get("terminated") or {}
    if reason == "CrashLoopBackOff" and last.get("reason") in NEVER_STARTED:
        message = " ".join((last.get("message") or "").split())
        if _is_final("RunContainerError", message):
            return Doom(f"{last['reason']}: {message}", Patience.SHORT)
    return None


def _is_final(reason: str, message: str) -> bool:
    return any(phrase in message.lower() for phrase in _FINAL[reason])
