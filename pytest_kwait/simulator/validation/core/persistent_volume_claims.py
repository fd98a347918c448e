"""Validation of persistent volume claims, of their updates and of claim templates.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaim,
ValidatePersistentVolumeClaimSpec, ValidatePersistentVolumeClaimUpdate,
ValidatePersistentVolumeClaimTemplate; pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import (
    ErrorList,
    Rendered,
    forbidden_field,
    invalid_value,
)
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.objects import BETA_STORAGE_CLASS, annotations_of, clone
from pytest_kwait.simulator.validation.core.resources import INTEGER_RESOURCES
from pytest_kwait.simulator.validation.internal_types import diff_internal
from pytest_kwait.simulator.validation.objectmeta import (
    validate_annotations,
    validate_label_selector,
    validate_labels,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

VOLUME_MODES = ("Block", "Filesystem")
"""The volume modes."""
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SINGLE_POD_MODE = "ReadWriteOncePod"
_SPEC_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims\n"
)
_RESIZE_STATUSES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_NATIVE_RESOURCES = INTEGER_RESOURCES | {"cpu", "memory", "ephemeral-storage"}

_FORBIDDEN_METADATA = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_METADATA_DISPLAY_NAMES = {"uid": "uID"}


def validate_access_modes(modes: list[str], at: str) -> ErrorList:
    """Validate access modes."""
    errors = ErrorList()
    for mode in modes:
        if mode not in _ACCESS_MODES:
            errors.not_supported(at, mode, _ACCESS_MODES)
    if _SINGLE_POD_MODE in modes and any(
        mode in _ACCESS_MODES and mode != _SINGLE_POD_MODE for mode in modes
    ):
        errors.forbidden(at, "may not use ReadWriteOncePod with other access modes")
    return errors


def validate_persistent_volume_claim_spec(spec: Obj, at: str) -> ErrorList:
    """Validate the spec of a claim."""
    errors = ErrorList()
    modes = spec.get("accessModes", [])
    if not modes:
        errors.required(f"{at}.accessModes", "at least 1 access mode is required")
    if "selector" in spec:
        errors += validate_label_selector(spec["selector"], f"{at}.selector")
    errors += validate_access_modes(modes, f"{at}.accessModes")
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        errors.required(f"{at}.resources[storage]")
    elif parse_quantity(storage).amount <= 0:
        errors.invalid(f"{at}.resources[storage]", storage, "must be greater than zero")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if field == "volumeAttributesClassName":
            errors += _validate_data_sources(spec, at)
        if spec.get(field):
            errors.invalid_each(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
        if field == "storageClassName" and spec.get("volumeMode") not in (None, *VOLUME_MODES):
            errors.not_supported(f"{at}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    return errors


def _validate_data_sources(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, value in (("dataSource", source), ("dataSourceRef", ref)):
        if value is not None:
            errors += _validate_data_source(value, f"{at}.{field}")
    if source is None or ref is None:
        return errors
    whole = Rendered("{}")
    if ref.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
        errors.invalid(at, whole, text)
    elif any(source.get(field) != ref.get(field) for field in ("apiGroup", "kind", "name")):
        errors.invalid(at, whole, "must match dataSourceRef")
    return errors


def _validate_data_source(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    errors.require_fields(source, at, "name", "kind")
    group, kind = source.get("apiGroup", ""), source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.invalid(at, kind, text)
    if group:
        errors.invalid_each(f"{at}.apiGroup", group, dns_subdomain_texts(group))
    if source.get("namespace"):
        errors.invalid_each(
            f"{at}.namespace", source["namespace"], dns_label_texts(source["namespace"])
        )
    return errors


def validate_persistent_volume_claim(claim: Obj) -> ErrorList:
    """Validate a claim."""
    return validate_persistent_volume_claim_spec(claim.get("spec") or {}, "spec")


def _get_storage_text(spec: Obj, field: str) -> str | None:
    storage: str | None = ((spec.get("resources") or {}).get(field) or {}).get("storage")
    return storage


def validate_persistent_volume_claim_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a claim; the new claim by itself is validated elsewhere."""
    now, then = clone(new.get("spec") or {}), clone(old.get("spec") or {})
    annotation, before = (
        annotations_of(new).get(BETA_STORAGE_CLASS),
        annotations_of(old).get(BETA_STORAGE_CLASS),
    )
    name, errors = now.get("storageClassName"), ErrorList()
    if not then.get("volumeName"):
        then["volumeName"] = now.get("volumeName")
    first = then.get("storageClassName") is None and name is not None
    if first and before is not None and name == before and annotation in (None, before):
        now["storageClassName"] = None
    else:
        if annotation != before:
            at = f"metadata.annotations[{BETA_STORAGE_CLASS}]"
            errors.invalid(at, annotation or "", "field is immutable")
        if first and before in (None, name):
            now["storageClassName"] = None
    status = new.get("status") or {}
    if status.get("phase") == "Bound":
        if (now.get("resources") or {}).get("requests"):
            now["resources"]["requests"]["storage"] = _get_storage_text(then, "requests")
        now["volumeAttributesClassName"] = then.get("volumeAttributesClassName")
    errors += _validate_spec_unchanged(now, then)
    size, was = (_get_size(obj.get("spec") or {}) for obj in (new, old))
    held = parse_quantity((status.get("capacity") or {}).get("storage", "0")).amount
    if size < was and size <= held:
        at = "spec.resources.requests.storage"
        errors.forbidden(at, "field can not be less than status.capacity")
    mode = (new.get("spec") or {}).get("volumeMode")
    if mode != (old.get("spec") or {}).get("volumeMode"):
        errors.invalid("volumeMode", mode, "field is immutable")
    return errors + _validate_attributes_class_update(new, old)


def _validate_attributes_class_update(new: Obj, old: Obj) -> ErrorList:
    field, at = "volumeAttributesClassName", "spec.volumeAttributesClassName"
    name, before = (new.get("spec") or {}).get(field), (old.get("spec") or {}).get(field)
    current = (old.get("status") or {}).get("currentVolumeAttributesClassName")
    if name == before or current is None or name:
        return ErrorList()
    value_text = "nil" if name is None else "empty string"
    text = (
        f"update to {value_text} is forbidden when status.currentVolumeAttributesClassName is not "
        "nil"
    )
    return ErrorList([forbidden_field(at, text)])


def _get_size(spec: Obj) -> Any:
    return parse_quantity(_get_storage_text(spec, "requests") or "0").amount


def _validate_spec_unchanged(now: Obj, then: Obj) -> ErrorList:
    for part in ("limits", "requests"):
        new_resources, old_resources = (
            (spec.get("resources") or {}).get(part) or {} for spec in (now, then)
        )
        for name, text in new_resources.items():
            if name in old_resources and parse_quantity(text) == parse_quantity(
                old_resources[name]
            ):
                new_resources[name] = old_resources[name]
    changed = diff_internal("core.PersistentVolumeClaimSpec", then, now)
    return (
        ErrorList([forbidden_field("spec", _SPEC_IMMUTABLE + changed)]) if changed else ErrorList()
    )


def validate_persistent_volume_claim_status_update(new: Obj) -> ErrorList:
    """Validate the status of a claim."""
    status = new.get("status") or {}
    errors = ErrorList()
    for name, text in (status.get("capacity") or {}).items():
        errors += _validate_not_negative(f"status.capacity[{name}]", text)
    at = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        if name in _NATIVE_RESOURCES:
            errors.not_supported(at, name, ["storage"])
        if state not in _RESIZE_STATUSES:
            errors.not_supported(at, name, _RESIZE_STATUSES)
    at = "status.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        if name in _NATIVE_RESOURCES:
            errors.not_supported(at, name, ["storage"])
        else:
            errors += _validate_not_negative(f"{at}[{name}]", text)
    return errors


def _validate_not_negative(at: str, text: str) -> ErrorList:
    amount = parse_quantity(text).amount
    reason = "must be a valid resource quantity"
    return ErrorList([invalid_value(at, int(amount), reason)]) if amount < 0 else ErrorList()


def get_persistent_volume_claim_warnings(claim: Obj) -> list[str]:
    """Return warnings about deprecated or ineffective fields of a claim."""
    texts = []
    if BETA_STORAGE_CLASS in annotations_of(claim):
        texts.append(
            f"metadata.annotations[{BETA_STORAGE_CLASS}]: deprecated since v1.8; use "
            '"storageClassName" attribute instead'
        )
    for field in ("requests", "limits"):
        text = _get_storage_text(claim.get("spec") or {}, field)
        if text is not None and parse_quantity(text).amount.denominator != 1:
            texts.append(
                f'spec.resources.{field}[storage]: fractional byte value "{text}" is invalid, '
                "must be an integer"
            )
    return texts


def validate_persistent_volume_claim_template(template: Obj, at: str) -> ErrorList:
    """Validate a claim template: labels, annotations and the spec."""
    errors = ErrorList()
    metadata = template.get("metadata") or {}
    errors += validate_annotations(metadata.get("annotations", {}), f"{at}.metadata.annotations")
    errors += validate_labels(metadata.get("labels", {}), f"{at}.metadata.labels")
    for field in _FORBIDDEN_METADATA:
        if metadata.get(field):
            errors.forbidden(
                f"{at}.metadata.{_METADATA_DISPLAY_NAMES.get(field, field)}", "cannot be set"
            )
    errors += validate_persistent_volume_claim_spec(template.get("spec") or {}, f"{at}.spec")
    return errors
