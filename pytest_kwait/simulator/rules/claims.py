"""Persistent volume claims: how much, of what, from where, and what may change.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaim,
ValidatePersistentVolumeClaimUpdate; pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.objects import annotations_of, clone
from pytest_kwait.simulator.rules.quantities import COUNTED
from pytest_kwait.simulator.rules.volumes import VOLUME_MODES, access_errors
from pytest_kwait.simulator.rules.written import Written
from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.validation import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["claim_change_errors", "claim_errors", "claim_status_errors", "claim_warnings"]

_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE = "spec.resources[storage]"
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
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    errors = []
    if not modes:
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if spec.get("selector") is not None:
        errors += selector_errors(spec["selector"], "spec.selector")
    errors += access_errors(modes, "spec.accessModes")
    storage = _amount(spec, "requests")
    if storage is None:
        errors.append(required(_STORAGE))
    elif parse_quantity(storage).amount <= 0:
        errors.append(invalid_value(_STORAGE, storage, "must be greater than zero"))
    errors += _name_errors(spec, "storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    errors += _source_errors(spec)
    return errors + _name_errors(spec, "volumeAttributesClassName")


def _amount(spec: Obj, field: str) -> str | None:
    found: str | None = ((spec.get("resources") or {}).get(field) or {}).get("storage")
    return found


def _name_errors(spec: Obj, field: str) -> list[FieldError]:
    name = spec.get(field) or ""
    texts = dns_subdomain_texts(name) if name else []
    return [invalid_value(f"spec.{field}", name, text) for text in texts]


def _source_errors(spec: Obj) -> list[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: list[FieldError] = []
    for field, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is None:
            continue
        at, group, kind = f"spec.{field}", value.get("apiGroup") or "", value.get("kind", "")
        errors += [required(f"{at}.{name}") for name in ("name", "kind") if not value.get(name)]
        if not group and kind != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            errors.append(invalid_value(at, kind, text))
        texts = dns_subdomain_texts(group) if group else []
        errors += [invalid_value(f"{at}.apiGroup", group, text) for text in texts]
        if namespace := value.get("namespace") or "":
            texts = dns_label_texts(namespace)
            errors += [invalid_value(f"{at}.namespace", namespace, text) for text in texts]
    if source is not None and reference is not None:
        if reference.get("namespace"):
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid_value("spec", Written({}), text))
        elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
            errors.append(invalid_value("spec", Written({}), "must match dataSourceRef"))
    return errors


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
    shown_now, shown_then = _shown(now), _shown(then)
    for part in ("Limits", "Requests"):
        mine, theirs = shown_now["Resources"][part] or {}, shown_then["Resources"][part] or {}
        for name, text in mine.items():
            if name in theirs and parse_quantity(text) == parse_quantity(theirs[name]):
                mine[name] = theirs[name]
    if shown_now == shown_then:
        return []
    lines = difflib.unified_diff(
        json.dumps(shown_then, indent=1).splitlines(keepends=True),
        json.dumps(shown_now, indent=1).splitlines(keepends=True),
    )
    return [forbidden_field("spec", _FIXED + "".join(list(lines)[2:]))]


def _shown(spec: Obj) -> dict[str, Any]:
    """The spec as the server's own type shows it."""
    resources = spec.get("resources") or {}
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    parts = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    return {
        "AccessModes": spec.get("accessModes") or None,
        "Selector": spec.get("selector"),
        "Resources": {
            "Limits": dict(sorted((resources.get("limits") or {}).items())) or None,
            "Requests": dict(sorted((resources.get("requests") or {}).items())) or None,
        },
        "VolumeName": spec.get("volumeName") or "",
        "StorageClassName": spec.get("storageClassName"),
        "VolumeMode": spec.get("volumeMode"),
        "DataSource": source and {name: source.get(key) for name, key in parts.items()},
        "DataSourceRef": reference
        and {name: reference.get(key) for name, key in {**parts, "Namespace": "namespace"}.items()},
        "VolumeAttributesClassName": spec.get("volumeAttributesClassName"),
    }


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
