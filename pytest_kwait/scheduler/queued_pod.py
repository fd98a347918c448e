"""A pod on its way through the queue, and what is read of it there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Pod",
    "QueueState",
    "QueuedPodInfo",
    "gates_of",
    "key_of",
    "node_of",
    "scheduler_of",
    "uid_of",
]

Pod: TypeAlias = dict[str, Any]


class QueueState(Enum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod, and what the queue knows of its attempts.

    Args:
        pod: the pod as it came last.
        timestamp: when it was queued or last came back, in the clock's monotonic seconds.
        place: where it is.
        attempts: how often it was taken to be scheduled.
        unschedulable_count: how often it fitted nowhere.
        error_count: how often in a row something else went wrong.
        cycle: the queue's cycle when it was taken last.
        changed: whether it changed since it was taken.
        backs_off_until: the end of its back-off, in monotonic seconds; None until it is needed.
        first_active: when it could first be tried.
        ticket: which entry of a heap is the valid one.
    """

    pod: Pod
    timestamp: float
    place: QueueState = QueueState.ACTIVE
    attempts: int = 0
    unschedulable_count: int = 0
    error_count: int = 0
    cycle: int = 0
    changed: bool = False
    backs_off_until: float | None = None
    first_active: float | None = None
    ticket: int = 0

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return uid_of(self.pod)

    @property
    def key(self) -> str:
        """Namespace and name of the pod."""
        return key_of(self.pod)

    @property
    def profile(self) -> str:
        """The scheduler that the pod asks for."""
        return scheduler_of(self.pod)

    @property
    def order(self) -> tuple[int, float]:
        """The pod's turn: first by priority, then by time.

        Source: kube-scheduler, framework/plugins/queuesort/priority_sort.go.
        """
        priority = (self.pod.get("spec") or {}).get("priority") or 0
        return (-priority, self.timestamp)


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the UID of an object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def key_of(obj: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node that a pod is bound to; empty for none."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def scheduler_of(pod: Mapping[str, Any]) -> str:
    """Return the name of the scheduler that a pod asks for."""
    return (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the gates that keep a pod from being scheduled."""
    return [gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
