"""Pods that the scheduler says no node can take."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["detect_unschedulable"]


def detect_unschedulable(pod: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a pod by its PodScheduled condition; None while the scheduler is content.

    It may pass: a node may come, or room on one. A pod behind a scheduling gate is not doomed.
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
