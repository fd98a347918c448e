"""Strategies of roles and role bindings.

Source: k8s.io/kubernetes pkg/apis/rbac/v1/defaults.go, pkg/apis/rbac/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import path_segment_texts
from pytest_kwait.simulator.api_errors import invalid_value, not_supported, required
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.objectmeta import name_errors, selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ClusterRoleBindingStrategy",
    "ClusterRoleStrategy",
    "RoleBindingStrategy",
    "RoleStrategy",
]

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _rule_errors(rule: Obj, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid_value(f"{path}.nonResourceURLs", urls, why))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid_value(f"{path}.nonResourceURLs", urls, why))
        return errors
    if not rule.get("apiGroups"):
        why = "resource rules must supply at least one api group"
        errors.append(required(f"{path}.apiGroups", why))
    if not rule.get("resources"):
        why = "resource rules must supply at least one resource"
        errors.append(required(f"{path}.resources", why))
    return errors


class RoleStrategy(Strategy):
    """Source: pkg/apis/rbac/validation.ValidateRole."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Rules have verbs, and resources or else paths."""
        return [
            error
            for index, rule in enumerate(obj.get("rules") or ())
            for error in _rule_errors(rule, f"rules[{index}]", namespaced=self.kind.namespaced)
        ]


class ClusterRoleStrategy(RoleStrategy):
    """Source: pkg/apis/rbac/validation.ValidateClusterRole."""

    def default(self, obj: Obj) -> None:
        """Rules are always shown, unlike what OpenAPI says."""
        super().default(obj)
        obj.setdefault("rules", None)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Those that collect rules say from where."""
        errors = super().validate_create(obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            path = "aggregationRule.clusterRoleSelectors"
            selectors = aggregation.get("clusterRoleSelectors") or ()
            if not selectors:
                why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                errors.append(required(path, why))
            for index, selector in enumerate(selectors):
                found = selector_errors(selector, f"{path}[{index}]")
                if found:
                    # The server names the selector that could not be made, which is none.
                    text = "invalid label selector."
                    found.append(invalid_value(f"{path}[{index}]", None, text))
                errors += found
        return errors


class RoleBindingStrategy(Strategy):
    """Source: pkg/apis/rbac/validation.ValidateRoleBinding."""

    validates_metadata_on_update = True
    roles: tuple[str, ...] = ("Role", "ClusterRole")
    """The kinds that it can bind."""

    def default(self, obj: Obj) -> None:
        """Roles, users and groups are those of RBAC."""
        super().default(obj)
        reference = obj.get("roleRef")
        if reference is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """The role and the subjects can be meant."""
        reference, errors = obj.get("roleRef") or {}, []
        group, kind = reference.get("apiGroup", ""), reference.get("kind", "")
        if group != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", group, [_GROUP]))
        if kind not in self.roles:
            errors.append(not_supported("roleRef.kind", kind, self.roles))
        name = reference.get("name", "")
        if not name:
            errors.append(required("roleRef.name"))
        errors += [invalid_value("roleRef.name", name, text) for text in path_segment_texts(name)]
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += self._subject_errors(subject, f"subjects[{index}]")
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The role never changes."""
        errors = self.validate_create(new)
        if new.get("roleRef") != old.get("roleRef"):
            reference = new.get("roleRef") or {}
            shown = {
                "APIGroup": reference.get("apiGroup", ""),
                "Kind": reference.get("kind", ""),
                "Name": reference.get("name", ""),
            }
            errors.append(invalid_value("roleRef", shown, "cannot change roleRef"))
        return errors

    def _subject_errors(self, subject: Obj, path: str) -> list[FieldError]:
        name, kind = subject.get("name", ""), subject.get("kind", "")
        group, errors = subject.get("apiGroup", ""), []
        if not name:
            errors.append(required(f"{path}.name"))
        if kind not in _SUBJECTS:
            errors.append(not_supported(f"{path}.kind", kind, _SUBJECTS))
        elif kind != "ServiceAccount":
            if group != _GROUP:
                errors.append(not_supported(f"{path}.apiGroup", group, [_GROUP]))
        else:
            texts = name_errors(name) if name else []
            errors += [invalid_value(f"{path}.name", name, text) for text in texts]
            if group:
                errors.append(not_supported(f"{path}.apiGroup", group, [""]))
            if not self.kind.namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """Source: pkg/apis/rbac/validation.ValidateClusterRoleBinding."""

    roles = ("ClusterRole",)
