"""What can be said of an object at one moment, as short texts: its milestones.

Times, identities, addresses and messages differ from run to run and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["list_milestones", "parse_count"]

Obj = dict[str, Any]

_COUNTS = {
    "Job": ("active", "ready", "succeeded", "failed", "completedIndexes", "failedIndexes"),
    "Deployment": ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("replicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
    "DaemonSet": (
        *("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"),
        *("numberUnavailable", "numberMisscheduled", "updatedNumberScheduled"),
    ),
    "PodDisruptionBudget": (
        *("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"),
    ),
    "HorizontalPodAutoscaler": ("currentReplicas", "desiredReplicas"),
}
"""Fields of the status that count something; zero and absent are the same."""

_OBSERVING = frozenset(
    {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"}
    | {"PodDisruptionBudget", "HorizontalPodAutoscaler"}
)
_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def list_milestones(obj: Obj) -> frozenset[str]:
    """Everything that is to be said of the object as it is now."""
    return frozenset(_all(obj))


def parse_count(milestone: str) -> tuple[str, int] | None:
    """What a milestone counts and how many; None where it counts nothing.

    Counts may be skipped by who watches: nobody promises to see the first of two ready pods.
    """
    name, equals, number = milestone.rpartition("=")
    return (name, int(number)) if equals and number.isdigit() else None


def _all(obj: Obj) -> Iterator[str]:
    metadata, kind = obj["metadata"], obj["kind"]
    status: Obj = obj.get("status") or {}
    yield "there"
    if "deletionTimestamp" in metadata:
        yield f"deleting within {metadata.get('deletionGracePeriodSeconds', 0)} s"
        for finalizer in metadata.get("finalizers") or ():
            yield f"kept by {finalizer}"
    for condition in status.get("conditions") or ():
        reason = condition.get("reason", "")
        yield f"{condition['type']}={condition['status']} {reason}".rstrip()
    if kind in _OBSERVING and "observedGeneration" in status:
        yield f"observed={status['observedGeneration']}"
    for name in _COUNTS.get(kind, ()):
        if status.get(name):
            yield f"{name}={status[name]}"
    if kind in _MORE:
        yield from _MORE[kind](obj, status)


def _pod(obj: Obj, status: Obj) -> Iterator[str]:
    yield f"phase={status.get('phase')}"
    if status.get("reason"):
        yield f"reason={status['reason']}"
    if status.get("nominatedNodeName"):
        yield "is promised a place"
    for kind in _CONTAINERS:
        for container in status.get(kind) or ():
            yield from _container(container)


def _node(obj: Obj, _: Obj) -> Iterator[str]:
    for taint in obj["spec"].get("taints") or ():
        yield f"tainted {taint['key']}:{taint['effect']}"


def _container(status: Obj) -> Iterator[str]:
    name = status["name"]
    if status.get("ready"):
        yield f"{name} is ready"
    if status.get("started"):
        yield f"{name} has started"
    if status.get("restartCount"):
        yield f"{name} restarts={status['restartCount']}"
    for when, state in (("", status.get("state")), ("last ", status.get("lastState"))):
        for kind, details in (state or {}).items():
            yield f"{name} {when}{kind} {_why(details or {})}".rstrip()


def _why(details: Obj) -> str:
    code = details.get("exitCode")
    reason: str = details.get("reason", "")
    return reason + ("" if code is None else f" exit code {code}")


def _job(_: Obj, status: Obj) -> Iterator[str]:
    for field in ("startTime", "completionTime"):
        if status.get(field):
            yield f"has {field}"


def _revision(obj: Obj, _: Obj) -> Iterator[str]:
    annotations = obj["metadata"].get("annotations") or {}
    if "deployment.kubernetes.io/revision" in annotations:
        yield f"revision={annotations['deployment.kubernetes.io/revision']}"


def _deployment(obj: Obj, status: Obj) -> Iterator[str]:
    yield from _revision(obj, status)
    if status.get("unavailableReplicas"):
        yield f"unavailableReplicas={status['unavailableReplicas']}"


def _replica_set(obj: Obj, status: Obj) -> Iterator[str]:
    yield from _revision(obj, status)
    yield f"wanted={obj['spec'].get('replicas', 0)}"


def _stateful_set(_: Obj, status: Obj) -> Iterator[str]:
    if status.get("currentRevision") and status["currentRevision"] == status.get("updateRevision"):
        yield "all of one revision"


def _cron_job(_: Obj, status: Obj) -> Iterator[str]:
    yield f"active jobs={len(status.get('active') or ())}"
    for field in ("lastScheduleTime", "lastSuccessfulTime"):
        if status.get(field):
            yield f"has {field}"


def _claim(_: Obj, status: Obj) -> Iterator[str]:
    yield f"phase={status.get('phase')}"


def _quota(_: Obj, status: Obj) -> Iterator[str]:
    for name, used in (status.get("used") or {}).items():
        yield f"{name} of {status['hard'][name]} used={used}"


def _slice(obj: Obj, _: Obj) -> Iterator[str]:
    endpoints = obj.get("endpoints") or ()
    for name in ("ready", "serving", "terminating"):
        number = sum(bool((each.get("conditions") or {}).get(name)) for each in endpoints)
        yield f"{name}={number}"


_MORE: dict[str, Callable[[Obj, Obj], Iterator[str]]] = {
    "Pod": _pod,
    "Node": _node,
    "Job": _job,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "CronJob": _cron_job,
    "PersistentVolumeClaim": _claim,
    "ResourceQuota": _quota,
    "EndpointSlice": _slice,
}
