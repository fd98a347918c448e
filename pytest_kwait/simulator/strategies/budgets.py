"""Pod disruption budgets and horizontal pod autoscalers.

Source: pkg/registry/policy/poddisruptionbudget/strategy.go,
pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, pkg/apis/autoscaling/v2/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.workload_rules.autoscalers import check_autoscaler
from pytest_kwait.simulator.workload_rules.budgets import check_budget, check_budget_status

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["AutoscalerStrategy", "BudgetStrategy"]


class BudgetStrategy(Strategy):
    """Pod disruption budgets."""

    looks_at_metadata = False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """The spec."""
        found = Findings()
        check_budget(obj.get("spec", {}), found)
        return found

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """The numbers."""
        del old
        found = Findings()
        check_budget_status(new.get("status") or {}, found)
        return found


class AutoscalerStrategy(Strategy):
    """Horizontal pod autoscalers."""

    def default(self, obj: Obj) -> None:
        """Who says anything of growing waits for nothing before it."""
        super().default(obj)
        rules = ((obj.get("spec") or {}).get("behavior") or {}).get("scaleUp")
        if rules is not None:
            rules.setdefault("stabilizationWindowSeconds", 0)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """The spec."""
        found = Findings()
        check_autoscaler(obj.get("spec", {}), None, found)
        return found

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The spec; what it scales may stay unusable."""
        found = Findings()
        check_autoscaler(new.get("spec", {}), old.get("spec", {}), found)
        return found

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """The numbers."""
        del old
        found = Findings()
        found.not_negative(new.get("status") or {}, "status", "currentReplicas", "desiredReplicas")
        return found
