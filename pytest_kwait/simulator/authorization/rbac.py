"""The RBAC authorizer over the cluster's roles and bindings.

Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go,
pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.api_errors import StatusError, not_found
from pytest_kwait.simulator.authorization.rules import rule_allows
from pytest_kwait.simulator.users import MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.authorization.attributes import Attributes
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.users import User

__all__ = [
    "BINDINGS",
    "CLUSTER_BINDINGS",
    "CLUSTER_ROLES",
    "GROUP",
    "ROLES",
    "Decision",
    "RBACAuthorizer",
]

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_BINDINGS = f"clusterrolebindings.{GROUP}"

_MAX_CACHED_USERS = 512
"""Users and namespaces whose rules are kept until a role or a binding changes."""


class Decision(NamedTuple):
    """What the authorizer says."""

    allowed: bool
    reason: str = ""


class _ResolvedRules(NamedTuple):
    """What a user has in a namespace: rules with where they come from, and roles not found."""

    rules: list[tuple[str, Obj]]
    errors: list[str]


class RBACAuthorizer:
    """Decides over one cluster's objects.

    Nothing is read before the first question by somebody who is not in `system:masters`.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._known: dict[tuple[str, tuple[str, ...], str], _ResolvedRules] | None = None

    def decide(self, asked: Attributes) -> Decision:
        """Whether it is allowed, and by what; the reason of a refusal names missing roles."""
        if MASTERS in asked.user.groups:
            return Decision(True)
        held = self._held(asked.user, asked.namespace)
        for source, rule in held.rules:
            if rule_allows(rule, asked):
                return Decision(True, f"RBAC: allowed by {source}")
        if not held.errors:
            return Decision(False)
        told = list(dict.fromkeys(held.errors))
        text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        return Decision(False, f"RBAC: {text}")

    def rules_for(self, user: User, namespace: str) -> list[Obj]:
        """The rules that a user has, those of the whole cluster first."""
        return [rule for _, rule in self._held(user, namespace).rules]

    def errors_for(self, user: User, namespace: str) -> list[str]:
        """What was wrong with bindings of the user."""
        return self._held(user, namespace).errors

    def role_rules(self, reference: Obj, namespace: str) -> list[Obj]:
        """The rules of the role that a binding in `namespace` refers to.

        Raises:
            StatusError: 404, there is no such role.
        """
        name = reference.get("name", "")
        if reference.get("kind") == "Role":
            role = self._api.find(ROLES, name, namespace)
        else:
            role = self._api.find(CLUSTER_ROLES, name)
        if role is None:  # its informers' caches name the kind in the singular
            raise not_found(GROUP, reference.get("kind", "").lower(), name)
        rules: list[Obj] = role.get("rules") or []
        return rules

    def _held(self, user: User, namespace: str) -> _ResolvedRules:
        if self._known is None:
            self._known = {}
            for bucket in (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS):
                self._api.store.watch(bucket, self._changed)
        key = (user.name, user.groups, namespace)
        held = self._known.get(key)
        if held is None:
            if len(self._known) >= _MAX_CACHED_USERS:
                self._known.clear()
            held = self._known[key] = self._resolve(user, namespace)
        return held

    def _changed(self, _change: object) -> None:
        if self._known:
            self._known.clear()

    def _resolve(self, user: User, namespace: str) -> _ResolvedRules:
        held = _ResolvedRules([], [])
        for binding, subject in self._bindings(user, namespace):
            there = binding["metadata"].get("namespace", "")
            reference = binding["roleRef"]
            try:
                rules = self.role_rules(reference, there)
            except StatusError as error:
                held.errors.append(error.message)
                continue
            source = _describe_source(binding, reference, subject, there)
            held.rules.extend((source, rule) for rule in rules)
        return held

    def _bindings(self, user: User, namespace: str) -> Iterator[tuple[Obj, Obj]]:
        """The bindings of the user, each with the first of its subjects that they are."""
        found = self._api.list(CLUSTER_BINDINGS)
        if namespace:
            found = found + self._api.list(BINDINGS, namespace)
        for binding in found:
            there = binding["metadata"].get("namespace", "")
            for subject in binding.get("subjects") or ():
                if _subject_matches(user, subject, there):
                    yield binding, subject
                    break


def _subject_matches(user: User, subject: Obj, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(user.name == name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return bool(home) and user.name == f"system:serviceaccount:{home}:{name}"
    return False


def _describe_source(binding: Obj, reference: Obj, subject: Obj, namespace: str) -> str:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name = binding["metadata"]["name"]
    where = f"{name}/{namespace}" if namespace else name
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return (
        f'{kind} "{where}" of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} '
        f'"{who}"'
    )
