"""The controllers of claims that pods use: creation for ephemeral volumes, and protection.

Protection delays the deletion of claims, volumes and classes in use. The claim of a generic
ephemeral volume lives as long as its pod.

Source: kube-controller-manager, volume/{pvcprotection,pvprotection,vacprotection},
volume/ephemeral/controller.go; component-helpers, storage/ephemeral/ephemeral.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    list_pod_claims,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

_CLAIM = "kubernetes.io/pvc-protection"
_VOLUME = "kubernetes.io/pv-protection"
_CLASS = "kubernetes.io/vac-protection"
_CLASSES = "volumeattributesclasses.storage.k8s.io"


class ProtectionController:
    """Removes the protection finalizers of unused claims, volumes and classes."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._users: dict[str, set[str]] = {}
        name = "pvc-protection-controller"
        self._claims: Workqueue[str] = Workqueue(api.clock, self._release_claim, name)
        self._volumes: Workqueue[str] = Workqueue(
            api.clock, self._release_volume, "pv-protection-controller"
        )
        self._classes: Workqueue[str] = Workqueue(
            api.clock, self._release_class, "vac-protection-controller"
        )
        api.subscribe("pods", self._pod_changed)
        api.subscribe("persistentvolumeclaims", self._claim_changed)
        api.subscribe("persistentvolumes", self._volume_changed)
        api.subscribe(_CLASSES, self._class_changed)

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
        for name in _list_attribute_classes(new) | (
            _list_attribute_classes(old) if old is not None else set()
        ):
            self._classes.add(name)

    def _release_claim(self, key: str) -> None:
        namespace, name = split_key(key)
        claim = self._api.find("persistentvolumeclaims", name, namespace)
        if claim is not None and is_being_deleted(claim) and not self._users.get(key):
            self._release("persistentvolumeclaims", claim, _CLAIM)

    def _release_volume(self, name: str) -> None:
        volume = self._api.find("persistentvolumes", name)
        if volume is None or not is_being_deleted(volume):
            return
        if (volume.get("status") or {}).get("phase") != "Bound":
            self._release("persistentvolumes", volume, _VOLUME)

    def _release_class(self, name: str) -> None:
        found = self._api.find(_CLASSES, name)
        if found is None or not is_being_deleted(found):
            return
        kinds = ("persistentvolumeclaims", "persistentvolumes")
        if not any(
            name in _list_attribute_classes(one) for kind in kinds for one in self._api.list(kind)
        ):
            self._release(_CLASSES, found, _CLASS)

    def _release(self, resource: str, obj: Obj, finalizer: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            return
        left = [one for one in finalizers if one != finalizer]

        def release(changed: Obj) -> None:
            changed["metadata"]["finalizers"] = left

        self._api.modify(resource, name_of(obj), namespace_of(obj), release)


def _list_attribute_classes(user: Obj) -> set[str]:
    """Return the attribute classes that a claim or a volume has or requests."""
    spec, status = user.get("spec") or {}, user.get("status") or {}
    names = {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {name for name in names if name}


_CLAIMS = "persistentvolumeclaims"


def find_ownership_problem(claim: Obj, pod: Obj) -> str | None:
    """Return the error of a claim not owned by the pod; None otherwise."""
    if any(
        one["uid"] == uid_of(pod) and one.get("controller")
        for one in claim["metadata"].get("ownerReferences") or ()
    ):
        return None
    return f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"


class EphemeralVolumeController:
    """Creates the claims."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._recorder = EventRecorder(api, "ephemeral_volume")
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "ephemeral-volume")
        api.subscribe("pods", self._pod_changed)
        api.subscribe(_CLAIMS, self._claim_changed)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "ADDED" and any(
            volume.get("ephemeral") for volume in new["spec"].get("volumes") or ()
        ):
            self._queue.add(key_of(new))

    def _claim_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            for owner in new["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Pod":
                    self._queue.add(f"{namespace_of(new)}/{owner['name']}")

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        if pod is None or is_being_deleted(pod):
            return
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("ephemeral") is None:
                continue
            try:
                self._provide(pod, volume)
            except StatusError as error:
                message = f"ephemeral volume {volume['name']}: {error.message}"
                self._recorder.event(pod, ("v1", "Pod"), WARNING, "FailedBinding", message)
                raise

    def _provide(self, pod: Obj, volume: Obj) -> None:
        name = f"{name_of(pod)}-{volume['name']}"
        present = self._api.find(_CLAIMS, name, namespace_of(pod))
        if present is not None:
            why = find_ownership_problem(present, pod)
            if why is not None:
                raise StatusError(409, "Conflict", why)
            return
        template = volume["ephemeral"]["volumeClaimTemplate"]
        metadata: Obj = {"name": name, "ownerReferences": [make_controller_ref(pod, "v1", "Pod")]}
        for field in ("labels", "annotations"):
            if (template.get("metadata") or {}).get(field):
                metadata[field] = clone(template["metadata"][field])
        claim = {"metadata": metadata, "spec": clone(template["spec"])}
        try:
            self._api.create(_CLAIMS, claim, namespace_of(pod))
        except StatusError as error:
            raise StatusError(
                error.code, error.reason, f"create PVC {name}: {error.message}"
            ) from error
