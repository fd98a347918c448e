"""The ephemeral volume controller: creates the claims of generic ephemeral volumes.

Such a claim lives as long as its pod.

Source: kube-controller-manager, volume/ephemeral/controller.go; component-helpers,
storage/ephemeral/ephemeral.go.
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
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

_CLAIMS = "persistentvolumeclaims"


def find_ownership_problem(claim: Obj, pod: Obj) -> str | None:
    """Return the error of a claim not owned by the pod; None otherwise."""
    if any(
        reference["uid"] == uid_of(pod) and reference.get("controller")
        for reference in claim["metadata"].get("ownerReferences") or ()
    ):
        return None
    return f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"


class EphemeralVolumeController:
    """Creates the claims of pods' generic ephemeral volumes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "ephemeral_volume")
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "ephemeral-volume")
        cluster.subscribe("pods", self._pod_changed)
        cluster.subscribe(_CLAIMS, self._claim_changed)

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
        pod = self._cluster.find("pods", name, namespace)
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
        stored_claim = self._cluster.find(_CLAIMS, name, namespace_of(pod))
        if stored_claim is not None:
            why = find_ownership_problem(stored_claim, pod)
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
            self._cluster.create(_CLAIMS, claim, namespace_of(pod))
        except StatusError as error:
            raise StatusError(
                error.code, error.reason, f"create PVC {name}: {error.message}"
            ) from error
