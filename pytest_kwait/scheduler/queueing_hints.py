"""Queueing hints: find the changes of pods and nodes that can make a pod schedulable.

Pure functions of the old and the new object.

Source: kube-scheduler, framework/events.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.resource_requests import sum_pod_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "depends_on_other_pods",
    "has_label_change",
    "has_node_scheduling_change",
    "has_pod_scheduling_change",
    "is_scaled_down",
]

_UNRELATED = frozenset({"finalizers", "generation", "managedFields", "resourceVersion"})


def has_node_scheduling_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a node's change may help pods; heartbeats and cordoning do not.

    Source: kube-scheduler, framework/events.go, `NodeSchedulingPropertiesChange`.
    """
    return (
        (_spec(old).get("unschedulable") and not _spec(new).get("unschedulable"))
        or _status(old).get("allocatable") != _status(new).get("allocatable")
        or has_label_change(old, new)
        or (_spec(old).get("taints") or []) != (_spec(new).get("taints") or [])
        or _conditions(old) != _conditions(new)
        or (_metadata(old).get("annotations") or {}) != (_metadata(new).get("annotations") or {})
    )


def has_pod_scheduling_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a waiting pod changed outside its status.

    Source: kube-scheduler, backend/queue/scheduling_queue.go, `isPodUpdated`.
    """
    if (old.get("spec") or {}) != (new.get("spec") or {}):
        return True
    before, after = (
        {name: value for name, value in _metadata(pod).items() if name not in _UNRELATED}
        for pod in (old, new)
    )
    return before != after


def has_label_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the labels changed."""
    return bool((_metadata(old).get("labels") or {}) != (_metadata(new).get("labels") or {}))


def is_scaled_down(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether a pod requests less of a resource than before; False for invalid requests.

    Source: kube-scheduler, framework/events.go, `extractPodScaleDown`.
    """
    try:
        after = sum_pod_requests(new)
        return any(amount > after.get(name, 0) for name, amount in sum_pod_requests(old).items())
    except InvalidArgument:
        return False


def depends_on_other_pods(pod: Mapping[str, Any]) -> bool:
    """Return whether the nodes of other pods can decide whether `pod` fits a node.

    Source: kube-scheduler, backend/queue/scheduling_queue.go,
    `getUnschedulablePodsWithCrossTopologyTerm`.
    """
    spec = _spec(pod)
    affinity = spec.get("affinity") or {}
    return bool(
        spec.get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
    )


def _conditions(node: Mapping[str, Any]) -> dict[str, str]:
    conditions = _status(node).get("conditions") or ()
    return {one.get("type", ""): one.get("status", "") for one in conditions}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("status") or {}
