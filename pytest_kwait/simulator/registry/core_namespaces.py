"""Limit ranges: what follows from what, and what contradicts itself.

Source: pkg/apis/core/v1/defaults.go, `SetDefaults_LimitRangeItem`;
pkg/apis/core/validation/validation.go, `ValidateLimitRange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.api_errors import duplicate, forbidden_field, invalid_value, required
from pytest_kwait.simulator.registry.quotas import resource_name_errors
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.quantities import is_domain_prefixed_resource
from pytest_kwait.simulator.validation.objectmeta import qualified_name_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["LimitRangeStrategy"]

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_DEFAULT_FIELDS = ("default", "defaultRequest")


class LimitRangeStrategy(Strategy):
    """The strategy of limit ranges."""

    def default(self, obj: Obj) -> None:
        """Limits of containers default to the most; requests to them, or to the least."""
        super().default(obj)
        for limit in obj.get("spec", {}).get("limits") or ():
            if limit.get("type") == "Container":
                default = {**limit.get("max", {}), **limit.get("default", {})}
                request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
                for field, value in (("default", default), ("defaultRequest", request)):
                    if value:
                        limit[field] = value

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Each type once, with bounds that something can keep to."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, limit in enumerate(obj.get("spec", {}).get("limits") or ()):
            at, kind = f"spec.limits[{index}]", limit.get("type", "")
            errors += _type_errors(kind, f"{at}.type")
            if kind in seen:
                errors.append(duplicate(f"{at}.type", kind))
            seen.add(kind)
            errors += _field_errors(limit, at)
            errors += _bound_errors(limit, at)
        return errors


def _type_errors(kind: str, at: str) -> list[FieldError]:
    texts = qualified_name_texts(kind)
    if not texts and "/" not in kind and kind not in _TYPES:
        texts = ["must be a standard limit type or fully qualified"]
    return [invalid_value(at, kind, text) for text in texts]


def _resource_errors(kind: str, name: str, at: str) -> list[FieldError]:
    errors = resource_name_errors(name, at)
    if kind in ("Pod", "Container"):
        if "/" not in name:
            if name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
                text = "must be a standard resource for containers"
                errors.append(invalid_value(at, name, text))
        elif "kubernetes.io/" not in name and not is_domain_prefixed_resource(name):
            text = "doesn't follow extended resource name standard"
            errors.append(invalid_value(at, name, text))
    return errors


def _field_errors(limit: Obj, at: str) -> list[FieldError]:
    kind, errors = limit.get("type", ""), []
    for field in ("max", "min", *_DEFAULT_FIELDS, "maxLimitRequestRatio"):
        if kind == "Pod" and field in _DEFAULT_FIELDS:
            if limit.get(field):
                text = "may not be specified when `type` is 'Pod'"
                errors.append(forbidden_field(f"{at}.{field}", text))
            continue
        for name in sorted(limit.get(field, ())):
            errors += _resource_errors(kind, name, f"{at}.{field}[{name}]")
        unbound = not any("storage" in limit.get(bound, ()) for bound in ("min", "max"))
        if field == "defaultRequest" and kind == "PersistentVolumeClaim" and unbound:
            text = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(required(f"{at}.limits", text))
    return errors


def _bound_errors(limit: Obj, at: str) -> list[FieldError]:
    parts = ["max", "min", "maxLimitRequestRatio"]
    if limit.get("type") != "Pod":
        parts += _DEFAULT_FIELDS
    names = sorted({name for part in parts for name in limit.get(part, ())})
    errors: list[FieldError] = []
    for name in names:
        given = {
            part: parse_quantity(limit[part][name]) for part in parts if name in limit.get(part, ())
        }
        errors += _order_errors(given, name, at)
        errors += _ratio_errors(given, name, at)
    return errors


def _order_errors(given: dict[str, Quantity], name: str, at: str) -> list[FieldError]:
    """What is to be at most something else and is not; the field and the value that are blamed."""
    words = {
        "min": "min value",
        "max": "max value",
        "default": "default value",
        "defaultRequest": "default request value",
    }
    errors = []
    for low, high, blamed, shown in (
        ("min", "max", "min", "min"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
        ("min", "default", "default", "min"),
        ("default", "max", "default", "max"),
    ):
        if low in given and high in given and given[low] > given[high]:
            both_defaults = (low, high) == ("defaultRequest", "default")
            above = "default limit value" if both_defaults else words[high]
            text = f"{words[low]} {given[low]} is greater than {above} {given[high]}"
            errors.append(invalid_value(f"{at}.{blamed}[{name}]", str(given[shown]), text))
    overcommitted = name in (*_CONTAINER_RESOURCES, "storage") or "kubernetes.io/" in name
    default, request = given.get("default"), given.get("defaultRequest")
    if default is not None and request is not None and default != request and not overcommitted:
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid_value(f"{at}.defaultRequest[{name}]", str(request), text))
    return errors


def _ratio_errors(given: dict[str, Quantity], name: str, at: str) -> list[FieldError]:
    ratio = given.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    at = f"{at}.maxLimitRequestRatio[{name}]"
    errors = []
    if ratio.amount < 1:
        errors.append(invalid_value(at, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in given and "max" in given and given["min"].amount:
        most = given["max"].amount / given["min"].amount
        if ratio.amount > most:
            text = f"ratio {ratio} is greater than max/min = {float(most):f}"
            errors.append(invalid_value(at, str(ratio), text))
    return errors
