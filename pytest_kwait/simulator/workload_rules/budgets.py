"""Pod disruption budgets.

Source: pkg/apis/policy/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.validation import selector_errors
from pytest_kwait.simulator.workload_rules.selectors import check_not_more_than_all, check_percent

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_budget", "check_budget_status"]

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def check_budget(spec: Obj, found: Findings) -> None:
    """A budget's spec: how many pods stay, or how many may go."""
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = internal_json("policy.PodDisruptionBudgetSpec", spec)
        found.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            check_percent(spec[field], f"spec.{field}", found)
            check_not_more_than_all(spec[field], f"spec.{field}", found)
    if "selector" in spec:
        found += selector_errors(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        found.unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)


def check_budget_status(status: Obj, found: Findings) -> None:
    """A budget's status."""
    found.not_negative(
        status, "status", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    )
