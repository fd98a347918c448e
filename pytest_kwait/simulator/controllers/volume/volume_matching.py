"""Matching of persistent volumes and claims.

Source: component-helpers, storage/volume/pv_helpers.go; kube-controller-manager,
persistentvolume/pv_controller.go (`checkVolumeSatisfyClaim`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.objects import (
    Obj,
    labels_of,
    name_of,
    namespace_of,
    storage_class_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_CLASSES = "storageclasses.storage.k8s.io"


def is_bound_to_claim(volume: Obj, claim: Obj) -> bool:
    """Return whether the volume's reference names the claim, by UID if it has one."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    named = (reference.get("namespace"), reference.get("name"))
    if named != (namespace_of(claim), name_of(claim)):
        return False
    return not reference.get("uid") or reference["uid"] == uid_of(claim)


def _get_storage(amounts: Obj | None) -> int:
    return parse_value((amounts or {}).get("storage", 0))


def find_mismatch(volume: Obj, claim: Obj) -> str | None:
    """Return why the volume does not match the claim; None if it does."""
    claim_spec, volume_spec = claim["spec"], volume["spec"]
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{name_of(volume)}"'
    if _get_storage(volume_spec.get("capacity")) < _get_storage(
        (claim_spec.get("resources") or {}).get("requests")
    ):
        return "requested PV is too small"
    if storage_class_of(volume) != storage_class_of(claim):
        return "storageClassName does not match"
    name = "volumeAttributesClassName"
    if (claim_spec.get(name) or "") != (volume_spec.get(name) or ""):
        return "volumeAttributesClassName does not match"
    if claim_spec.get("volumeMode", "Filesystem") != volume_spec.get("volumeMode", "Filesystem"):
        return "incompatible volumeMode"
    if not set(claim_spec.get("accessModes") or ()) <= set(volume_spec.get("accessModes") or ()):
        return "incompatible accessMode"
    return None


def find_matching_volume(
    claim: Obj, volumes: Iterable[Obj], *, delayed: bool = False
) -> Obj | None:
    """Return the volume reserved for the claim, else the smallest that matches.

    Args:
        claim: an unbound claim.
        volumes: the candidates.
        delayed: whether only a reserved volume qualifies.
    """
    best: Obj | None = None
    selector = claim["spec"].get("selector")
    for volume in volumes:
        if volume["spec"].get("claimRef"):
            if is_bound_to_claim(volume, claim) and find_mismatch(volume, claim) is None:
                return volume
            continue
        if delayed or (volume.get("status") or {}).get("phase") != "Available":
            continue
        if selector is not None and not matches_label_selector(selector, labels_of(volume)):
            continue
        if find_mismatch(volume, claim) is None and (
            best is None
            or _get_storage(volume["spec"]["capacity"]) < _get_storage(best["spec"]["capacity"])
        ):
            best = volume
    return best


def is_binding_delayed(cluster: Cluster, claim: Obj) -> bool:
    """Return whether the claim is bound only after a pod using it has a node."""
    annotations = claim["metadata"].get("annotations") or {}
    name = storage_class_of(claim)
    if SELECTED_NODE in annotations or not name:
        return False
    storage_class = cluster.find(_CLASSES, name)
    return (
        storage_class is not None
        and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    )
