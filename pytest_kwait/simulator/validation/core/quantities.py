"""Amounts of resources: not below zero, and whole where they count things.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateResourceQuantityValue;
pkg/apis/core/helper/helpers.go, IsIntegerResourceName.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.validation.formats import NEGATIVE

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError

__all__ = ["INTEGER_RESOURCES", "is_domain_prefixed_resource", "validate_resource_quantity"]

INTEGER_RESOURCES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    )
)
"""The resources that are objects, and come whole."""


def is_domain_prefixed_resource(name: str) -> bool:
    """Whether the resource is one of somebody else's domain, `example.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def validate_resource_quantity(name: str, text: str, at: str) -> list[FieldError]:
    """Why there cannot be so much of the resource `name`."""
    amount = parse_quantity(text)
    errors = [invalid_value(at, str(amount), NEGATIVE)] if amount.amount < 0 else []
    if (name in INTEGER_RESOURCES or is_domain_prefixed_resource(name)) and (
        amount.amount * 1000
    ) % 1000 != 0:
        errors.append(invalid_value(at, str(amount), "must be an integer"))
    return errors
