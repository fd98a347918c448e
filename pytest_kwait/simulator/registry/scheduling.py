"""The strategy of priority classes.

Source: pkg/apis/scheduling/validation/validation.go, pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.priority import SYSTEM_PRIORITY_CLASSES
from pytest_kwait.simulator.api_errors import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.strategy import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PriorityClassStrategy"]

_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    """The strategy of priority classes."""

    def default(self, obj: Obj) -> None:
        """Who is more urgent makes room for itself."""
        super().default(obj)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def counts(self, new: Obj, old: Obj) -> bool:
        """Generations are not counted."""
        del new, old
        return False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """What is the system's alone, and who makes room."""
        name, value = name_of(obj), obj.get("value", 0)
        errors: list[FieldError] = []
        if name.startswith(_SYSTEM_PREFIX):
            why = _system_class_mismatch(name, value, default=bool(obj.get("globalDefault")))
            if why:
                text = (
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    f"error: {why}"
                )
                errors.append(forbidden_field("metadata.name", text))
        elif value > _HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            errors.append(forbidden_field("value", text))
        policy = obj.get("preemptionPolicy")
        if policy == "":
            errors.append(required("preemptionPolicy"))
        elif policy not in _PREEMPTION_POLICIES:
            errors.append(not_supported("preemptionPolicy", policy, _PREEMPTION_POLICIES))
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Numbers stay."""
        errors = []
        if new.get("value", 0) != old.get("value", 0):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            policy = new.get("preemptionPolicy")
            errors.append(invalid_value("preemptionPolicy", policy, "field is immutable"))
        return errors


def _system_class_mismatch(name: str, value: int, *, default: bool) -> str:
    if name not in SYSTEM_PRIORITY_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITY_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITY_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""
