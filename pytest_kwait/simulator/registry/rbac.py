"""Strategies of roles and role bindings.

Source: k8s.io/kubernetes pkg/apis/rbac/v1/defaults.go, pkg/registry/rbac.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.rbac import (
    RBAC_GROUP,
    validate_cluster_role,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ClusterRoleBindingStrategy",
    "ClusterRoleStrategy",
    "RoleBindingStrategy",
    "RoleStrategy",
]


class RoleStrategy(Strategy):
    """Roles."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the rules."""
        return validate_role(obj, namespaced=self.kind.namespaced)


class ClusterRoleStrategy(RoleStrategy):
    """Cluster roles."""

    def default(self, obj: Obj) -> None:
        """Set `rules`, which the server always returns."""
        super().default(obj)
        obj.setdefault("rules", None)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate rules and aggregation."""
        return validate_cluster_role(obj)


class RoleBindingStrategy(Strategy):
    """Role bindings."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Default the API group of roles, users and groups to RBAC's."""
        super().default(obj)
        reference = obj.get("roleRef")
        if reference is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = RBAC_GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = RBAC_GROUP

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate role reference and subjects."""
        return validate_role_binding(obj, namespaced=self.kind.namespaced)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; the role reference must not change."""
        return validate_role_binding_update(new, old, namespaced=self.kind.namespaced)


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """Cluster role bindings."""
