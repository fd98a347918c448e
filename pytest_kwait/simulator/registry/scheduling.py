"""The strategy of priority classes.

Source: pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.scheduling import (
    validate_priority_class,
    validate_priority_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PriorityClassStrategy"]


class PriorityClassStrategy(Strategy):
    """Priority classes."""

    def default(self, obj: Obj) -> None:
        """Set the default preemption policy."""
        super().default(obj)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def counts(self, new: Obj, old: Obj) -> bool:
        """Return False: priority classes have no generation."""
        del new, old
        return False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate names, values and the preemption policy."""
        return validate_priority_class(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that value and preemption policy do not change."""
        return validate_priority_class_update(new, old)
