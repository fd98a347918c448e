"""The rows of volumes, claims and classes, and of devices that are claimed.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import age_cell
from pytest_kwait.simulator.apiserver.printers.workload_cells import NONE
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "attributes_class_cells",
    "claim_cells",
    "device_claim_cells",
    "device_slice_cells",
    "driver_cells",
    "driver_node_cells",
    "name_and_age_cells",
    "storage_class_cells",
    "volume_attachment_cells",
    "volume_cells",
]

UNSET = "<unset>"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_SHORT_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _format_access_modes(modes: Any) -> str:
    return ",".join(short for mode, short in _SHORT_ACCESS_MODES.items() if mode in (modes or ()))


def _storage_class_name(obj: Obj) -> str:
    named: str = obj.get("spec", {}).get("storageClassName") or ""
    return _annotations(obj).get(_CLASS_ANNOTATION, named)


def _phase_cell(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def claim_cells(obj: Obj) -> list[Any]:
    """A claim's row."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    volume = spec.get("volumeName", "")
    return [
        name_of(obj),
        _phase_cell(obj),
        volume,
        status.get("capacity", {}).get("storage", "0") if volume else "",
        _format_access_modes(status.get("accessModes")) if volume else "",
        _storage_class_name(obj),
        spec.get("volumeAttributesClassName", UNSET),
        age_cell(obj),
        spec.get("volumeMode", UNSET),
    ]


def volume_cells(obj: Obj) -> list[Any]:
    """A volume's row."""
    spec = obj.get("spec", {})
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        spec.get("capacity", {}).get("storage", "0"),
        _format_access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase_cell(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class_name(obj),
        spec.get("volumeAttributesClassName", UNSET),
        obj.get("status", {}).get("reason", ""),
        age_cell(obj),
        spec.get("volumeMode", UNSET),
    ]


def storage_class_cells(obj: Obj) -> list[Any]:
    """A storage class's row."""
    name = name_of(obj)
    if any(_annotations(obj).get(one) == "true" for one in _DEFAULT_CLASS_ANNOTATIONS):
        name += " (default)"
    return [
        name,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False),
        age_cell(obj),
    ]


def attributes_class_cells(obj: Obj) -> list[Any]:
    """The row of a class of volumes' attributes."""
    return [name_of(obj), obj.get("driverName", ""), age_cell(obj)]


def volume_attachment_cells(obj: Obj) -> list[Any]:
    """The row of a volume's attachment."""
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        spec.get("attacher", ""),
        spec.get("source", {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        obj.get("status", {}).get("attached", False),
        age_cell(obj),
    ]


def driver_cells(obj: Obj) -> list[Any]:
    """The row of a storage driver."""
    spec = obj.get("spec", {})
    requests = spec.get("tokenRequests")
    return [
        name_of(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if requests is None else ",".join(one.get("audience", "") for one in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_cell(obj),
    ]


def driver_node_cells(obj: Obj) -> list[Any]:
    """The row of a node's storage drivers."""
    return [name_of(obj), len(obj.get("spec", {}).get("drivers") or ()), age_cell(obj)]


def device_claim_cells(obj: Obj) -> list[Any]:
    """The row of a claim of devices."""
    status, states = obj.get("status", {}), []
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    if deleted:
        states.append("deleted")
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_cell(obj)]


def device_slice_cells(obj: Obj) -> list[Any]:
    """The row of a pool's part of devices."""
    spec = obj.get("spec", {})
    pool = spec.get("pool", {}).get("name", "")
    return [name_of(obj), spec.get("nodeName", ""), spec.get("driver", ""), pool, age_cell(obj)]


def name_and_age_cells(obj: Obj) -> list[Any]:
    """The row of what has but a name and an age."""
    return [name_of(obj), age_cell(obj)]
