"""Containers that end again each time they are started."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["detect_crash_loop"]

CRASH_LOOP_RESTARTS = 3
"""So many restarts are taken for a start that needs a few tries (a database not there yet)."""


def detect_crash_loop(status: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a container that the kubelet no longer starts at once; else None.

    With the kubelet's pauses of 10, 20, 40, 80 seconds the pause must outlast the grace as well,
    so that a container that crashes twice and then runs is never called doomed. Since Kubernetes
    1.33 a kubelet sleeps through the pause, and may say only at its end that there was one: until
    then the container has ended, badly.
    """
    state, facts = get_current_state(status)
    restarts = status.get("restartCount") or 0
    if restarts < CRASH_LOOP_RESTARTS:
        return None
    if state == "terminated" and facts.get("exitCode") not in (None, 0):
        last = facts
    elif state == "waiting" and facts.get("reason") == "CrashLoopBackOff":
        last = (status.get("lastState") or {}).get("terminated") or {}
    else:
        return None
    how = f"exit code {last['exitCode']}" if last.get("exitCode") is not None else "ended"
    why = f" ({last['reason']})" if last.get("reason") not in (None, "Error", "Completed") else ""
    text = f"CrashLoopBackOff: container {status.get('name')} was restarted {restarts} times, {how}"
    return TerminalState(text + why, Patience.LONG)
