"""Validation of priority classes.

Source: k8s.io/kubernetes pkg/apis/scheduling/validation/validation.go,
pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

SYSTEM_PRIORITY_CLASSES = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
"""The priorities of the system classes."""

_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def validate_priority_class(obj: Obj) -> ErrorList:
    """Validate the reserved names and values, and the preemption policy."""
    name, value = name_of(obj), obj.get("value", 0)
    errors = ErrorList()
    if name.startswith(_SYSTEM_PREFIX):
        why = _system_class_mismatch(name, value, default=bool(obj.get("globalDefault")))
        if why:
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {why}"
            )
            errors.forbidden("metadata.name", text)
    elif value > _HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        errors.forbidden("value", text)
    policy = obj.get("preemptionPolicy")
    if policy == "":
        errors.required("preemptionPolicy")
    elif policy not in _PREEMPTION_POLICIES:
        errors.not_supported("preemptionPolicy", policy, _PREEMPTION_POLICIES)
    return errors


def validate_priority_class_update(new: Obj, old: Obj) -> ErrorList:
    """Validate that value and preemption policy do not change."""
    errors = ErrorList()
    if new.get("value", 0) != old.get("value", 0):
        errors.forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        policy = new.get("preemptionPolicy")
        errors.invalid("preemptionPolicy", policy, "field is immutable")
    return errors


def _system_class_mismatch(name: str, value: int, *, default: bool) -> str:
    if name not in SYSTEM_PRIORITY_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITY_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITY_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""
