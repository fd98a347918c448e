"""The RBAC authorizer: policy rules, aggregated cluster roles, bindings, bootstrap roles.

Bootstrap roles come from `data/bootstrap.json.gz`, see
`tools/simulator_data/bootstrap_objects.py`.
Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go,
pkg/registry/rbac/validation/{rule,policy_compact}.go, pkg/apis/rbac/v1/evaluation_helpers.go,
pkg/controller/clusterroleaggregation; k8s.io/component-helpers
auth/rbac/validation/policy_comparator.go.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from itertools import chain, product
from operator import and_, or_
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.api_errors import StatusError, not_found
from pytest_kwait.simulator.generated_data import read_data
from pytest_kwait.simulator.objects import labels_of, name_of, new_uid
from pytest_kwait.simulator.request_info import MASTERS, AuthorizationAttributes, AuthorizerDecision
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import User

GROUP = "rbac.authorization.k8s.io"
ROLES = f"roles.{GROUP}"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
BINDINGS = f"rolebindings.{GROUP}"
CLUSTER_BINDINGS = f"clusterrolebindings.{GROUP}"
AGGREGATION_MANAGER = "clusterrole-aggregation-controller"
"""The field manager of the rules of aggregated roles."""

_WILDCARD = "*"
_RULE_FIELDS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)
MAX_UNCOVERED_VERBS = 10_000
"""Verbs of uncovered rules that are found at most; upstream finds all."""
_MAX_CACHED_USERS = 512
"""Users and namespaces whose rules are kept until a role or a binding changes."""


def _rule_list(rule: Obj, field: str) -> Sequence[str]:
    values: Sequence[str] = rule.get(field) or ()
    return values


def rule_allows(rule: Obj, attributes: AuthorizationAttributes) -> bool:
    """Return whether a rule allows a request."""
    verbs = _rule_list(rule, "verbs")
    if attributes.verb not in verbs and _WILDCARD not in verbs:
        return False
    if attributes.path is not None:
        return any(
            _path_matches(url, attributes.path) for url in _rule_list(rule, "nonResourceURLs")
        )
    groups = _rule_list(rule, "apiGroups")
    if attributes.group not in groups and _WILDCARD not in groups:
        return False
    resources = _rule_list(rule, "resources")
    if (
        _WILDCARD not in resources
        and attributes.full_resource not in resources
        and not (attributes.subresource and f"*/{attributes.subresource}" in resources)
    ):
        return False
    names = _rule_list(rule, "resourceNames")
    return not names or attributes.name in names


def _path_matches(url: str, path: str) -> bool:
    return url in (_WILDCARD, path) or (
        url.endswith(_WILDCARD) and path.startswith(url.rstrip(_WILDCARD))
    )


def uncovered_rules(owned: Sequence[Obj], rules: Iterable[Obj]) -> list[Obj]:
    """Return the rules of `rules` that `owned` does not cover, one resource and name each.

    The list ends once its rules have `MAX_UNCOVERED_VERBS`.
    """
    coverage = _Coverage(owned)
    paths: list[Obj] = []
    resources: dict[tuple[str, ...], Obj] = {}
    verbs = 0
    for part in chain.from_iterable(map(coverage.iter_uncovered, rules)):
        verbs += len(part["verbs"])
        if "nonResourceURLs" in part:
            paths += [{**part, "verbs": [verb]} for verb in part["verbs"]]
        else:
            key = (part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
            resources.setdefault(key, {**part, "verbs": []})["verbs"] += part["verbs"]
        if verbs >= MAX_UNCOVERED_VERBS:
            break
    return [*paths, *resources.values()]


class _Coverage:
    """The owned rules that cover a value of a field, as the bits of an integer.

    A rule of N groups, N resources and N verbs has N^3 parts: values that the same owned rules
    cover are compared together.
    """

    def __init__(self, owned: Sequence[Obj]) -> None:
        self._masks: dict[str, dict[str, int]] = {field: {} for _, field in _RULE_FIELDS}
        self._unnamed = 0
        for index, rule in enumerate(owned):
            bit = 1 << index
            for field, masks in self._masks.items():
                for value in _rule_list(rule, field):
                    masks[value] = masks.get(value, 0) | bit
            if not rule.get("resourceNames"):
                self._unnamed |= bit
        prefixes = self._prefixes = defaultdict[int, dict[str, int]](dict)
        for url, mask in self._masks["nonResourceURLs"].items():
            if url.endswith(_WILDCARD):
                prefix = url.rstrip(_WILDCARD)
                of_length = prefixes[len(prefix)]
                of_length[prefix] = of_length.get(prefix, 0) | mask

    def iter_uncovered(self, rule: Obj) -> Iterator[Obj]:
        """Yield the rules of one resource or path, with their uncovered verbs."""
        verbs = [
            (verb, self._find(verb, self._masks["verbs"])) for verb in _rule_list(rule, "verbs")
        ]
        verb_masks = {mask for _, mask in verbs}
        fields = ("apiGroups", "resources", "resourceNames")
        for field_names in (fields, ("nonResourceURLs",)):
            for combination in product(*(self._group(rule, field) for field in field_names)):
                owners = reduce(and_, (mask for mask, _ in combination))
                if all(mask & owners for mask in verb_masks):
                    continue
                lacking = [verb for verb, mask in verbs if not mask & owners]
                for values in product(*(values for _, values in combination)):
                    named = zip(field_names, values, strict=True)
                    part: Obj = {field: [value] for field, value in named if value is not None}
                    yield {**part, "verbs": lacking}

    def _group(self, rule: Obj, field: str) -> list[tuple[int, list[str | None]]]:
        """Return the values of a field by the owned rules that cover them."""
        values = _rule_list(rule, field)
        if field == "resourceNames" and not values:
            return [(self._unnamed, [None])]
        groups: dict[int, list[str | None]] = {}
        for value in values:
            groups.setdefault(self._covering(field, value), []).append(value)
        return list(groups.items())

    def _covering(self, field: str, value: str) -> int:
        masks = self._masks[field]
        match field:
            case "resourceNames":
                return masks.get(value, 0) | self._unnamed
            case "nonResourceURLs":
                found = (urls.get(value[:size], 0) for size, urls in self._prefixes.items())
                return reduce(or_, found, masks.get(value, 0))
            case "resources" if "/" in value:
                found_any = masks.get(f"*/{value.partition('/')[2]}", 0)
                return self._find(value, masks) | found_any
        return self._find(value, masks)

    def _find(self, value: str, masks: dict[str, int]) -> int:
        return masks.get(value, 0) | masks.get(_WILDCARD, 0)


def format_rule(rule: Obj) -> str:
    """Format a rule as errors show it: `{APIGroups:["apps"], Resources:["x"], Verbs:["get"]}`."""
    parts = []
    for label, field in _RULE_FIELDS:
        values = _rule_list(rule, field)
        if values:
            quoted = " ".join(map(quote_go, values))
            parts.append(f"{label}:[{quoted}]")
    return "{" + ", ".join(parts) + "}"


def aggregate_rules(role: Obj, roles: Iterable[Obj]) -> list[Obj]:
    """Return the rules of the roles that an aggregated role selects, each once, by name."""
    rules: list[Obj] = []
    other_roles = sorted(
        (other_role for other_role in roles if name_of(other_role) != name_of(role)), key=name_of
    )
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for other_role in other_roles:
            if matches_label_selector(selector, labels_of(other_role)):
                rules += [rule for rule in other_role.get("rules") or () if rule not in rules]
    return rules


class _ResolvedRules(NamedTuple):
    """The rules of a user in a namespace with their sources, and errors of bindings."""

    rules: list[tuple[str, Obj]]
    errors: list[str]


class RBACAuthorizer:
    """Authorizes requests by the roles and bindings of one cluster.

    Roles are read with the first request of a user outside `system:masters`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, tuple[str, ...], str], _ResolvedRules] | None = None

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizerDecision:
        """Decide on a request; the reason names the binding, or roles that do not exist."""
        if MASTERS in attributes.user.groups:
            return AuthorizerDecision(True)
        held = self._find_rules(attributes.user, attributes.namespace)
        for source, rule in held.rules:
            if rule_allows(rule, attributes):
                return AuthorizerDecision(True, f"RBAC: allowed by {source}")
        if not held.errors:
            return AuthorizerDecision(False)
        return AuthorizerDecision(False, f"RBAC: {aggregate_errors(held.errors)}")

    def rules_for(self, user: User, namespace: str) -> list[Obj]:
        """Return the rules of a user, cluster-wide ones first."""
        return [rule for _, rule in self._find_rules(user, namespace).rules]

    def errors_for(self, user: User, namespace: str) -> list[str]:
        """Return the errors in the user's bindings."""
        return self._find_rules(user, namespace).errors

    def role_rules(self, reference: Obj, namespace: str) -> list[Obj]:
        """Return the rules of the role that a binding in `namespace` refers to.

        Raises:
            StatusError: 404, the role does not exist.
        """
        name = reference.get("name", "")
        if reference.get("kind") == "Role":
            role = self._cluster.find(ROLES, name, namespace)
        else:
            role = self._cluster.find(CLUSTER_ROLES, name)
        if role is None:  # its informers' caches name the kind in the singular
            raise not_found(GROUP, reference.get("kind", "").lower(), name)
        rules: list[Obj] = role.get("rules") or []
        return rules

    def _find_rules(self, user: User, namespace: str) -> _ResolvedRules:
        if self._known is None:
            self._known = {}
            for bucket in (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS):
                self._cluster.store.watch(bucket, self._changed)
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
        """Yield the bindings of the user, each with the first matching subject."""
        bindings = self._cluster.list(CLUSTER_BINDINGS)
        if namespace:
            bindings = bindings + self._cluster.list(BINDINGS, namespace)
        for binding in bindings:
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
    subject_text = subject["name"]
    if subject["kind"] == "ServiceAccount":
        subject_text = f"{subject_text}/{subject.get('namespace') or namespace}"
    return (
        f'{kind} "{where}" of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} '
        f'"{subject_text}"'
    )


def install_bootstrap_objects(cluster: Cluster, *, aggregate_roles: bool) -> None:
    """Store the bootstrap objects of kube-apiserver, without validation.

    Args:
        aggregate_roles: whether aggregated roles have their rules, which a controller of
            kube-controller-manager collects.
    """
    stamp = cluster.clock.stamp()
    content = read_data("bootstrap.json.gz")
    if aggregate_roles:
        _aggregate_cluster_roles(content[CLUSTER_ROLES])
    for resource, objects in content.items():
        kind = cluster.kinds[resource]
        for bare in objects:
            bare_metadata = bare.pop("metadata")
            name, namespace = bare_metadata["name"], bare_metadata.get("namespace", "")
            metadata = {**bare_metadata, "uid": new_uid(), "creationTimestamp": stamp}
            metadata["managedFields"] = [
                {**entry, "time": stamp}
                for entry in metadata["managedFields"]
                if aggregate_roles or entry["manager"] != AGGREGATION_MANAGER
            ]
            for condition in (bare.get("status") or {}).get("conditions") or ():
                condition["lastTransitionTime"] = stamp
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **bare}
            cluster.store.put(kind.bucket, key_of(name, namespace), obj)


def _aggregate_cluster_roles(roles: list[Obj]) -> None:
    """Fill in the rules of aggregated cluster roles, nested ones included."""
    collecting = [role for role in roles if role.get("aggregationRule")]
    changed = True
    while changed:
        changed = False
        for role in collecting:
            rules = aggregate_rules(role, roles)
            changed = changed or rules != role["rules"]
            role["rules"] = rules
