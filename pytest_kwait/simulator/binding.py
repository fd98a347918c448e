"""The assignment of a pod to a node.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.status_error import StatusError, conflict

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["bound"]


def bound(pod: Obj, node: str, stamp: str) -> Obj:
    """The pod with its node and the condition that it is scheduled since `stamp`.

    Raises:
        StatusError: 409, it is assigned already, being deleted, or not to be scheduled yet.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    present = spec.get("nodeName")
    if metadata.get("deletionTimestamp"):
        raise _refused(pod, "is being deleted, cannot be assigned to a host")
    if present:
        raise _refused(pod, f'is already assigned to node "{present}"')
    if spec.get("schedulingGates"):
        raise _refused(pod, "has non-empty .spec.schedulingGates")
    condition: Obj = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    status = dict(pod.get("status", {}))
    others = [one for one in status.get("conditions", ()) if one["type"] != "PodScheduled"]
    status["conditions"] = [*others, condition]
    return {
        **pod,
        "metadata": {**metadata},
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


def _refused(pod: Obj, why: str) -> StatusError:
    name = name_of(pod)
    return conflict("", "pods/binding", name, f"pod {name} {why}")
