"""Which volume suits which claim, on plain objects.

Source: component-helpers, storage/volume/pv_helpers.go; kube-controller-manager,
persistentvolume/pv_controller.go, `checkVolumeSatisfyClaim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of, uid_of
from pytest_kwait.simulator.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["find_matching_volume", "find_mismatch", "get_storage_class", "is_bound_to_claim"]

_CLASS = "volume.beta.kubernetes.io/storage-class"


def get_storage_class(obj: Obj) -> str:
    """Return the storage class of a claim or volume; empty for none."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(_CLASS) or obj["spec"].get("storageClassName") or "")


def is_bound_to_claim(volume: Obj, claim: Obj) -> bool:
    """Whether the volume names the claim, by its UID where it names one."""
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
    """Return why the volume is none for the claim; None where it is one."""
    wanted, given = claim["spec"], volume["spec"]
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{name_of(volume)}"'
    if _get_storage(given.get("capacity")) < _get_storage(
        (wanted.get("resources") or {}).get("requests")
    ):
        return "requested PV is too small"
    if get_storage_class(volume) != get_storage_class(claim):
        return "storageClassName does not match"
    name = "volumeAttributesClassName"
    if (wanted.get(name) or "") != (given.get(name) or ""):
        return "volumeAttributesClassName does not match"
    if wanted.get("volumeMode", "Filesystem") != given.get("volumeMode", "Filesystem"):
        return "incompatible volumeMode"
    if not set(wanted.get("accessModes") or ()) <= set(given.get("accessModes") or ()):
        return "incompatible accessMode"
    return None


def find_matching_volume(
    claim: Obj, volumes: Iterable[Obj], *, delayed: bool = False
) -> Obj | None:
    """Return the volume that is kept for the claim, else the smallest that suits it.

    Args:
        claim: an unbound claim.
        volumes: the candidates.
        delayed: whether only one that is kept for it will do.
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
        if selector is not None and not matches_selector(selector, labels_of(volume)):
            continue
        if find_mismatch(volume, claim) is None and (
            best is None
            or _get_storage(volume["spec"]["capacity"]) < _get_storage(best["spec"]["capacity"])
        ):
            best = volume
    return best
