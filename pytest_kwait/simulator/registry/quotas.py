"""Resource quotas: what can be counted, and in which scopes.

Source: pkg/apis/core/validation/validation.go, `ValidateResourceQuota`; pkg/apis/core/helper.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value, required
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.quantities import (
    INTEGER_RESOURCES,
    validate_resource_quantity,
)
from pytest_kwait.simulator.validation.objectmeta import qualified_name_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ResourceQuotaStrategy", "resource_name_errors"]

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
    texts = qualified_name_texts(name)
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
