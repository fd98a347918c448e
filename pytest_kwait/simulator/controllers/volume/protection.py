"""The protection controllers: claims, volumes and classes in use are not deleted.

Source: kube-controller-manager, volume/{pvcprotection,pvprotection,vacprotection}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.objects import (
    Obj,
    is_being_deleted,
    list_pod_claims,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "persistentvolumes"
_CLASSES = "volumeattributesclasses.storage.k8s.io"
_CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER = "kubernetes.io/pv-protection"
_CLASS_FINALIZER = "kubernetes.io/vac-protection"


class ProtectionController:
    """Removes the protection finalizers of unused claims, volumes and classes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._users: dict[str, set[str]] = {}
        name = "pvc-protection-controller"
        self._claims: Workqueue[str] = Workqueue(cluster, self._release_claim, name)
        self._volumes: Workqueue[str] = Workqueue(
            cluster, self._release_volume, "pv-protection-controller"
        )
        self._classes: Workqueue[str] = Workqueue(
            cluster, self._release_class, "vac-protection-controller"
        )
        cluster.subscribe("pods", self._pod_changed)
        cluster.subscribe(_CLAIMS, self._claim_changed)
        cluster.subscribe(_VOLUMES, self._volume_changed)
        cluster.subscribe(_CLASSES, self._class_changed)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        # Only a pod on a node can use a volume.
        if not new["spec"].get("nodeName") and change != "DELETED":
            return
        for name in list_pod_claims(new):
            key = f"{namespace_of(new)}/{name}"
            if change != "DELETED":
                self._users.setdefault(key, set()).add(uid_of(new))
                continue
            users = self._users.get(key, set())
            users.discard(uid_of(new))
            if not users:
                self._users.pop(key, None)
                self._claims.add(key)

    def _claim_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        self._release_classes(new, old)
        if change != "DELETED" and is_being_deleted(new):
            self._claims.add(key_of(new))

    def _volume_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        self._release_classes(new, old)
        if change != "DELETED" and is_being_deleted(new):
            self._volumes.add(name_of(new))

    def _class_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and is_being_deleted(new):
            self._classes.add(name_of(new))

    def _release_classes(self, new: Obj, old: Obj | None) -> None:
        """Queue the classes that the objects name."""
        names = _list_attribute_classes(new)
        if old is not None:
            names |= _list_attribute_classes(old)
        for name in sorted(names):
            self._classes.add(name)

    def _release_claim(self, key: str) -> None:
        namespace, name = split_key(key)
        claim = self._cluster.find(_CLAIMS, name, namespace)
        if claim is not None and is_being_deleted(claim) and not self._users.get(key):
            self._release(_CLAIMS, claim, _CLAIM_FINALIZER)

    def _release_volume(self, name: str) -> None:
        volume = self._cluster.find(_VOLUMES, name)
        if volume is None or not is_being_deleted(volume):
            return
        if (volume.get("status") or {}).get("phase") != "Bound":
            self._release(_VOLUMES, volume, _VOLUME_FINALIZER)

    def _release_class(self, name: str) -> None:
        attribute_class = self._cluster.find(_CLASSES, name)
        if attribute_class is None or not is_being_deleted(attribute_class):
            return
        kinds = (_CLAIMS, "persistentvolumes")
        if not any(
            name in _list_attribute_classes(obj)
            for kind in kinds
            for obj in self._cluster.list(kind)
        ):
            self._release(_CLASSES, attribute_class, _CLASS_FINALIZER)

    def _release(self, resource: str, obj: Obj, finalizer: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            return
        remaining_finalizers = [name for name in finalizers if name != finalizer]

        def release(changed: Obj) -> None:
            changed["metadata"]["finalizers"] = remaining_finalizers

        self._cluster.modify(resource, name_of(obj), namespace_of(obj), release)


def _list_attribute_classes(user: Obj) -> set[str]:
    """Return the attribute classes that a claim or a volume has or requests."""
    spec, status = user.get("spec") or {}, user.get("status") or {}
    names = {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {name for name in names if name}
