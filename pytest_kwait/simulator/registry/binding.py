"""The assignment of a pod to a node.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, conflict
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["bind_pod"]


def bind_pod(pod: Obj, node: str, stamp: str, binding: Obj | None = None) -> Obj:
    """The pod with its node and the condition that it is scheduled since `stamp`.

    Args:
        pod: the pod.
        node: the node's name.
        stamp: the time.
        binding: what was asked for; its labels and annotations become the pod's, its UID and
            resourceVersion must be the pod's.

    Raises:
        StatusError: 409, it is another pod, is assigned already, being deleted, or not to be
            scheduled yet.
    """
    metadata, spec = {**pod["metadata"]}, pod["spec"]
    given = (binding or {}).get("metadata", {})
    for field, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = given.get(field)
        if wanted and wanted != metadata[field]:
            raise _uid_conflict(
                pod, f"{shown} in precondition: {wanted}, {shown} in object meta: {metadata[field]}"
            )
    present = spec.get("nodeName")
    if metadata.get("deletionTimestamp"):
        raise _binding_conflict(pod, "is being deleted, cannot be assigned to a host")
    if present:
        raise _binding_conflict(pod, f'is already assigned to node "{present}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(pod, "has non-empty .spec.schedulingGates")
    for field in ("annotations", "labels"):
        if given.get(field):
            metadata[field] = {**metadata.get(field, {}), **given[field]}
    condition: Obj = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    status = dict(pod.get("status", {}))
    others = [one for one in status.get("conditions", ()) if one["type"] != "PodScheduled"]
    status["conditions"] = [*others, condition]
    # Where it was to go is where it is, or of no interest any more.
    status.pop("nominatedNodeName", None)
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


def _uid_conflict(pod: Obj, why: str) -> StatusError:
    name = name_of(pod)
    return conflict(
        "",
        "pods",
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace_of(pod)}/{name}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}",
    )


def _binding_conflict(pod: Obj, why: str) -> StatusError:
    name = name_of(pod)
    return conflict("", "pods/binding", name, f"pod {name} {why}")
