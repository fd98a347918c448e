"""Which nodes a DaemonSet wants a pod on, and which node a pod of it is for."""

from __future__ import annotations

from pytest_kwait.scheduler.framework.invalid_objects import InvalidObject
from pytest_kwait.scheduler.framework.node_affinity import RequiredNodeAffinity
from pytest_kwait.scheduler.framework.tolerations import (
    DO_NOT_SCHEDULE_EFFECTS,
    find_untolerated_taint,
    read_tolerations,
)
from pytest_kwait.simulator.controllers.pod_control import make_pod_from_template
from pytest_kwait.simulator.objects import Obj, clone, labels_of, name_of

__all__ = [
    "GENERATION",
    "GENERATION_LABEL",
    "HASH_LABEL",
    "KIND",
    "NodePlacement",
    "find_target_node",
]

KIND = ("apps/v1", "DaemonSet")
HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION = "deprecated.daemonset.template.generation"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE = "node.kubernetes.io"
# Source: kube-controller-manager, daemon/util/daemonset_util.go,
# `AddOrUpdateDaemonPodTolerations`.
_TOLERATED = (
    (f"{_NODE}/not-ready", "NoExecute"),
    (f"{_NODE}/unreachable", "NoExecute"),
    (f"{_NODE}/disk-pressure", "NoSchedule"),
    (f"{_NODE}/memory-pressure", "NoSchedule"),
    (f"{_NODE}/pid-pressure", "NoSchedule"),
    (f"{_NODE}/unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = (f"{_NODE}/network-unavailable", "NoSchedule")


def find_target_node(pod: Obj) -> str | None:
    """Return the node a pod is on or is to be on; None where it does not say."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In":
                values = field.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


class NodePlacement:
    """What one DaemonSet asks of nodes; read once for all of them.

    Args:
        daemon_set: the set.

    Source: kube-controller-manager, daemon_controller.go, `NodeShouldRunDaemonPod`.
    """

    def __init__(self, daemon_set: Obj) -> None:
        self._set = daemon_set
        template = daemon_set["spec"]["template"]
        self._spec: Obj = template["spec"]
        self._tolerations = read_tolerations({"tolerations": self._all_tolerations()})
        try:
            self._required: RequiredNodeAffinity | None = RequiredNodeAffinity(self._spec)
        except InvalidObject:
            self._required = None

    def _all_tolerations(self) -> list[Obj]:
        tolerations = [dict(one) for one in self._spec.get("tolerations") or ()]
        wanted = list(_TOLERATED)
        if self._spec.get("hostNetwork"):
            wanted.append(_TOLERATED_ON_HOST_NETWORK)
        for key, effect in wanted:
            one = {"key": key, "operator": "Exists", "effect": effect}
            if one not in tolerations:
                tolerations.append(one)
        return tolerations

    def on(self, node: Obj) -> tuple[bool, bool]:
        """Return whether a pod is to come to `node`, and whether one there may stay."""
        name = name_of(node)
        if self._spec.get("nodeName") not in (None, "", name):
            return False, False
        if self._required is None or not self._required.matches(name, labels_of(node)):
            return False, False
        taints = (node.get("spec") or {}).get("taints") or ()
        repelling = [one for one in taints if one.get("effect") in DO_NOT_SCHEDULE_EFFECTS]
        if find_untolerated_taint(repelling, self._tolerations) is None:
            return True, True
        evicting = [one for one in repelling if one["effect"] == "NoExecute"]
        return False, find_untolerated_taint(evicting, self._tolerations) is None

    def pod(self, node: str, digest: str) -> Obj:
        """Return the pod for a node."""
        pod = make_pod_from_template(self._set["spec"]["template"], self._set, *KIND)
        labels = pod["metadata"].setdefault("labels", {})
        generation = (self._set["metadata"].get("annotations") or {}).get(GENERATION)
        if generation is not None:
            labels[GENERATION_LABEL] = generation
        labels[HASH_LABEL] = digest
        spec = pod["spec"]
        spec["tolerations"] = self._all_tolerations()
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = clone(spec.get("affinity") or {})
        on_nodes = affinity.setdefault("nodeAffinity", {})
        on_nodes[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        spec["affinity"] = affinity
        return pod

    def is_new(self, pod: Obj, digest: str) -> bool:
        """Whether a pod is of the present template."""
        labels = labels_of(pod)
        generation = (self._set["metadata"].get("annotations") or {}).get(GENERATION)
        return labels.get(HASH_LABEL) == digest or (
            generation is not None and labels.get(GENERATION_LABEL) == generation
        )
