"""The VolumeBinding plugin of the cluster's scheduler: claims of a pod and their volumes.

Source: kube-scheduler, framework/plugins/volumebinding/volume_binding.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.framework.cycle_state import NoNodeError, PerPod, Rejection
from pytest_kwait.scheduler.framework.node_affinity import RequiredNodeAffinity
from pytest_kwait.simulator.controllers.volume.ephemeral import find_ownership_problem
from pytest_kwait.simulator.controllers.volume.volume_matching import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    find_matching_volume,
    is_binding_delayed,
)
from pytest_kwait.simulator.controllers.workqueue import key_of
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    list_pod_claims,
    name_of,
    namespace_of,
    storage_class_of,
    uid_of,
)
from pytest_kwait.simulator.request_info import SCHEDULER_MANAGER, internal_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.scheduler.framework.cycle_state import CycleState, NodeCheck, PredicatePerPod
    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_AFFINITY_CONFLICT = Rejection(("node(s) didn't match PersistentVolume's node affinity",))
_NO_VOLUMES_FOUND = Rejection(("node(s) didn't find available persistent volumes to bind",))


class VolumeBinding:
    """Keeps pods unscheduled until their claims have volumes.

    Args:
        retry: called with the key of a pod that may now fit.
    """

    def __init__(self, cluster: Cluster, retry: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._retry = retry
        self._waiting: dict[str, dict[str, None]] = {}
        self.predicate: PerPod[PredicatePerPod] = PerPod(self._check)
        cluster.subscribe("persistentvolumeclaims", self._claim_changed)
        cluster.subscribe("persistentvolumes", self._volume_changed)

    def _claim_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if self._waiting and change != "DELETED":
            for key in self._waiting.pop(key_of(new), ()):
                self._retry(key)

    def _volume_changed(self, change: str, _new: Obj, _old: Obj | None) -> None:
        if self._waiting and change != "DELETED":
            for keys in [*self._waiting.values()]:
                for key in keys:
                    self._retry(key)

    def _wait(self, pod: Obj, claim: str) -> None:
        key = f"{namespace_of(pod)}/{claim}"
        self._waiting.setdefault(key, {})[key_of(pod)] = None

    def _claims(self, pod: Obj) -> tuple[list[Obj], list[Obj]]:
        """Return the claims with delayed binding, and the volumes of bound ones.

        Raises:
            NoNodeError: a claim is missing, lost, being deleted, or unbound with immediate binding.
        """
        delayed, volumes = [], []
        own = {
            f"{name_of(pod)}-{volume['name']}"
            for volume in pod["spec"].get("volumes") or ()
            if volume.get("ephemeral") is not None
        }
        for name in list_pod_claims(pod):
            claim = self._cluster.find("persistentvolumeclaims", name, namespace_of(pod))
            if claim is None:
                self._wait(pod, name)
                claim_name = f'persistentvolumeclaim "{name}"'
                if name in own:
                    awaited = f"waiting for ephemeral volume controller to create the {claim_name}"
                    raise NoNodeError(awaited)
                raise NoNodeError(f"{claim_name} not found")
            if (claim.get("status") or {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                raise NoNodeError(
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
                    f' "{volume}"'
                )
            if is_being_deleted(claim):
                raise NoNodeError(f'persistentvolumeclaim "{name}" is being deleted')
            alien = find_ownership_problem(claim, pod) if name in own else None
            if alien is not None:
                self._wait(pod, name)
                raise NoNodeError(alien)
            if (claim.get("status") or {}).get("phase") == "Bound":
                bound_volume = self._cluster.find(
                    "persistentvolumes", claim["spec"].get("volumeName") or ""
                )
                if bound_volume is not None:
                    volumes.append(bound_volume)
                continue
            annotations = claim["metadata"].get("annotations") or {}
            if not is_binding_delayed(self._cluster, claim) and SELECTED_NODE not in annotations:
                self._wait(pod, name)
                raise NoNodeError("pod has unbound immediate PersistentVolumeClaims")
            delayed.append(claim)
        return delayed, volumes

    def _check(self, cycle: CycleState) -> NodeCheck | None:
        pod = cycle.pod.pod
        delayed, volumes = self._claims(pod)
        if not delayed and not any(volume["spec"].get("nodeAffinity") for volume in volumes):
            return None

        def check(info: NodeInfo) -> Rejection | None:
            node = info.name, info.labels
            if not all(_is_volume_usable_on(volume, *node) for volume in volumes):
                return _NODE_AFFINITY_CONFLICT
            return _NO_VOLUMES_FOUND if self._plan(pod, delayed, *node) is None else None

        return check

    def _plan(
        self, pod: Obj, claims: list[Obj], node: str, labels: Mapping[str, str]
    ) -> list[tuple[Obj, Obj | None]] | None:
        """Return the volume of each claim on a node; None if a claim has none.

        A volume of None is to be provisioned.
        """
        plan: list[tuple[Obj, Obj | None]] = []
        for claim in claims:
            taken = {uid_of(volume) for _, volume in plan if volume is not None}
            free = [
                volume
                for volume in self._cluster.list("persistentvolumes")
                if uid_of(volume) not in taken and _is_volume_usable_on(volume, node, labels)
            ]
            volume = find_matching_volume(claim, free)
            if volume is None:
                storage_class = self._cluster.find(
                    "storageclasses.storage.k8s.io", storage_class_of(claim)
                )
                if storage_class is None or storage_class["provisioner"].startswith(
                    "kubernetes.io/"
                ):
                    self._wait(pod, name_of(claim))
                    return None
            plan.append((claim, volume))
        return plan

    def reserve(self, pod: Obj, node: str) -> bool:
        """Assign volumes to the pod's claims; return whether all have theirs already."""
        claims, _ = self._claims(pod)
        if not claims:
            return True
        labels = self._cluster.get("nodes", node)["metadata"].get("labels") or {}
        caller = internal_caller(SCHEDULER_MANAGER)
        for claim, volume in self._plan(pod, claims, node, labels) or ():
            if volume is None:
                changed = clone(claim)
                changed["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
                if changed != claim:
                    self._cluster.update("persistentvolumeclaims", changed, caller=caller)
            elif not volume["spec"].get("claimRef"):
                changed = clone(volume)
                changed["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
                changed["spec"]["claimRef"] = {
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                    "namespace": namespace_of(claim),
                    "name": name_of(claim),
                    "uid": uid_of(claim),
                    "resourceVersion": claim["metadata"]["resourceVersion"],
                }
                self._cluster.update("persistentvolumes", changed, caller=caller)
            # Subscribed last: its own changes must not queue the pod.
            self._wait(pod, name_of(claim))
        return False


def _is_volume_usable_on(volume: Obj, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether a volume can be used on a node.

    Source: component-helpers, storage/volume/helpers.go, `CheckNodeAffinity`.
    """
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if not required:
        return True
    return RequiredNodeAffinity({"affinity": {"nodeAffinity": {_REQUIRED: required}}}).matches(
        node, labels
    )
