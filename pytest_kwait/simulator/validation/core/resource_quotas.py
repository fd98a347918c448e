"""Validation of resource quotas.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateResourceQuota,
ValidateResourceQuotaUpdate, validateScopeSelector.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList, Rendered, invalid_value
from pytest_kwait.apimachinery.validation import label_key_texts
from pytest_kwait.simulator.validation.core.resources import (
    INTEGER_RESOURCES,
    validate_resource_quantity,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

_QUOTA_COMPUTE_RESOURCES = frozenset(
    f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
_QUOTA_RESOURCES = (
    INTEGER_RESOURCES
    | _QUOTA_COMPUTE_RESOURCES
    | {f"{part}ephemeral-storage" for part in ("", "requests.", "limits.")}
    | {"requests.storage"}
)
_STANDARD_QUOTA_RESOURCES = _QUOTA_RESOURCES | {"storage"}

_POD_QUOTA_RESOURCES = _QUOTA_COMPUTE_RESOURCES | {"pods"}
_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    "CrossNamespacePodAffinity": _POD_QUOTA_RESOURCES,
    "NotBestEffort": _POD_QUOTA_RESOURCES,
    "NotTerminating": _POD_QUOTA_RESOURCES,
    "PriorityClass": _POD_QUOTA_RESOURCES,
    "Terminating": _POD_QUOTA_RESOURCES,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTING_SCOPES = ({"BestEffort", "NotBestEffort"}, {"NotTerminating", "Terminating"})
_EXISTS_ONLY = _SCOPES.keys() - {"PriorityClass", "VolumeAttributesClass"}
_EXISTS_RULE = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_quota_resource_name(name: str, path: str) -> ErrorList:
    """Validate the name of a resource that quotas and limit ranges may list."""
    texts = label_key_texts(name)
    if not texts and "/" not in name and not _is_known_name(name, _STANDARD_QUOTA_RESOURCES):
        texts = ["must be a standard resource type or fully qualified"]
    return ErrorList(invalid_value(path, name, text) for text in texts)


def _is_known_name(name: str, names: frozenset[str]) -> bool:
    return name in names or name.startswith(("hugepages-", "requests.hugepages-"))


def validate_resource_quota(quota: Obj) -> ErrorList:
    """Validate resource names, amounts and scopes of a resource quota."""
    spec = quota.get("spec", {})
    hard, scopes = spec.get("hard", {}), spec.get("scopes", [])
    errors = _validate_amounts(hard, "spec.hard")
    for scope in scopes:
        errors.invalid_each("spec.scopes", scopes, _scope_texts(scope, hard))
    if _has_conflicting_scopes(scopes):
        errors.invalid("spec.scopes", scopes, "conflicting scopes")
    if "scopeSelector" in spec:
        errors += _validate_scope_selector(spec["scopeSelector"], hard)
    return errors


def validate_resource_quota_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a resource quota whose scopes must not change."""
    scopes = new.get("spec", {}).get("scopes", [])
    errors = validate_resource_quota(new)
    if set(scopes) != set(old.get("spec", {}).get("scopes", [])):
        errors.invalid("spec.scopes", scopes, "field is immutable")
    return errors


def validate_resource_quota_status(status: Obj) -> ErrorList:
    """Validate resource names and amounts of a status."""
    hard = _validate_amounts(status.get("hard", {}), "status.hard")
    return hard + _validate_amounts(status.get("used", {}), "status.used")


def _validate_amounts(listed: dict[str, str], path: str) -> ErrorList:
    errors = ErrorList()
    for name in sorted(listed):
        at = f"{path}[{name}]"
        errors += validate_quota_resource_name(name, at)
        if "/" not in name and not _is_known_name(name, _QUOTA_RESOURCES):
            errors.invalid(at, name, "must be a standard resource for quota")
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


def _render_scope_selector(rules: list[Obj]) -> Rendered:
    """Return a scope selector as Go prints the internal type."""
    expressions = [
        {
            "ScopeName": rule.get("scopeName", ""),
            "Operator": rule.get("operator", ""),
            "Values": rule.get("values"),
        }
        for rule in rules
    ]
    return Rendered(json.dumps({"MatchExpressions": expressions}, separators=(",", ":")))


def _validate_scope_selector(selector: Obj, hard: Iterable[str]) -> ErrorList:
    path = "spec.scopeSelector.matchExpressions"
    rules = selector.get("matchExpressions", [])
    selector_text = _render_scope_selector(rules)
    errors = ErrorList()
    for rule in rules:
        scope, operator = rule.get("scopeName", ""), rule.get("operator", "")
        values = rule.get("values", [])
        for text in _scope_texts(scope, hard):
            known = scope in _SCOPES
            at, value = (path, selector_text) if known else (f"{path}.scopeName", scope)
            errors.invalid(at, value, text)
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, _EXISTS_RULE)
        if operator in ("In", "NotIn"):
            if not values:
                text = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )
                errors.required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )
                errors.invalid(f"{path}.values", values, text)
        else:
            text = "not a valid selector operator"
            errors.invalid(f"{path}.operator", operator, text)
    if _has_conflicting_scopes(rule.get("scopeName", "") for rule in rules):
        errors.invalid(path, None, "conflicting scopes")
    return errors
