"""Deployments that do not get on: their progress deadline missed, paused, or refused a ReplicaSet.

Source: kubernetes/pkg/controller/deployment/progress.go and sync.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["detect_paused", "detect_progress_deadline_exceeded", "detect_replica_set_refusal"]


def detect_progress_deadline_exceeded(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a Deployment that has missed its progress deadline; None for any other.

    The controller goes on trying, and after a rollback the condition may outlast the new spec for
    a moment: so it must hold. A paused Deployment keeps the condition of before; that says nothing.
    Whether the status is of the present generation is for the caller to know.
    """
    condition = _progressing_condition(deployment)
    if condition.get("reason") != "ProgressDeadlineExceeded" or _is_paused(deployment):
        return None
    return TerminalState(_describe_condition(condition), Patience.SHORT)


def detect_paused(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a paused Deployment of which not all pods are updated; else None.

    It may pass: somebody may resume it. A paused Deployment is still scaled.
    """
    status = deployment.get("status") or {}
    updated = status.get("updatedReplicas") or 0
    replicas = (deployment.get("spec") or {}).get("replicas")
    wanted = 1 if replicas is None else replicas
    if not _is_paused(deployment) or (
        updated >= wanted and (status.get("replicas") or 0) <= updated
    ):
        return None
    return TerminalState("the deployment is paused", Patience.LONG)


def detect_replica_set_refusal(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a Deployment that is refused a new ReplicaSet; None for any other.

    Its controller writes this without telling that it has observed the generation: the one
    condition that counts while the status is of an older one.
    """
    condition = _progressing_condition(deployment)
    if condition.get("reason") != "ReplicaSetCreateError":
        return None
    return TerminalState(_describe_condition(condition), Patience.LONG)


def _is_paused(deployment: dict[str, Any]) -> bool:
    return bool((deployment.get("spec") or {}).get("paused"))


def _progressing_condition(deployment: dict[str, Any]) -> dict[str, Any]:
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Progressing":
            return dict(condition)
    return {}


def _describe_condition(condition: dict[str, Any]) -> str:
    parts = (condition.get("reason"), " ".join((condition.get("message") or "").split()))
    return ": ".join(part for part in parts if part)
