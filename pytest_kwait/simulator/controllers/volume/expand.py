"""The expand controller: grows bound claims.

Source: kube-controller-manager, volume/expand/expand_controller.go; kubernetes-csi,
external-resizer pkg/controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.simulator.controllers.volume.persistent_volume import HOST_PATH
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, name_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

_KIND = ("v1", "PersistentVolumeClaim")

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "persistentvolumes"


class ExpandController:
    """Expands volumes of the cluster's own provisioner; records an event for others."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting = EventRecorder(cluster, "volume_expand")
        self._resizer = EventRecorder(cluster, f"external-resizer {HOST_PATH}")
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "volume-expand")
        cluster.subscribe(_CLAIMS, self._changed)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        if (
            change != "DELETED"
            and old is not None
            and new["spec"] != old["spec"]
            and _is_expansion_requested(new)
        ):
            self._queue.add(key_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        claim = self._cluster.find(_CLAIMS, name, namespace)
        volume = self._cluster.find(
            _VOLUMES, (claim or {"spec": {}})["spec"].get("volumeName") or ""
        )
        if claim is None or volume is None or not _is_expansion_requested(claim):
            return
        if (volume["spec"].get("claimRef") or {}).get("uid") != uid_of(claim):
            return
        text = "waiting for an external controller to expand this PVC"
        self._waiting.event(claim, _KIND, NORMAL, "ExternalExpanding", text)
        annotations = volume["metadata"].get("annotations") or {}
        if annotations.get("pv.kubernetes.io/provisioned-by") == HOST_PATH:
            self._grow(claim, volume)

    def _grow(self, claim: Obj, volume: Obj) -> None:
        size = claim["spec"]["resources"]["requests"]["storage"]
        text = f"External resizer is resizing volume {name_of(volume)}"
        self._resizer.event(claim, _KIND, NORMAL, "Resizing", text)
        before = clone(claim.get("status") or {})
        stamp = self._cluster.clock.stamp()
        resizing = {
            "type": "Resizing", "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp
        }  # fmt: skip
        doing = {
            **before,
            "allocatedResources": {"storage": size},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            "conditions": [*(before.get("conditions") or ()), resizing],
        }
        claim = self._cluster.update_status(_CLAIMS, {**clone(claim), "status": doing})
        if parse_value(volume["spec"]["capacity"]["storage"]) < parse_value(size):
            changed = clone(volume)
            changed["spec"]["capacity"]["storage"] = size
            self._cluster.update(_VOLUMES, changed)
        done = {
            **before,
            "capacity": {**(before.get("capacity") or {}), "storage": size},
            "allocatedResources": {"storage": size},
        }
        stored = self._cluster.update_status(_CLAIMS, {**clone(claim), "status": done})
        text = "Resize volume succeeded"
        self._resizer.event(stored, _KIND, NORMAL, "VolumeResizeSuccessful", text)


def _is_expansion_requested(claim: Obj) -> bool:
    """Return whether a bound claim requests more than its capacity."""
    status = claim.get("status") or {}
    requested = (claim["spec"].get("resources") or {}).get("requests") or {}
    has = (status.get("capacity") or {}).get("storage", 0)
    return status.get("phase") == "Bound" and parse_value(has) < parse_value(
        requested.get("storage", 0)
    )
