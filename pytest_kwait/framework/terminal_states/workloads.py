"""Terminal states of workloads: refused pods, missed deadlines, paused Deployments.

A ReplicaFailure condition keeps the message of the first refusal for as long as refusals go on.
Jobs, StatefulSets and DaemonSets have no such condition: they report a refusal in events alone.

Source: kubernetes/pkg/controller/replicaset/replica_set_utils.go calculateStatus and, of
events, kubernetes/pkg/controller/controller_utils.go RealPodControl.createPods;
kubernetes/pkg/controller/deployment/progress.go and sync.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.engine.condition import Grace, TerminalState

# These refusals require a change of the template or of a label of the namespace. The others may
# pass: a quota may be freed, a service account or priority class created, a limit raised, a webhook
# come back.
_FINAL_REFUSALS = (
    "violates podsecurity",
    "is invalid:",
    ": must specify ",
)
_COMBINED = "(combined from similar events): "
_ERROR = "Error creating: "


def to_refusal_grace(message: str) -> Grace:
    """Return how long a refusal must hold before it counts, by its message."""
    text = message.lower()
    return Grace.SHORT if any(phrase in text for phrase in _FINAL_REFUSALS) else Grace.LONG


def detect_creation_failure(message: str) -> TerminalState:
    """Return why a Job, StatefulSet or DaemonSet gets no pods, by its last event.

    Args:
        message: the message of a FailedCreate event; the event recorder's prefix is ignored.
    """
    text = " ".join(message.split()).removeprefix(_COMBINED).removeprefix(_ERROR)
    return TerminalState(
        f"FailedCreate: {text}" if text else "FailedCreate", to_refusal_grace(text)
    )


def detect_replica_failure(controller: dict[str, Any]) -> TerminalState | None:
    """Return why a ReplicaSet, ReplicationController or Deployment cannot create or delete pods.

    None if its ReplicaFailure condition is not True. The caller checks that the status is of the
    current generation.
    """
    status = controller.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = " ".join((condition.get("message") or "").split())
            parts = (condition.get("reason"), message)
            text = ": ".join(part for part in parts if part) or "ReplicaFailure"
            return TerminalState(text, to_refusal_grace(message))
    return None


def detect_progress_deadline_exceeded(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of a Deployment past its progress deadline; None for any other.

    The state must hold: the controller keeps trying, and after a rollback the condition may outlast
    the new spec for a moment. A paused Deployment keeps its old condition, which is ignored. The
    caller checks that the status is of the current generation.
    """
    condition = get_condition(deployment, "Progressing") or {}
    if condition.get("reason") != "ProgressDeadlineExceeded" or _is_paused(deployment):
        return None
    return TerminalState(_describe_condition(condition), Grace.SHORT)


def detect_paused(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of a paused Deployment with outdated pods; else None.

    It may pass: the Deployment may be resumed. A paused Deployment is still scaled.
    """
    status = deployment.get("status") or {}
    updated = status.get("updatedReplicas") or 0
    replicas = (deployment.get("spec") or {}).get("replicas")
    desired_replicas = 1 if replicas is None else replicas
    if not _is_paused(deployment) or (
        updated >= desired_replicas and (status.get("replicas") or 0) <= updated
    ):
        return None
    return TerminalState("the deployment is paused", Grace.LONG)


def detect_replica_set_refusal(deployment: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of a Deployment that is refused a new ReplicaSet; else None.

    The controller sets this condition without updating the observed generation, so it counts even
    in a status of an older generation.
    """
    condition = get_condition(deployment, "Progressing") or {}
    if condition.get("reason") != "ReplicaSetCreateError":
        return None
    return TerminalState(_describe_condition(condition), Grace.LONG)


def _is_paused(deployment: dict[str, Any]) -> bool:
    return bool((deployment.get("spec") or {}).get("paused"))


def _describe_condition(condition: dict[str, Any]) -> str:
    parts = (condition.get("reason"), " ".join((condition.get("message") or "").split()))
    return ": ".join(part for part in parts if part)
