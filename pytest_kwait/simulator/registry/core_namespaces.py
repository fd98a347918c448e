"""Strategies of namespaces, resource quotas and limit ranges.

Source: pkg/registry/core/namespace/strategy.go; pkg/apis/core/v1/defaults.go
(SetDefaults_LimitRangeItem); pkg/apis/core/validation/validation.go (ValidateResourceQuota,
ValidateLimitRange); pkg/apis/core/helper.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.apimachinery.validation import label_key_texts
from pytest_kwait.simulator.api_errors import duplicate, forbidden_field, invalid_value, required
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.resources import (
    INTEGER_RESOURCES,
    is_domain_prefixed_resource,
    validate_resource_quantity,
)
from pytest_kwait.simulator.validation.objectmeta import (
    validate_finalizer_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "NAME_LABEL",
    "LimitRangeStrategy",
    "NamespaceStrategy",
    "ResourceQuotaStrategy",
    "resource_name_errors",
]

NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Source: pkg/registry/core/namespace/strategy.go, pkg/apis/core/v1/defaults.go."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Label the namespace with its own name."""
        super().default(obj)
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_create(self, obj: Obj) -> None:
        """Active from the start, with the finalizer that its content is removed by."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Finalizers of the spec change through `finalize` alone."""
        super().prepare_update(new, old)
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Finalizers have names."""
        return [
            error
            for name in obj["spec"]["finalizers"]
            for error in validate_finalizer_name(name, "spec.finalizers")
        ]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Only metadata changes."""
        del new, old
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """The phase follows from whether the namespace is being deleted."""
        del old
        phase = (new.get("status") or {}).get("phase", "")
        going = bool(new["metadata"].get("deletionTimestamp"))
        wanted = "Terminating" if going else "Active"
        if phase == wanted:
            return []
        text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if going else ''}empty"
        return [invalid_value("status.Phase", phase, text)]


_COMPUTE = frozenset(
    f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
_QUOTA_RESOURCES = INTEGER_RESOURCES | _COMPUTE
_QUOTA_RESOURCES |= {f"{part}ephemeral-storage" for part in ("", "requests.", "limits.")}
_QUOTA_RESOURCES |= {"requests.storage"}
_STANDARD_RESOURCES = _QUOTA_RESOURCES | {"storage"}
_POD_RESOURCES = _COMPUTE | {"pods"}
_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "NotBestEffort": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "Terminating": _POD_RESOURCES,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTING_SCOPES = ({"BestEffort", "NotBestEffort"}, {"NotTerminating", "Terminating"})
_EXISTS_ONLY = _SCOPES.keys() - {"PriorityClass", "VolumeAttributesClass"}
_EXISTS_RULE = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def resource_name_errors(name: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a resource."""
    texts = label_key_texts(name)
    if not texts and "/" not in name and not _is_known_name(name, _STANDARD_RESOURCES):
        texts = ["must be a standard resource type or fully qualified"]
    return [invalid_value(path, name, text) for text in texts]


def _is_known_name(name: str, names: frozenset[str]) -> bool:
    return name in names or name.startswith(("hugepages-", "requests.hugepages-"))


class ResourceQuotaStrategy(Strategy):
    """The strategy of resource quotas."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Names and amounts, and scopes that fit them."""
        spec = obj.get("spec", {})
        hard, scopes = spec.get("hard", {}), spec.get("scopes", [])
        errors = _amount_errors(hard, "spec.hard")
        for scope in scopes:
            errors += [
                invalid_value("spec.scopes", scopes, text) for text in _scope_texts(scope, hard)
            ]
        if _has_conflicting_scopes(scopes):
            errors.append(invalid_value("spec.scopes", scopes, "conflicting scopes"))
        if "scopeSelector" in spec:
            errors += _selector_errors(spec["scopeSelector"], hard)
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Scopes stay as they are."""
        scopes = new.get("spec", {}).get("scopes", [])
        errors = self.validate_create(new)
        if set(scopes) != set(old.get("spec", {}).get("scopes", [])):
            errors.append(invalid_value("spec.scopes", scopes, "field is immutable"))
        return errors

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Names and amounts."""
        del old
        status = new.get("status", {})
        hard = _amount_errors(status.get("hard", {}), "status.hard")
        return hard + _amount_errors(status.get("used", {}), "status.used")


def _amount_errors(listed: dict[str, str], path: str) -> list[FieldError]:
    errors = []
    for name in sorted(listed):
        at = f"{path}[{name}]"
        errors += resource_name_errors(name, at)
        if "/" not in name and not _is_known_name(name, _QUOTA_RESOURCES):
            errors.append(invalid_value(at, name, "must be a standard resource for quota"))
        errors += validate_resource_quantity(name, listed[name], at)
    return errors


def _scope_texts(scope: str, hard: Iterable[str]) -> list[str]:
    if scope not in _SCOPES:
        return ["unsupported scope"]
    return [
        "unsupported scope applied to resource"
        for name in sorted(hard)
        if _is_known_name(name, _QUOTA_RESOURCES) and name not in _SCOPES[scope]
    ]


def _has_conflicting_scopes(scopes: Iterable[str]) -> bool:
    return any(pair <= set(scopes) for pair in _CONFLICTING_SCOPES)


@dataclass(frozen=True, slots=True)
class _QuotedScope:
    """A scope selector as the server's own types write it."""

    rules: list[Obj]

    def __str__(self) -> str:
        rules = [
            {
                "ScopeName": rule.get("scopeName", ""),
                "Operator": rule.get("operator", ""),
                "Values": rule.get("values"),
            }
            for rule in self.rules
        ]
        return json.dumps({"MatchExpressions": rules}, separators=(",", ":"))


def _selector_errors(selector: Obj, hard: Iterable[str]) -> list[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    rules = selector.get("matchExpressions", [])
    shown = _QuotedScope(rules)
    errors: list[FieldError] = []
    for rule in rules:
        scope, operator = rule.get("scopeName", ""), rule.get("operator", "")
        values = rule.get("values", [])
        for text in _scope_texts(scope, hard):
            known = scope in _SCOPES
            at, value = (path, shown) if known else (f"{path}.scopeName", scope)
            errors.append(invalid_value(at, value, text))
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.append(invalid_value(f"{path}.operator", operator, _EXISTS_RULE))
        if operator in ("In", "NotIn"):
            if not values:
                text = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )
                errors.append(required(f"{path}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )
                errors.append(invalid_value(f"{path}.values", values, text))
        else:
            text = "not a valid selector operator"
            errors.append(invalid_value(f"{path}.operator", operator, text))
    if _has_conflicting_scopes(rule.get("scopeName", "") for rule in rules):
        errors.append(invalid_value(path, None, "conflicting scopes"))
    return errors


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
    texts = label_key_texts(kind)
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
