"""What may be counted of a workload: each kind's numbers, and which may not exceed which.

Source: pkg/apis/apps/validation/validation.go, ValidateDeploymentStatus and its like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_status_counts"]

_STATUS_COUNTS = {
    "Deployment": (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    "ReplicaSet": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ),
    "ReplicationController": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ),
    "StatefulSet": (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    "DaemonSet": (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ),
}
_AT_MOST_REPLICAS = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
_WITH_COLLISION_COUNT = ("Deployment", "StatefulSet", "DaemonSet")


def validate_status_counts(kind: str, new: Obj, old: Obj, found: ErrorList) -> None:
    """The status of a workload of that `kind`."""
    status, before = new.get("status") or {}, old.get("status") or {}
    if status == before:
        return
    found.not_negative(status, "status", *_STATUS_COUNTS[kind])
    for field in _AT_MOST_REPLICAS.get(kind, ()):
        count = status.get(field, 0)
        if count > status.get("replicas", 0):
            found.invalid(f"status.{field}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if kind in _AT_MOST_REPLICAS and available > status.get("readyReplicas", 0):
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        found.invalid("status.availableReplicas", available, f"cannot be greater than {ready}")
    if kind in _WITH_COLLISION_COUNT and "collisionCount" in before:
        count = status.get("collisionCount", 0)
        if "collisionCount" not in status or count < before["collisionCount"]:
            found.invalid("status.collisionCount", count, "cannot be decremented")
