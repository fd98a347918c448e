"""Validation of limit ranges.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateLimitRange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, invalid_value
from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.apimachinery.validation import label_key_texts
from pytest_kwait.simulator.validation.core.resource_quotas import validate_quota_resource_name
from pytest_kwait.simulator.validation.core.resources import (
    CONTAINER_RESOURCES,
    is_domain_prefixed_resource,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_DEFAULT_FIELDS = ("default", "defaultRequest")


def validate_limit_range(limit_range: Obj) -> ErrorList:
    """Validate each limit; a type must not occur twice."""
    errors = ErrorList()
    checked_types: set[str] = set()
    for index, limit in enumerate(limit_range.get("spec", {}).get("limits") or ()):
        at, kind = f"spec.limits[{index}]", limit.get("type", "")
        errors += _validate_limit_type(kind, f"{at}.type")
        errors.require_unique(f"{at}.type", kind, checked_types)
        errors += _validate_limit_fields(limit, at)
        errors += _validate_bounds(limit, at)
    return errors


def _validate_limit_type(kind: str, at: str) -> ErrorList:
    texts = label_key_texts(kind)
    if not texts and "/" not in kind and kind not in _TYPES:
        texts = ["must be a standard limit type or fully qualified"]
    return ErrorList(invalid_value(at, kind, text) for text in texts)


def _validate_limited_resource_name(kind: str, name: str, at: str) -> ErrorList:
    errors = validate_quota_resource_name(name, at)
    if kind in ("Pod", "Container"):
        if "/" not in name:
            if name not in CONTAINER_RESOURCES and not name.startswith("hugepages-"):
                text = "must be a standard resource for containers"
                errors.invalid(at, name, text)
        elif "kubernetes.io/" not in name and not is_domain_prefixed_resource(name):
            text = "doesn't follow extended resource name standard"
            errors.invalid(at, name, text)
    return errors


def _validate_limit_fields(limit: Obj, at: str) -> ErrorList:
    kind, errors = limit.get("type", ""), ErrorList()
    for field in ("max", "min", *_DEFAULT_FIELDS, "maxLimitRequestRatio"):
        if kind == "Pod" and field in _DEFAULT_FIELDS:
            if limit.get(field):
                text = "may not be specified when `type` is 'Pod'"
                errors.forbidden(f"{at}.{field}", text)
            continue
        for name in sorted(limit.get(field, ())):
            errors += _validate_limited_resource_name(kind, name, f"{at}.{field}[{name}]")
        unbound = not any("storage" in limit.get(bound, ()) for bound in ("min", "max"))
        if field == "defaultRequest" and kind == "PersistentVolumeClaim" and unbound:
            text = "either minimum or maximum storage value is required, but neither was provided"
            errors.required(f"{at}.limits", text)
    return errors


def _validate_bounds(limit: Obj, at: str) -> ErrorList:
    parts = ["max", "min", "maxLimitRequestRatio"]
    if limit.get("type") != "Pod":
        parts += _DEFAULT_FIELDS
    names = sorted({name for part in parts for name in limit.get(part, ())})
    errors = ErrorList()
    for name in names:
        bounds = {
            part: parse_quantity(limit[part][name]) for part in parts if name in limit.get(part, ())
        }
        errors += _validate_order(bounds, name, at)
        errors += _validate_ratio(bounds, name, at)
    return errors


def _validate_order(bounds: dict[str, Quantity], name: str, at: str) -> ErrorList:
    """Compare each pair of bounds; the error names one field and shows one of the values."""
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    errors = ErrorList()
    for low, high, blamed, reported_bound in (
        ("min", "max", "min", "min"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
        ("min", "default", "default", "min"),
        ("default", "max", "default", "max"),
    ):
        if low in bounds and high in bounds and bounds[low] > bounds[high]:
            both_defaults = (low, high) == ("defaultRequest", "default")
            above = "default limit value" if both_defaults else words[high]
            text = f"{words[low]} {bounds[low]} is greater than {above} {bounds[high]}"
            errors.invalid(f"{at}.{blamed}[{name}]", str(bounds[reported_bound]), text)
    overcommitted = name in (*CONTAINER_RESOURCES, "storage") or "kubernetes.io/" in name
    default, request = bounds.get("default"), bounds.get("defaultRequest")
    if default is not None and request is not None and default != request and not overcommitted:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.invalid(f"{at}.defaultRequest[{name}]", str(request), text)
    return errors


def _validate_ratio(bounds: dict[str, Quantity], name: str, at: str) -> ErrorList:
    ratio = bounds.get("maxLimitRequestRatio")
    if ratio is None:
        return ErrorList()
    at = f"{at}.maxLimitRequestRatio[{name}]"
    errors = ErrorList()
    if ratio.amount < 1:
        errors.invalid(at, str(ratio), f"ratio {ratio} is less than 1")
    if "min" in bounds and "max" in bounds and bounds["min"].amount:
        most = bounds["max"].amount / bounds["min"].amount
        if ratio.amount > most:
            text = f"ratio {ratio} is greater than max/min = {float(most):f}"
            errors.invalid(at, str(ratio), text)
    return errors
