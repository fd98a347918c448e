from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.authorization.rbac import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
)
from pytest_kwait.simulator.request_info import (
    AUTHENTICATED,
    MASTERS,
    AuthorizationAttributes,
    Caller,
    User,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

JANE = User("jane", (AUTHENTICATED,))
READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def role(name: str = "reader", *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules or (READ,))}


def binding(
    role: str = "reader", subject: dict[str, Any] | None = None, kind: str = "Role"
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{role}-binding"},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [subject or {"kind": "User", "name": "jane"}],
    }


def may(api: SimulatedCluster, user: User, verb: str = "list", namespace: str = "default") -> bool:
    return api.rbac.decide(
        AuthorizationAttributes(user, verb, "", "pods", "", "", namespace)
    ).allowed


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "User", "name": "jane"}, JANE),
        ({"kind": "Group", "name": "team"}, User("x", ("team",))),
        (
            {"kind": "ServiceAccount", "name": "robot"},
            User("system:serviceaccount:default:robot"),
        ),
        (
            {"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"},
            User("system:serviceaccount:kube-system:robot"),
        ),
    ],
)
def test_subjects_of_a_binding(api: SimulatedCluster, subject: dict[str, Any], user: User) -> None:
    assert not may(api, user)
    api.create(ROLES, role(), "default")
    api.create(BINDINGS, binding(subject=subject), "default")
    assert may(api, user)
    assert not may(api, user, "delete")
    assert not may(api, user, namespace="kube-system")
    assert not may(api, user, namespace="")
    assert not may(api, User("other", ("others",)))
    api.delete(ROLES, "reader", "default")
    assert not may(api, user)


def test_a_binding_for_the_whole_cluster(api: SimulatedCluster) -> None:
    api.create(CLUSTER_ROLES, role())
    api.create(CLUSTER_BINDINGS, binding(kind="ClusterRole"))
    assert may(api, JANE)
    assert may(api, JANE, namespace="")
    decision = api.rbac.decide(AuthorizationAttributes(JANE, "get", "", "pods", "", "a", "default"))
    assert decision.reason == (
        'RBAC: allowed by ClusterRoleBinding "reader-binding" of ClusterRole "reader" to User '
        '"jane"'
    )
    api.delete(CLUSTER_BINDINGS, "reader-binding")
    assert not may(api, JANE)


def test_service_account_subject_has_a_namespace(api: SimulatedCluster) -> None:
    api.create(ROLES, role(), "default")
    subject = {"kind": "ServiceAccount", "name": "robot"}
    api.create(BINDINGS, binding(subject=subject), "default")
    robot = User("system:serviceaccount:default:robot")
    decision = api.rbac.decide(
        AuthorizationAttributes(robot, "get", "", "pods", "", "a", "default")
    )
    assert decision.reason == (
        'RBAC: allowed by RoleBinding "reader-binding/default" of Role "reader" to ServiceAccount '
        '"robot/default"'
    )


def test_refusal_names_missing_roles(api: SimulatedCluster) -> None:
    api.create(BINDINGS, binding("none"), "default")
    api.create(BINDINGS, binding("gone", kind="ClusterRole"), "default")
    decision = api.rbac.decide(AuthorizationAttributes(JANE, "get", "", "pods", "", "a", "default"))
    assert decision == (
        False,
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "none" not found]',
    )


def test_members_of_masters_are_allowed(api: SimulatedCluster) -> None:
    root = User("root", (MASTERS,))
    assert api.rbac.decide(AuthorizationAttributes(root, "any", "x", "y")) == (True, "")
    assert api.store.watchers(ROLES) == 0


def test_the_rules_of_few_users_are_kept(api: SimulatedCluster) -> None:
    for number in range(600):
        assert not may(api, User(f"user-{number}"))
    assert len(api.rbac._known or ()) <= 512


def test_the_roles_that_every_cluster_has(api: SimulatedCluster) -> None:
    assert len(api.list(CLUSTER_ROLES)) > 60
    admin = {str(rule) for rule in api.get(CLUSTER_ROLES, "admin")["rules"]}
    edit = {str(rule) for rule in api.get(CLUSTER_ROLES, "edit")["rules"]}
    view = {str(rule) for rule in api.get(CLUSTER_ROLES, "view")["rules"]}
    assert admin > edit > view > set()
    assert api.rbac.decide(AuthorizationAttributes(JANE, "get", path="/api/v1")).allowed
    assert not api.rbac.decide(
        AuthorizationAttributes(User("system:anonymous"), "get", path="/api")
    ).allowed


def test_escalation_is_forbidden(api: SimulatedCluster) -> None:
    """The transcripts have the rest; nothing is stored of what is refused."""
    jane = Caller("jane", (AUTHENTICATED,))
    with pytest.raises(StatusError) as refused:
        api.create(ROLES, role(), "default", caller=jane)
    assert refused.value.message == (
        'roles.rbac.authorization.k8s.io "reader" is forbidden: user "jane" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'
    )
    api.create(ROLES, role(), "default")
    with pytest.raises(StatusError, match="not currently held"):
        api.create(BINDINGS, binding(), "default", caller=jane)
    assert api.find(BINDINGS, "reader-binding", "default") is None
    api.create(BINDINGS, binding(), "default")
    api.create(BINDINGS, binding() | {"metadata": {"name": "more"}}, "default", caller=jane)


def test_escalation_error_includes_resolution_errors(api: SimulatedCluster) -> None:
    api.create(BINDINGS, binding("none"), "default")
    with pytest.raises(StatusError) as refused:
        api.create(ROLES, role(), "default", caller=Caller("jane", ()))
    assert refused.value.message.endswith(
        '; resolution errors: [role.rbac.authorization.k8s.io "none" not found]'
    )


def test_the_garbage_collectors_fields_may_change(api: SimulatedCluster) -> None:
    stored = api.create(ROLES, role(), "default")
    kind = api.kind_of(ROLES)
    changed = {**stored, "metadata": {**stored["metadata"], "finalizers": ["a.io/b"]}}
    entry = api.entry(kind, "reader", "default")
    kept = api.replace(kind, entry, changed, None, Caller("jane", ()))
    assert kept["metadata"]["finalizers"] == ["a.io/b"]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("rules", [{"apiGroups": [""], "resources": ["a"]}], "rules[0].verbs: Required value"),
        ("rules", [{"verbs": ["a"], "nonResourceURLs": ["/"]}], "namespaced rules cannot apply"),
        ("rules", [{"verbs": ["a"]}], "rules[0].apiGroups: Required value"),
    ],
)
def test_invalid_rules_are_refused(
    api: SimulatedCluster, field: str, value: Any, text: str
) -> None:
    with pytest.raises(StatusError) as refused:
        api.create(ROLES, {**role(), field: value}, "default")
    assert refused.value.code == 422
    assert text in refused.value.message
