"""Persistent volume claims: how much, of what, from where, and what may change.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaim,
ValidatePersistentVolumeClaimUpdate; pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.internal_values import internal_diff
from pytest_kwait.simulator.objects import annotations_of, clone
from pytest_kwait.simulator.rules.claim_specs import check_claim_spec
from pytest_kwait.simulator.rules.quantities import COUNTED
from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["claim_change_errors", "claim_errors", "claim_status_errors", "claim_warnings"]

_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims\n"
)
_RESIZES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_NATIVE = COUNTED | {"cpu", "memory", "ephemeral-storage"}


def claim_errors(claim: Obj) -> list[FieldError]:
    """What is wrong with a claim."""
    found = Findings()
    check_claim_spec(claim.get("spec") or {}, "spec", found)
    return found


def _amount(spec: Obj, field: str) -> str | None:
    found: str | None = ((spec.get("resources") or {}).get(field) or {}).get("storage")
    return found


def claim_change_errors(new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a change of a claim, beyond what is wrong with the claim."""
    now, then = clone(new.get("spec") or {}), clone(old.get("spec") or {})
    annotation, before = annotations_of(new).get(_OLD_CLASS), annotations_of(old).get(_OLD_CLASS)
    name, errors = now.get("storageClassName"), []
    if not then.get("volumeName"):
        then["volumeName"] = now.get("volumeName")
    first = then.get("storageClassName") is None and name is not None
    if first and before is not None and name == before and annotation in (None, before):
        now["storageClassName"] = None
    else:
        if annotation != before:
            at = f"metadata.annotations[{_OLD_CLASS}]"
            errors.append(invalid_value(at, annotation or "", "field is immutable"))
        if first and before in (None, name):
            now["storageClassName"] = None
    status = new.get("status") or {}
    if status.get("phase") == "Bound":
        if (now.get("resources") or {}).get("requests"):
            now["resources"]["requests"]["storage"] = _amount(then, "requests")
        now["volumeAttributesClassName"] = then.get("volumeAttributesClassName")
    errors += _spec_changes(now, then)
    size, was = (_size(obj.get("spec") or {}) for obj in (new, old))
    held = parse_quantity((status.get("capacity") or {}).get("storage", "0")).amount
    if size < was and size <= held:
        at = "spec.resources.requests.storage"
        errors.append(forbidden_field(at, "field can not be less than status.capacity"))
    mode = (new.get("spec") or {}).get("volumeMode")
    if mode != (old.get("spec") or {}).get("volumeMode"):
        errors.append(invalid_value("volumeMode", mode, "field is immutable"))
    return errors + _attribute_changes(new, old)


def _attribute_changes(new: Obj, old: Obj) -> list[FieldError]:
    field, at = "volumeAttributesClassName", "spec.volumeAttributesClassName"
    name, before = (new.get("spec") or {}).get(field), (old.get("spec") or {}).get(field)
    current = (old.get("status") or {}).get("currentVolumeAttributesClassName")
    if name == before or current is None or name:
        return []
    what = "nil" if name is None else "empty string"
    text = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [forbidden_field(at, text)]


def _size(spec: Obj) -> Any:
    return parse_quantity(_amount(spec, "requests") or "0").amount


def _spec_changes(now: Obj, then: Obj) -> list[FieldError]:
    for part in ("limits", "requests"):
        mine, theirs = ((spec.get("resources") or {}).get(part) or {} for spec in (now, then))
        for name, text in mine.items():
            if name in theirs and parse_quantity(text) == parse_quantity(theirs[name]):
                mine[name] = theirs[name]
    changed = internal_diff("core.PersistentVolumeClaimSpec", then, now)
    return [forbidden_field("spec", _FIXED + changed)] if changed else []


def claim_status_errors(new: Obj) -> list[FieldError]:
    """What is wrong with what a claim is said to have."""
    status = new.get("status") or {}
    errors = []
    for name, text in (status.get("capacity") or {}).items():
        errors += _negative(f"status.capacity[{name}]", text)
    at = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        if name in _NATIVE:
            errors.append(not_supported(at, name, ["storage"]))
        if state not in _RESIZES:
            errors.append(not_supported(at, name, _RESIZES))
    at = "status.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        if name in _NATIVE:
            errors.append(not_supported(at, name, ["storage"]))
        else:
            errors += _negative(f"{at}[{name}]", text)
    return errors


def _negative(at: str, text: str) -> list[FieldError]:
    amount = parse_quantity(text).amount
    reason = "must be a valid resource quantity"
    return [invalid_value(at, int(amount), reason)] if amount < 0 else []


def claim_warnings(claim: Obj) -> list[str]:
    """What is deprecated or odd about a claim."""
    texts = []
    if _OLD_CLASS in annotations_of(claim):
        texts.append(
            f"metadata.annotations[{_OLD_CLASS}]: deprecated since v1.8; use "
            '"storageClassName" attribute instead'
        )
    for field in ("requests", "limits"):
        text = _amount(claim.get("spec") or {}, field)
        if text is not None and parse_quantity(text).amount.denominator != 1:
            texts.append(
                f'spec.resources.{field}[storage]: fractional byte value "{text}" is invalid, '
                "must be an integer"
            )
    return texts
