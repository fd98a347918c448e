"""What the scheduler must know of claims: which a pod waits for, and who waits for which.

Source: kube-scheduler, framework/plugins/volumebinding/volume_binding.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.cycle import NoNodeError, PerPod, Rejection
from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.ownership import key_of
from pytest_kwait.simulator.controllers.volumes.matching import class_of, find_volume
from pytest_kwait.simulator.controllers.volumes.protection import claims_of_pod
from pytest_kwait.simulator.controllers.volumes.provisioning import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_delayed,
)
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.scheduler.algorithm.cycle import Check, Cycle, PredicatePerPod
    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["VolumePlacement"]

_NOT_FOUND = Rejection(("node(s) didn't find available persistent volumes to bind",))


class VolumePlacement:
    """Holds pods back until their claims have volumes.

    Args:
        api: the cluster.
        retry: called with the key of a pod that may fit now.
    """

    def __init__(self, api: ClusterApi, retry: Callable[[str], None]) -> None:
        self._api = api
        self._retry = retry
        self._waiting: dict[str, set[str]] = {}
        self.predicate: PerPod[PredicatePerPod] = PerPod(self._check)
        api.subscribe("persistentvolumeclaims", self._claim_changed)
        api.subscribe("persistentvolumes", self._volume_changed)

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
        self._waiting.setdefault(key, set()).add(key_of(pod))

    def _claims(self, pod: Obj) -> list[Obj]:
        """Return the claims that get their volume with the pod's node.

        Raises:
            NoNodeError: a claim is missing, lost, going, or waits for its volume alone.
        """
        delayed = []
        for name in claims_of_pod(pod):
            claim = self._api.find("persistentvolumeclaims", name, namespace_of(pod))
            if claim is None:
                self._wait(pod, name)
                raise NoNodeError(f'persistentvolumeclaim "{name}" not found')
            if (claim.get("status") or {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                raise NoNodeError(
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
                    f' "{volume}"'
                )
            if is_being_deleted(claim):
                raise NoNodeError(f'persistentvolumeclaim "{name}" is being deleted')
            if (claim.get("status") or {}).get("phase") == "Bound":
                continue
            annotations = claim["metadata"].get("annotations") or {}
            if not is_delayed(self._api, claim) and SELECTED_NODE not in annotations:
                self._wait(pod, name)
                raise NoNodeError("pod has unbound immediate PersistentVolumeClaims")
            delayed.append(claim)
        return delayed

    def _check(self, cycle: Cycle) -> Check | None:
        pod = cycle.pod.pod
        if self._plan(pod, self._claims(pod)) is None:
            return lambda _: _NOT_FOUND
        return None

    def _plan(self, pod: Obj, claims: list[Obj]) -> list[tuple[Obj, Obj | None]] | None:
        """Return what each claim gets, None for a volume that is made; None where one gets none."""
        plan: list[tuple[Obj, Obj | None]] = []
        for claim in claims:
            taken = {uid_of(volume) for _, volume in plan if volume is not None}
            free = [one for one in self._api.list("persistentvolumes") if uid_of(one) not in taken]
            volume = find_volume(claim, free)
            if volume is None:
                found = self._api.find("storageclasses.storage.k8s.io", class_of(claim))
                if found is None or found["provisioner"].startswith("kubernetes.io/"):
                    self._wait(pod, name_of(claim))
                    return None
            plan.append((claim, volume))
        return plan

    def reserve(self, pod: Obj, node: str) -> bool:
        """Give the pod's claims their volumes; whether they all have them already."""
        claims = self._claims(pod)
        for claim, volume in self._plan(pod, claims) or ():
            if volume is None:
                changed = clone(claim)
                changed["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
                if changed != claim:
                    self._api.update("persistentvolumeclaims", changed)
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
                self._api.update("persistentvolumes", changed)
            # Only now: its own changes are no news for the pod.
            self._wait(pod, name_of(claim))
        return not claims
