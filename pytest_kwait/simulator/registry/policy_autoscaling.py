"""Strategies of pod disruption budgets and horizontal pod autoscalers.

Source: pkg/registry/policy/poddisruptionbudget/strategy.go,
pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, pkg/apis/autoscaling/v2/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.autoscaling import validate_horizontal_pod_autoscaler_spec
from pytest_kwait.simulator.validation.field_errors import ErrorList
from pytest_kwait.simulator.validation.policy import (
    validate_pod_disruption_budget_spec,
    validate_pod_disruption_budget_status,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["HorizontalPodAutoscalerStrategy", "PodDisruptionBudgetStrategy"]


class PodDisruptionBudgetStrategy(Strategy):
    """Pod disruption budgets."""

    validates_metadata = False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the spec."""
        return validate_pod_disruption_budget_spec(obj.get("spec", {}))

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        del old
        return validate_pod_disruption_budget_status(new.get("status") or {})


class HorizontalPodAutoscalerStrategy(Strategy):
    """Horizontal pod autoscalers."""

    def default(self, obj: Obj) -> None:
        """Default the stabilization window of scale-up rules to 0."""
        super().default(obj)
        rules = ((obj.get("spec") or {}).get("behavior") or {}).get("scaleUp")
        if rules is not None:
            rules.setdefault("stabilizationWindowSeconds", 0)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the spec."""
        return validate_horizontal_pod_autoscaler_spec(obj.get("spec", {}), None)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the spec; a present invalid target may stay."""
        return validate_horizontal_pod_autoscaler_spec(new.get("spec", {}), old.get("spec", {}))

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        del old
        found = ErrorList()
        found.require_not_negative(
            new.get("status") or {}, "status", "currentReplicas", "desiredReplicas"
        )
        return found
