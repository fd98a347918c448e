"""Volumes that are made because a claim asks for one of a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.volume_claims import find_default_class, has_no_class
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import key_of
from pytest_kwait.simulator.controllers.volume.matching import get_storage_class
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.event_recorder import EventRecorder

__all__ = [
    "BOUND_BY_CONTROLLER",
    "HOST_PATH",
    "SELECTED_NODE",
    "VolumeProvisioner",
    "is_binding_delayed",
]

HOST_PATH = "kwait.dev/host-path"
"""The provisioner that the cluster has of its own."""

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLASSES = "storageclasses.storage.k8s.io"
_KIND = ("v1", "PersistentVolumeClaim")
_PROVISIONERS = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)


def is_binding_delayed(api: SimulatedCluster, claim: Obj) -> bool:
    """Whether the claim gets no volume before a pod that uses it has a node."""
    annotations = claim["metadata"].get("annotations") or {}
    name = get_storage_class(claim)
    if SELECTED_NODE in annotations or not name:
        return False
    found = api.find(_CLASSES, name)
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


class VolumeProvisioner:
    """Makes volumes of the cluster's own provisioner, and asks others for theirs.

    Args:
        api: the cluster.
        recorder: tells what was done.

    Source: kube-controller-manager, persistentvolume/pv_controller.go, `provisionClaim`.
    """

    def __init__(self, api: SimulatedCluster, recorder: EventRecorder) -> None:
        self._api = api
        self._recorder = recorder

    def give_default_class(self, claim: Obj) -> bool:
        """Give a claim that names no class the default one; whether that changed it."""
        name = find_default_class(self._api) if has_no_class(claim) else None
        if name is None:
            return False
        changed = clone(claim)
        changed["spec"]["storageClassName"] = name
        self._api.update("persistentvolumeclaims", changed)
        return True

    def provide(self, claim: Obj) -> None:
        """Make a volume for the claim, or say why there will be none."""
        name = get_storage_class(claim)
        found = self._api.find(_CLASSES, name)
        if found is None:
            why = f'storageclass.storage.k8s.io "{name}" not found'
            self._tell(claim, WARNING, "ProvisioningFailed", why)
            return
        provisioner = found["provisioner"]
        if provisioner.startswith("kubernetes.io/"):
            why = f"no volume plugin matched name: {provisioner}"
            self._tell(claim, WARNING, "ProvisioningFailed", why)
            return
        annotations = claim["metadata"].get("annotations") or {}
        if any(annotations.get(one) != provisioner for one in _PROVISIONERS):
            changed = clone(claim)
            told = dict.fromkeys(_PROVISIONERS, provisioner)
            changed["metadata"].setdefault("annotations", {}).update(told)
            claim = self._api.update("persistentvolumeclaims", changed)
        message = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        self._tell(claim, NORMAL, "ExternalProvisioning", message)
        if provisioner == HOST_PATH:
            self._make(claim, found)

    def _make(self, claim: Obj, storage_class: Obj) -> None:
        spec, name = claim["spec"], f"pvc-{uid_of(claim)}"
        about = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
        self._tell(claim, NORMAL, "Provisioning", about)
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
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": namespace_of(claim),
                    "name": name_of(claim),
                    "uid": uid_of(claim),
                    "apiVersion": "v1",
                    "resourceVersion": claim["metadata"]["resourceVersion"],
                },
            },
        }
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if node:
            here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            required = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
            volume["spec"]["nodeAffinity"] = {"required": required}
        try:
            self._api.create("persistentvolumes", volume)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                why = f'failed to provision volume with StorageClass "{name_of(storage_class)}"'
                self._tell(claim, WARNING, "ProvisioningFailed", f"{why}: {error.message}")
            return
        done = f"Successfully provisioned volume {name}"
        self._tell(claim, NORMAL, "ProvisioningSucceeded", done)

    def _tell(self, claim: Obj, severity: str, reason: str, message: str) -> None:
        self._recorder.event(claim, _KIND, severity, reason, message)
