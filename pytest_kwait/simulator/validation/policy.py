"""Validation of pod disruption budgets.

Source: k8s.io/kubernetes pkg/apis/policy/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.apps import (
    validate_non_negative_int_or_percent,
    validate_not_more_than_100_percent,
)
from pytest_kwait.simulator.validation.field_errors import ErrorList, format_internal
from pytest_kwait.simulator.validation.objectmeta import validate_label_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_pod_disruption_budget_spec", "validate_pod_disruption_budget_status"]

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate_pod_disruption_budget_spec(spec: Obj) -> ErrorList:
    """Validate a budget's spec: `minAvailable` or `maxUnavailable`, not both."""
    errors = ErrorList()
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = format_internal("policy.PodDisruptionBudgetSpec", spec)
        errors.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            errors += validate_non_negative_int_or_percent(spec[field], f"spec.{field}")
            errors += validate_not_more_than_100_percent(spec[field], f"spec.{field}")
    if "selector" in spec:
        errors += validate_label_selector(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)
    return errors


def validate_pod_disruption_budget_status(status: Obj) -> ErrorList:
    """Validate a budget's status."""
    errors = ErrorList()
    errors.require_not_negative(
        status, "status", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    )
    return errors
