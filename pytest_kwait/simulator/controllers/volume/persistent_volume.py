"""The persistent volume controller: binds claims and provisions volumes.

Source: kube-controller-manager, persistentvolume/pv_controller.go (`syncClaim`, `syncVolume`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.volume_claims import find_default_class, has_no_class
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.volume.volume_matching import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    find_matching_volume,
    find_mismatch,
    is_binding_delayed,
    is_bound_to_claim,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    list_pod_claims,
    name_of,
    namespace_of,
    storage_class_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

HOST_PATH = "kwait.dev/host-path"
"""The cluster's own provisioner."""

_CLASSES = "storageclasses.storage.k8s.io"
_KIND = ("v1", "PersistentVolumeClaim")
_PROVISIONERS = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "persistentvolumes"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# Seconds until a claim without a volume is synced again. Source: kube-controller-manager,
# `pvclaimbinder-sync-period`.
_RESYNC_PERIOD = 15.0


class VolumeProvisioner:
    """Provisions volumes by the cluster's own provisioner, and requests external ones.

    Source: kube-controller-manager, persistentvolume/pv_controller.go, `provisionClaim`.
    """

    def __init__(self, cluster: Cluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    def set_default_class(self, claim: Obj) -> bool:
        """Set the default class of a claim without one; return whether it changed."""
        name = find_default_class(self._cluster) if has_no_class(claim) else None
        if name is None:
            return False
        changed = clone(claim)
        changed["spec"]["storageClassName"] = name
        self._cluster.update("persistentvolumeclaims", changed)
        return True

    def provision(self, claim: Obj) -> None:
        """Provision a volume for the claim, or record the failure."""
        name = storage_class_of(claim)
        storage_class = self._cluster.find(_CLASSES, name)
        if storage_class is None:
            why = f'storageclass.storage.k8s.io "{name}" not found'
            self._record_event(claim, WARNING, "ProvisioningFailed", why)
            return
        provisioner = storage_class["provisioner"]
        if provisioner.startswith("kubernetes.io/"):
            why = f"no volume plugin matched name: {provisioner}"
            self._record_event(claim, WARNING, "ProvisioningFailed", why)
            return
        annotations = claim["metadata"].get("annotations") or {}
        if any(annotations.get(annotation) != provisioner for annotation in _PROVISIONERS):
            changed = clone(claim)
            added = dict.fromkeys(_PROVISIONERS, provisioner)
            changed["metadata"].setdefault("annotations", {}).update(added)
            claim = self._cluster.update("persistentvolumeclaims", changed)
        message = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        self._record_event(claim, NORMAL, "ExternalProvisioning", message)
        if provisioner == HOST_PATH:
            self._make(claim, storage_class)

    def _make(self, claim: Obj, storage_class: Obj) -> None:
        spec, name = claim["spec"], f"pvc-{uid_of(claim)}"
        about = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
        self._record_event(claim, NORMAL, "Provisioning", about)
        volume: Obj = {
            "metadata": {
                "name": name,
                "annotations": {"pv.kubernetes.io/provisioned-by": HOST_PATH},
            },
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": list(spec["accessModes"]),
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": name_of(storage_class),
                "hostPath": {"path": f"/var/lib/kwait/{name}", "type": "DirectoryOrCreate"},
                "claimRef": _make_claim_reference(claim),
            },
        }
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if node:
            here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            required = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
            volume["spec"]["nodeAffinity"] = {"required": required}
        try:
            self._cluster.create("persistentvolumes", volume)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                why = f'failed to provision volume with StorageClass "{name_of(storage_class)}"'
                self._record_event(claim, WARNING, "ProvisioningFailed", f"{why}: {error.message}")
            return
        done = f"Successfully provisioned volume {name}"
        self._record_event(claim, NORMAL, "ProvisioningSucceeded", done)

    def _record_event(self, claim: Obj, severity: str, reason: str, message: str) -> None:
        self._recorder.event(claim, _KIND, severity, reason, message)


class PersistentVolumeController:
    """Binds claims and volumes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "persistentvolume-controller")
        self._provisioning = VolumeProvisioner(cluster, self._recorder)
        name = "persistentvolume-binder-controller"
        self._claims: Workqueue[str] = Workqueue(cluster, self._sync_claim, name)
        self._volumes: Workqueue[str] = Workqueue(cluster, self._sync_volume, name)
        self._by_class: dict[str, dict[str, Obj]] = {}
        self._by_volume: dict[str, str] = {}
        cluster.subscribe(_VOLUMES, self._volume_changed)
        cluster.subscribe(_CLAIMS, self._claim_changed)

    def _volume_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        name = name_of(new)
        for volume_version in (old, new):
            if volume_version is not None:
                self._by_class.get(storage_class_of(volume_version), {}).pop(name, None)
        if change == "DELETED":
            self._volumes.forget(name)
            key = self._by_volume.get(name)
            if key is not None:
                self._claims.add(key)
            return
        self._by_class.setdefault(storage_class_of(new), {})[name] = new
        self._volumes.add(name)

    def _claim_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key, name = key_of(new), new["spec"].get("volumeName")
        if change == "DELETED":
            self._claims.forget(key)
            if name and self._by_volume.get(name) == key:
                del self._by_volume[name]
            if name:
                self._volumes.add(name)
            return
        if name:
            self._by_volume.setdefault(name, key)
        self._claims.add(key)

    # -- claims

    def _sync_claim(self, key: str) -> None:
        namespace, name = split_key(key)
        claim = self._cluster.find(_CLAIMS, name, namespace)
        if claim is None:
            return
        if _BIND_COMPLETED in (claim["metadata"].get("annotations") or {}):
            self._sync_bound(claim)
            return
        volume_name = claim["spec"].get("volumeName")
        bound = (
            self._bind_matching(claim) if not volume_name else self._bind_named(claim, volume_name)
        )
        if not bound:
            self._claims.add_after(key, _RESYNC_PERIOD)

    def _bind_matching(self, claim: Obj) -> bool:
        """Bind a claim to a matching volume; return whether there was one."""
        delayed = is_binding_delayed(self._cluster, claim)
        candidates = self._by_class.get(storage_class_of(claim), {}).values()
        volume = find_matching_volume(claim, candidates, delayed=delayed)
        if volume is not None:
            self._bind(volume, claim)
            return True
        if self._provisioning.set_default_class(claim):
            return True
        if not storage_class_of(claim):
            message = "no persistent volumes available for this claim and no storage class is set"
            self._record_event(claim, NORMAL, "FailedBinding", message)
        elif delayed:
            self._record_event(claim, NORMAL, *self._make_delayed_event(claim))
        else:
            self._provisioning.provision(claim)
        return False

    def _make_delayed_event(self, claim: Obj) -> tuple[str, str]:
        """Return the event of a claim with delayed binding.

        Source: pv_controller.go, `emitEventForUnboundDelayBindingClaim`.
        """
        names = [
            name_of(pod)
            for pod in self._cluster.list("pods", namespace_of(claim))
            if not pod["spec"].get("nodeName") and name_of(claim) in list_pod_claims(pod)
        ]
        if not names:
            message = "waiting for first consumer to be created before binding"
            return "WaitForFirstConsumer", message
        pods = f"pod {names[0]}" if len(names) == 1 else f"pods {','.join(names)}"
        return "WaitForPodScheduled", f"waiting for {pods} to be scheduled"

    def _bind_named(self, claim: Obj, name: str) -> bool:
        """Bind a claim to the volume that it names; return whether it is bound."""
        volume = self._cluster.find(_VOLUMES, name)
        if volume is None:
            return False
        if not volume["spec"].get("claimRef"):
            why = find_mismatch(volume, claim)
            if why is not None:
                message = f'Cannot bind to requested volume "{name}": {why}'
                self._record_event(claim, WARNING, "VolumeMismatch", message)
                return False
        elif not is_bound_to_claim(volume, claim):
            message = f'volume "{name}" already bound to a different claim.'
            self._record_event(claim, WARNING, "FailedBinding", message)
            return False
        self._bind(volume, claim)
        return True

    def _sync_bound(self, claim: Obj) -> None:
        """Update the phase of a bound claim from its volume."""
        name = claim["spec"].get("volumeName")
        volume = self._cluster.find(_VOLUMES, name) if name else None
        if not name:
            lost = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            self._mark_lost(claim, "ClaimLost", lost)
        elif volume is None:
            lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            self._mark_lost(claim, "ClaimLost", lost)
        elif not volume["spec"].get("claimRef") or is_bound_to_claim(volume, claim):
            self._bind(volume, claim)
        else:
            lost = "Two claims are bound to the same volume, this one is bound incorrectly"
            self._mark_lost(claim, "ClaimMisbound", lost)

    def _mark_lost(self, claim: Obj, reason: str, message: str) -> None:
        if (claim.get("status") or {}).get("phase") == "Lost":
            return
        stored = self._cluster.update_status(_CLAIMS, {**claim, "status": {"phase": "Lost"}})
        self._record_event(stored, WARNING, reason, message)

    def _record_event(self, claim: Obj, severity: str, reason: str, message: str) -> None:
        self._recorder.event(claim, _KIND, severity, reason, message)

    # -- both

    def _bind(self, volume: Obj, claim: Obj) -> None:
        """Complete a binding: the volume first, its phase, then the claim."""
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != uid_of(claim):
            changed = clone(volume)
            if not is_bound_to_claim(volume, claim):
                changed["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
            changed["spec"]["claimRef"] = _make_claim_reference(claim)
            volume = self._cluster.update(_VOLUMES, changed)
        volume = self._phase(volume, "Bound")
        changed = clone(claim)
        annotations = changed["metadata"].setdefault("annotations", {})
        if claim["spec"].get("volumeName") != name_of(volume):
            annotations[BOUND_BY_CONTROLLER] = "yes"
            changed["spec"]["volumeName"] = name_of(volume)
        annotations[_BIND_COMPLETED] = "yes"
        if changed != claim:
            claim = self._cluster.update(_CLAIMS, changed)
        status = {
            **(claim.get("status") or {}),
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
        }
        status.setdefault("capacity", volume["spec"].get("capacity") or {})
        if status != claim.get("status"):
            self._cluster.update_status(_CLAIMS, {**claim, "status": status})

    def _phase(self, volume: Obj, phase: str) -> Obj:
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        status = {"phase": phase, "lastPhaseTransitionTime": self._cluster.clock.stamp()}
        return self._cluster.update_status(_VOLUMES, {**volume, "status": status})

    # -- volumes

    def _sync_volume(self, name: str) -> None:
        volume = self._cluster.find(_VOLUMES, name)
        if volume is None:
            return
        reference = volume["spec"].get("claimRef")
        if not reference:
            self._phase(volume, "Available")
            return
        claim_name, namespace = reference["name"], reference.get("namespace") or ""
        claim = self._cluster.find(_CLAIMS, claim_name, namespace)
        if not reference.get("uid"):
            self._phase(volume, "Available")
            if claim is not None:
                self._claims.add(key_of(claim))
        elif claim is None or uid_of(claim) != reference["uid"]:
            self._reclaim(self._phase(volume, "Released"))
        elif not claim["spec"].get("volumeName"):
            self._claims.add(key_of(claim))
        elif claim["spec"]["volumeName"] == name:
            self._phase(volume, "Bound")
            self._claims.add(key_of(claim))
        else:
            self._release_volume(volume)

    def _reclaim(self, volume: Obj) -> None:
        spec = volume["spec"]
        is_host_path = spec.get("hostPath") is not None or _provisioner(volume) == HOST_PATH
        going = "deletionTimestamp" in volume["metadata"]
        if spec.get("persistentVolumeReclaimPolicy") == "Delete" and is_host_path and not going:
            self._cluster.delete(_VOLUMES, name_of(volume))

    def _release_volume(self, volume: Obj) -> None:
        """Release a volume whose claim is bound to another one."""
        changed = clone(volume)
        annotations = changed["metadata"].get("annotations") or {}
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            del changed["spec"]["claimRef"]
        else:
            changed["spec"]["claimRef"].pop("uid", None)
        self._phase(self._cluster.update(_VOLUMES, changed), "Available")


def _provisioner(volume: Obj) -> str | None:
    annotations = volume["metadata"].get("annotations") or {}
    provisioner: str | None = annotations.get("pv.kubernetes.io/provisioned-by")
    return provisioner


def _make_claim_reference(claim: Obj) -> Obj:
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "apiVersion": "v1",
        "resourceVersion": claim["metadata"]["resourceVersion"],
    }
