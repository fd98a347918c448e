"""Privilege escalation checks on writes of roles and bindings.

Source: k8s.io/kubernetes pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/
policybased/storage.go, pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, forbidden, not_found
from pytest_kwait.simulator.authorization.attributes import Attributes
from pytest_kwait.simulator.authorization.rbac import GROUP, format_rule, uncovered_rules
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.request_info import MASTERS

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Authorizer
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller, User
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["check_escalation"]

_ALL_RULES = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_GC_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")
"""What the garbage collector may change of an object that others may not."""


def check_escalation(
    rbac: Authorizer, kind: Kind, new: Obj, old: Obj | None, namespace: str, caller: Caller
) -> None:
    """Refuse a role or a binding that grants more than the caller has.

    Args:
        rbac: the authorizer.
        kind: the kind of the object; kinds outside RBAC pass.
        new: the object, decoded.
        old: the object before, None for a new one.
        namespace: the object's namespace.
        caller: the request's caller.

    Raises:
        StatusError: 403 with the missing rules; 404 if the bound role does not exist.
    """
    if kind.group != GROUP or MASTERS in caller.groups:
        return
    if old is not None and _without_gc_fields(new) == _without_gc_fields(old):
        return
    user, name = caller.identity, name_of(new)
    if "roleRef" not in new and kind.plural in ("roles", "clusterroles"):
        named = name if old is not None else ""
        asked = Attributes(user, "escalate", GROUP, kind.plural, "", named, namespace)
        if rbac.decide(asked).allowed:
            return
        _check_covered(rbac, kind, name, user, namespace, new.get("rules") or [])
        collects = _has_aggregation_rule(new) or (old is not None and _has_aggregation_rule(old))
        if collects and _missing_rules(rbac, user, namespace, _ALL_RULES):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(GROUP, kind.plural, name, why)
        return
    reference: Obj = new.get("roleRef") or {}
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(reference.get("kind", ""))
    if plural is None:
        return  # its kind's own rules refuse it
    group, role = reference.get("apiGroup", ""), reference.get("name", "")
    asked = Attributes(user, "bind", group, plural, "", role, namespace)
    if rbac.decide(asked).allowed:
        return
    try:
        rules = rbac.role_rules(reference, namespace)
    except StatusError:
        raise not_found(GROUP, kind.plural, role) from None
    _check_covered(rbac, kind, name, user, namespace, rules)


def _without_gc_fields(obj: Obj) -> Obj:
    metadata = {field: value for field, value in obj["metadata"].items() if field not in _GC_FIELDS}
    return {**obj, "metadata": metadata}


def _has_aggregation_rule(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _missing_rules(
    rbac: Authorizer, user: User, namespace: str, rules: list[Obj] | tuple[Obj, ...]
) -> list[Obj]:
    return uncovered_rules(rbac.rules_for(user, namespace), rules)


def _check_covered(
    rbac: Authorizer, kind: Kind, name: str, user: User, namespace: str, rules: list[Obj]
) -> None:
    lacking = _missing_rules(rbac, user, namespace, rules)
    if not lacking:
        return
    groups = " ".join(json.dumps(group, ensure_ascii=False) for group in user.groups)
    told = "\n".join(sorted({format_rule(rule) for rule in lacking}))
    text = (
        f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
        f"currently held:\n{told}"
    )
    errors = rbac.errors_for(user, namespace)
    if errors:
        one = errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]"
        text += f"; resolution errors: [{one}]"
    raise forbidden(GROUP, kind.plural, name, text)
