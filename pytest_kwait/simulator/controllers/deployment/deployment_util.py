"""The arithmetic of a rollout: replica counts, revisions, conditions, deadlines.

Pure functions of numbers and dicts.

Source: kube-controller-manager, deployment/util/deployment_util.go, deployment/progress.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.quantities import resolve_int_or_percent
from pytest_kwait.apimachinery.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "HASH_LABEL",
    "calculate_new_replicas",
    "calculate_next_revision",
    "calculate_proportions",
    "calculate_status",
    "get_desired_replicas",
    "has_timed_out",
    "is_complete",
    "is_progressing",
    "resolve_fenceposts",
    "select_annotations",
    "set_condition",
    "sum_replicas",
]

HASH_LABEL = "pod-template-hash"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NO_DEADLINE = 2**31 - 1


def get_desired_replicas(deployment: Obj) -> int:
    """Return the desired number of replicas."""
    replicas: int = deployment["spec"].get("replicas", 1)
    return replicas


def resolve_fenceposts(deployment: Obj) -> tuple[int, int]:
    """Return the maximum surge and the maximum unavailability, never both zero.

    Surge rounds up, unavailability down. A Recreate rollout has neither.

    Source: kube-controller-manager, deployment_util.go, `ResolveFenceposts`.
    """
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    replicas = get_desired_replicas(deployment)
    surge = resolve_int_or_percent(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = resolve_int_or_percent(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def sum_replicas(sets: Iterable[Obj], field: str) -> int:
    """Return the sum of `spec.replicas` or of one of the counts in the status."""
    if field == "spec":
        return sum(one["spec"].get("replicas", 1) for one in sets)
    return sum((one.get("status") or {}).get(field, 0) for one in sets)


def calculate_new_replicas(deployment: Obj, sets: Sequence[Obj], new_set: Obj | None) -> int:
    """Return the replicas that the newest ReplicaSet may have now.

    Source: kube-controller-manager, deployment_util.go, `NewRSNewReplicas`.
    """
    wanted = get_desired_replicas(deployment)
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return wanted
    surge, _ = resolve_fenceposts(deployment)
    current = sum_replicas(sets, "spec")
    own: int = new_set["spec"].get("replicas", 1) if new_set is not None else 0
    if current >= wanted + surge:
        return own
    return own + min(wanted + surge - current, wanted - own)


def calculate_proportions(deployment: Obj, sets: Sequence[Obj]) -> dict[str, int]:
    """Return the sizes of ReplicaSets by name after proportional scaling.

    Source: kube-controller-manager, sync.go, `scale`; deployment_util.go, `getReplicaSetFraction`.
    """
    wanted = get_desired_replicas(deployment)
    surge, _ = resolve_fenceposts(deployment)
    allowed = wanted + surge if wanted > 0 else 0
    to_add = allowed - sum_replicas(sets, "spec")
    newest_first = to_add > 0
    ordered = sorted(
        sets,
        key=lambda one: (
            -one["spec"].get("replicas", 1),
            -parse_time(one["metadata"]["creationTimestamp"])
            if newest_first
            else parse_time(one["metadata"]["creationTimestamp"]),
        ),
    )
    sizes: dict[str, int] = {}
    added = 0
    for one in ordered:
        size = one["spec"].get("replicas", 1)
        share = 0
        if to_add and size and added != to_add:
            before = int((one["metadata"].get("annotations") or {}).get(MAX_REPLICAS) or wanted)
            fraction = (
                _round_half_away(size * allowed / before) - size if wanted and before else -size
            )
            left = to_add - added
            share = min(fraction, left) if to_add > 0 else max(fraction, left)
        sizes[one["metadata"]["name"]] = size + share
        added += share
    if ordered and to_add:
        first = ordered[0]["metadata"]["name"]
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(value + 0.5)


def calculate_next_revision(sets: Iterable[Obj]) -> int:
    """Return one more than the highest revision of the given ReplicaSets."""
    return 1 + max((get_revision(one) for one in sets), default=0)


def get_revision(obj: Obj) -> int:
    """Return the revision annotation of the object; 0 without one."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def select_annotations(deployment: Obj) -> dict[str, str]:
    """Return the Deployment's annotations that its ReplicaSets inherit."""
    own = (_LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS)
    annotations: dict[str, str] = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in own}


def set_condition(conditions: list[Obj], condition: Obj) -> list[Obj]:
    """Return the conditions with `condition` set; unchanged if status and reason are.

    A changed one moves to the end and keeps its transition time while its status is the same.

    Source: kube-controller-manager, deployment_util.go, `SetDeploymentCondition`.
    """
    current = next((one for one in conditions if one["type"] == condition["type"]), None)
    if current is not None and current["status"] == condition["status"]:
        if current.get("reason") == condition.get("reason"):
            return conditions
        condition = {**condition, "lastTransitionTime": current["lastTransitionTime"]}
    return [one for one in conditions if one["type"] != condition["type"]] + [condition]


def make_condition(kind: str, status: str, reason: str, message: str, stamp: str) -> Obj:
    """Return a Deployment's condition with the current time."""
    return {
        "type": kind, "status": status, "lastUpdateTime": stamp, "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    }  # fmt: skip


def calculate_status(deployment: Obj, sets: Sequence[Obj], new_set: Obj | None, stamp: str) -> Obj:
    """Return the counts and the Available condition from the ReplicaSets' statuses.

    Source: kube-controller-manager, sync.go, `calculateStatus`.
    """
    last = deployment.get("status") or {}
    available = sum_replicas(sets, "availableReplicas")
    newest = [new_set] if new_set is not None else []
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum_replicas(sets, "replicas"),
        "updatedReplicas": sum_replicas(newest, "replicas"),
        "readyReplicas": sum_replicas(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum_replicas(sets, "spec") - available),
    }
    status: Obj = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum_replicas(sets, "terminatingReplicas")
    if last.get("collisionCount") is not None:
        status["collisionCount"] = last["collisionCount"]
    _, unavailable = resolve_fenceposts(deployment)
    if available >= get_desired_replicas(deployment) - unavailable:
        availability = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        availability = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    status["conditions"] = set_condition(
        list(last.get("conditions") or ()), make_condition("Available", *availability, stamp)
    )
    return status


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Return whether every replica is new and available, and the status is up to date."""
    wanted = get_desired_replicas(deployment)
    return bool(
        status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
        and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def is_progressing(deployment: Obj, status: Obj) -> bool:
    """Return whether `status` shows progress since the Deployment's last one."""
    last = deployment.get("status") or {}

    def old(of: Obj) -> int:
        count: int = of.get("replicas", 0) - of.get("updatedReplicas", 0)
        return count

    return bool(
        status.get("updatedReplicas", 0) > last.get("updatedReplicas", 0)
        or old(status) < old(last)
        or status.get("readyReplicas", 0) > last.get("readyReplicas", 0)
        or status.get("availableReplicas", 0) > last.get("availableReplicas", 0)
    )


def get_progress_deadline(deployment: Obj) -> int | None:
    """Return the seconds without progress until a rollout is stuck; None for no limit."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _NO_DEADLINE else seconds


def has_timed_out(deployment: Obj, status: Obj, now: float) -> bool:
    """Return whether the last progress is older than the progress deadline."""
    deadline = get_progress_deadline(deployment)
    current = get_condition({"status": status}, "Progressing")
    if deadline is None or current is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    if current.get("reason") == "ProgressDeadlineExceeded":
        return True
    return bool(parse_time(current["lastUpdateTime"]) + deadline < now)
