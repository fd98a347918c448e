"""Validation of runtime classes.

Source: k8s.io/kubernetes pkg/apis/node/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import dns_label_texts
from pytest_kwait.simulator.validation.core.resources import validate_resource_requirements
from pytest_kwait.simulator.validation.core.scheduling import validate_tolerations
from pytest_kwait.simulator.validation.internal_types import format_internal
from pytest_kwait.simulator.validation.objectmeta import validate_labels

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj


def validate_runtime_class(runtime_class: Obj) -> ErrorList:
    """Validate handler, overhead, node selector and tolerations."""
    handler, scheduling = runtime_class.get("handler", ""), runtime_class.get("scheduling") or {}
    errors = ErrorList()
    if runtime_class.get("overhead") is not None:
        limits = {"limits": runtime_class["overhead"].get("podFixed") or {}}
        errors += validate_resource_requirements(limits, (), "overhead")
    errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    errors += validate_tolerations(tolerations, "scheduling.tolerations")
    checked_keys: list[Obj] = []
    for index, toleration in enumerate(tolerations):
        key = {**toleration, "tolerationSeconds": None}
        if key in checked_keys:
            toleration_text = format_internal("core.Toleration", toleration)
            errors.duplicate(f"scheduling.tolerations[{index}]", toleration_text)
        checked_keys.append(key)
    errors.require_valid("handler", handler, dns_label_texts)
    return errors


def validate_runtime_class_update(new: Obj, old: Obj) -> ErrorList:
    """Validate that the handler does not change."""
    errors = ErrorList()
    handler = new.get("handler", "")
    if handler != old.get("handler", ""):
        errors.invalid("handler", handler, "field is immutable")
    return errors
