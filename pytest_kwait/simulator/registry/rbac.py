"""Strategies of roles and role bindings, and the check of escalation.

Source: k8s.io/kubernetes pkg/apis/rbac/v1/defaults.go, pkg/registry/rbac/{escalation_check.go,
*/policybased}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.simulator.api_errors import StatusError, forbidden, not_found
from pytest_kwait.simulator.authorization.rbac import (
    MAX_UNCOVERED_VERBS,
    format_rule,
    uncovered_rules,
)
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.request_info import MASTERS, AuthorizationAttributes
from pytest_kwait.simulator.suspendable import beside_loop
from pytest_kwait.simulator.validation.objectmeta import name_is_path_segment
from pytest_kwait.simulator.validation.rbac import (
    RBAC_GROUP,
    validate_cluster_role,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Authorizer, Caller, User
    from pytest_kwait.simulator.scheme import Kind

_ALL_RULES = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_GC_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")
"""Metadata that the garbage collector may change."""


class RoleStrategy(Strategy):
    """The strategy of roles."""

    validate_name = staticmethod(name_is_path_segment)
    allows_create_on_update = True
    validates_metadata_on_update = True

    def validate_create(self, obj: Obj, /) -> list[FieldError]:
        """Validate the rules."""
        return validate_role(obj, namespaced=self.kind.namespaced)

    def check_escalation(
        self, rbac: Authorizer, new: Obj, old: Obj | None, namespace: str, caller: Caller
    ) -> None:
        """Refuse a role with more rules than the caller has, but for the verb `escalate`."""
        if _is_free(new, old, caller):
            return
        user, name, kind = caller.identity, name_of(new), self.kind
        named = name if old is not None else ""
        attributes = AuthorizationAttributes(
            user, "escalate", RBAC_GROUP, kind.plural, "", named, namespace
        )
        if rbac.decide(attributes).allowed:
            return
        _check_covered(rbac, kind, name, user, namespace, new.get("rules") or [])
        collects = _has_aggregation_rule(new) or (old is not None and _has_aggregation_rule(old))
        if collects and uncovered_rules(rbac.rules_for(user, namespace), _ALL_RULES):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(RBAC_GROUP, kind.plural, name, why)


class ClusterRoleStrategy(RoleStrategy):
    """The strategy of cluster roles."""

    validate_create = staticmethod(validate_cluster_role)

    def default(self, obj: Obj) -> None:
        """Set `rules`, which the server always returns."""
        super().default(obj)
        obj.setdefault("rules", None)


class RoleBindingStrategy(Strategy):
    """The strategy of role bindings."""

    validate_name = staticmethod(name_is_path_segment)
    allows_create_on_update = True
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

    def check_escalation(
        self, rbac: Authorizer, new: Obj, old: Obj | None, namespace: str, caller: Caller
    ) -> None:
        """Refuse a binding to a role with more rules than the caller has, but for `bind`."""
        if _is_free(new, old, caller):
            return
        reference: Obj = new.get("roleRef") or {}
        plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(reference.get("kind", ""))
        if plural is None:
            return  # validation refuses it
        user, group, role = (
            caller.identity,
            reference.get("apiGroup", ""),
            reference.get("name", ""),
        )
        attributes = AuthorizationAttributes(user, "bind", group, plural, "", role, namespace)
        if rbac.decide(attributes).allowed:
            return
        try:
            rules = rbac.role_rules(reference, namespace)
        except StatusError:
            raise not_found(RBAC_GROUP, self.kind.plural, role) from None
        _check_covered(rbac, self.kind, name_of(new), user, namespace, rules)


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """The strategy of cluster role bindings."""


def _is_free(new: Obj, old: Obj | None, caller: Caller) -> bool:
    """Return whether a write needs no check of its rules."""
    if MASTERS in caller.groups:
        return True
    return old is not None and _without_gc_fields(new) == _without_gc_fields(old)


def _without_gc_fields(obj: Obj) -> Obj:
    metadata = {field: value for field, value in obj["metadata"].items() if field not in _GC_FIELDS}
    return {**obj, "metadata": metadata}


def _has_aggregation_rule(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_covered(
    rbac: Authorizer, kind: Kind, name: str, user: User, namespace: str, rules: list[Obj]
) -> None:
    owned, errors = rbac.rules_for(user, namespace), rbac.errors_for(user, namespace)
    with beside_loop():
        lacking = uncovered_rules(owned, rules)
        if not lacking:
            return
        rules_text = "\n".join(sorted({format_rule(rule) for rule in lacking}))
    if sum(len(rule["verbs"]) for rule in lacking) >= MAX_UNCOVERED_VERBS:
        rules_text += "\n... and more"
    groups = " ".join(map(quote_go, user.groups))
    text = (
        f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
        f"currently held:\n{rules_text}"
    )
    if errors:
        text += f"; resolution errors: [{aggregate_errors(errors)}]"
    raise forbidden(RBAC_GROUP, kind.plural, name, text)
