"""Which objects a quota with scopes counts.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/{pods,persistent_volume_claims}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.registry.pod_defaults import qos_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["has_deadline", "is_in_scopes"]

_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


def is_in_scopes(quota_spec: Obj, resource: str, obj: Obj) -> bool:
    """Whether the object is in every scope of the quota; kinds without scopes are in none.

    Args:
        quota_spec: the quota's spec.
        resource: what the object is, `pods` for example.
        obj: the object.
    """
    selectors = [
        {"scopeName": scope, "operator": "Exists"} for scope in quota_spec.get("scopes", ())
    ]
    selectors += quota_spec.get("scopeSelector", {}).get("matchExpressions", ())
    if resource == "pods":
        return all(_pod_matches(selector, obj) for selector in selectors)
    if resource == "persistentvolumeclaims":
        return all(_claim_matches(selector, obj) for selector in selectors)
    return not selectors


def has_deadline(pod: Obj) -> bool:
    """Whether the pod is `Terminating` in the word's sense for quotas: made to end by itself."""
    return int(pod["spec"].get("activeDeadlineSeconds", -1)) >= 0


def _pod_matches(selector: Obj, pod: Obj) -> bool:
    spec = pod["spec"]
    match selector.get("scopeName"):
        case "Terminating":
            return has_deadline(pod)
        case "NotTerminating":
            return not has_deadline(pod)
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            name = spec.get("priorityClassName", "")
            return _matches_expression(selector, {name} if name else set())
        case "CrossNamespacePodAffinity":
            return _has_cross_namespace_affinity(spec.get("affinity", {}))
    return False


def _claim_matches(selector: Obj, claim: Obj) -> bool:
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status", {})
    names = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        status.get("modifyVolumeStatus", {}).get("targetVolumeAttributesClassName"),
    )
    return _matches_expression(selector, {name for name in names if name})


def _matches_expression(selector: Obj, names: set[str]) -> bool:
    values = set(selector.get("values", ()))
    match selector.get("operator"):
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names or bool(names - values)
    return False


def _has_cross_namespace_affinity(affinity: Mapping[str, Any]) -> bool:
    for part in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(part, {})
        terms = [*found.get(_REQUIRED_TERMS, ())]
        terms += [wish.get("podAffinityTerm", {}) for wish in found.get(_PREFERRED_TERMS, ())]
        if any(term.get("namespaces") or "namespaceSelector" in term for term in terms):
            return True
    return False
