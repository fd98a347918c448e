"""Validation of roles and role bindings.

Source: k8s.io/kubernetes pkg/apis/rbac/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import path_segment_texts
from pytest_kwait.simulator.validation.objectmeta import name_texts, validate_label_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

RBAC_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def validate_role(role: Obj, *, namespaced: bool) -> ErrorList:
    """Validate that each rule has verbs, and either resources or URLs."""
    errors = ErrorList()
    for index, rule in enumerate(role.get("rules") or ()):
        errors += _validate_rule(rule, f"rules[{index}]", namespaced=namespaced)
    return errors


def _validate_rule(rule: Obj, path: str, *, namespaced: bool) -> ErrorList:
    errors = ErrorList()
    if not rule.get("verbs"):
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, why)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, why)
        return errors
    if not rule.get("apiGroups"):
        why = "resource rules must supply at least one api group"
        errors.required(f"{path}.apiGroups", why)
    if not rule.get("resources"):
        why = "resource rules must supply at least one resource"
        errors.required(f"{path}.resources", why)
    return errors


def validate_cluster_role(role: Obj) -> ErrorList:
    """Validate rules, and the selectors of an aggregation rule."""
    errors = validate_role(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.required(path, why)
        for index, selector in enumerate(selectors):
            selector_errors = validate_label_selector(selector, f"{path}[{index}]")
            if selector_errors:
                # kube-apiserver shows the selector that it failed to parse, which is nil.
                text = "invalid label selector."
                selector_errors.invalid(f"{path}[{index}]", None, text)
            errors += selector_errors
    return errors


def validate_role_binding(binding: Obj, *, namespaced: bool) -> ErrorList:
    """Validate the role reference and the subjects."""
    role_kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    reference, errors = binding.get("roleRef") or {}, ErrorList()
    group, kind = reference.get("apiGroup", ""), reference.get("kind", "")
    if group != RBAC_GROUP:
        errors.not_supported("roleRef.apiGroup", group, [RBAC_GROUP])
    if kind not in role_kinds:
        errors.not_supported("roleRef.kind", kind, role_kinds)
    name = reference.get("name", "")
    if not name:
        errors.required("roleRef.name")
    errors.invalid_each("roleRef.name", name, path_segment_texts(name))
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += _validate_subject(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def validate_role_binding_update(new: Obj, old: Obj, *, namespaced: bool) -> ErrorList:
    """Validate a binding whose role reference must not change."""
    errors = validate_role_binding(new, namespaced=namespaced)
    if new.get("roleRef") != old.get("roleRef"):
        reference = new.get("roleRef") or {}
        internal_reference = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        errors.invalid("roleRef", internal_reference, "cannot change roleRef")
    return errors


def _validate_subject(subject: Obj, path: str, *, namespaced: bool) -> ErrorList:
    name, kind = subject.get("name", ""), subject.get("kind", "")
    group, errors = subject.get("apiGroup", ""), ErrorList()
    if not name:
        errors.required(f"{path}.name")
    if kind not in _SUBJECTS:
        errors.not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif kind != "ServiceAccount":
        if group != RBAC_GROUP:
            errors.not_supported(f"{path}.apiGroup", group, [RBAC_GROUP])
    else:
        texts = name_texts(name) if name else []
        errors.invalid_each(f"{path}.name", name, texts)
        if group:
            errors.not_supported(f"{path}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            errors.required(f"{path}.namespace")
    return errors
