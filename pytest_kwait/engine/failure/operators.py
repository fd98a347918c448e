"""The operator of an awaited object: the pods whose service account has rights on its kind.

A kind is served by the programs that may watch or write it, in whichever namespace they run. RBAC
names their accounts, the accounts their pods. Without the right to read it, the pods of the
object's own namespace are those that may be searched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Required, TypedDict

from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.pod_fields import ContainerReport, ContainerStatuses, report_containers
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

CONTAINERS = 10
"""Maximum number of containers whose logs are searched."""

NAMESPACES = 3
"""Maximum number of further namespaces whose pods are listed."""

_SYSTEM_NAMESPACE = "kube-system"
_ACCOUNTS = "system:serviceaccounts:"
"""The start of the group of all accounts of a namespace."""

_WRITES = frozenset({"*", "create", "patch", "update"})


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced=namespaced)


_CLUSTER_ROLES = _rbac("clusterroles", "ClusterRole", namespaced=False)
_CLUSTER_ROLE_BINDINGS = _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ROLES = _rbac("roles", "Role", namespaced=True)
_ROLE_BINDINGS = _rbac("rolebindings", "RoleBinding", namespaced=True)


@dataclass(frozen=True, slots=True)
class OperatedObjects:
    """Awaited objects of one kind, which an operator may work on.

    Args:
        namespace: their namespace; None for a cluster-scoped kind.
        names: their names and UIDs; empty for objects that are not known.
        is_custom: whether their kind is a custom one, which no component of Kubernetes works on.
    """

    resource: Resource
    namespace: str | None
    names: tuple[str, ...]
    is_custom: bool = True


class OperatorContainer(NamedTuple):
    """A container whose log may say what was done with an object.

    Args:
        is_operator: whether the account of its pod has rights on the object's kind, or may have.
    """

    namespace: str
    pod: str
    name: str
    is_operator: bool


class _Rule(TypedDict, total=False):
    apiGroups: list[str] | None
    resources: list[str] | None
    verbs: list[str] | None


class _Role(TypedDict, total=False):
    metadata: ObjectMeta
    rules: list[_Rule] | None


class _Subject(TypedDict, total=False):
    kind: str
    name: str
    namespace: str | None


class _RoleReference(TypedDict):
    kind: str
    name: str


class _Binding(TypedDict, total=False):
    metadata: ObjectMeta
    roleRef: Required[_RoleReference]
    subjects: list[_Subject] | None


class _Spec(TypedDict, total=False):
    serviceAccountName: str | None


class _Status(TypedDict, total=False):
    initContainerStatuses: ContainerStatuses
    containerStatuses: ContainerStatuses


class _Pod(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


@dataclass(frozen=True, slots=True)
class _Account:
    """A service account, or all of a namespace if it has no name."""

    namespace: str
    name: str


class _Container(NamedTuple):
    pod: str
    account: str
    name: str


def list_operator_containers(
    session: ApiSession, objects: OperatedObjects, pool: Executor, deadline: Deadline
) -> list[OperatorContainer]:
    """Return the containers whose logs to search, those of the likeliest operator first.

    In the objects' own namespace those of a custom kind's other pods follow. What may not be read
    is left out.
    """
    is_readable, accounts = _find_accounts(session, objects, pool, deadline)
    own = objects.namespace
    namespaces = list(dict.fromkeys(account.namespace for account in accounts))
    listed = [name for name in namespaces if name != own][:NAMESPACES]
    if own is not None and (objects.is_custom or own in namespaces):
        listed.insert(0, own)
    answers = pool.map(lambda name: _list_containers(session, name, deadline), listed)
    pods = dict(zip(listed, answers, strict=True))
    found = [
        OperatorContainer(account.namespace, container.pod, container.name, is_operator=True)
        for account in accounts
        for container in pods.get(account.namespace, ())
        if account.name in ("", container.account)
    ]
    if own is not None and objects.is_custom:
        # An operator has an account of its own.
        others = [
            (container, container.account not in ("", "default")) for container in pods.get(own, ())
        ]
        found += [
            OperatorContainer(own, container.pod, container.name, has_own and not is_readable)
            for container, has_own in sorted(others, key=lambda pair: not pair[1])
        ]
    first: dict[tuple[str, str, str], OperatorContainer] = {}
    for container in found:
        first.setdefault(container[:3], container)
    return list(first.values())[:CONTAINERS]


def _list_containers(session: ApiSession, namespace: str, deadline: Deadline) -> list[_Container]:
    """Return the containers of a namespace that run or have run; none if pods may not be listed."""
    try:
        listed = session.list(PODS, namespace, deadline=deadline, type=_Pod)
    except (ApiError, DeadlineExceeded):
        return []
    pods = sorted((item.object for item in listed.items), key=lambda pod: pod["metadata"]["name"])
    return [
        _Container(
            pod["metadata"]["name"],
            (pod.get("spec") or {}).get("serviceAccountName") or "",
            container.name,
        )
        for pod in pods
        for container in _report_containers(pod)
        if container.state == "running" or container.has_run
    ]


def _report_containers(pod: dict[str, Any]) -> tuple[ContainerReport, ...]:
    status = pod.get("status") or {}
    return (
        *report_containers(status.get("initContainerStatuses"), init=True),
        *report_containers(status.get("containerStatuses")),
    )


def _find_accounts(
    session: ApiSession, objects: OperatedObjects, pool: Executor, deadline: Deadline
) -> tuple[bool, list[_Account]]:
    """Return whether roles may be read, and the accounts with rights, the likeliest first."""
    places: list[tuple[Resource, str | None]] = [
        (_CLUSTER_ROLES, None),
        (_CLUSTER_ROLE_BINDINGS, None),
    ]
    if objects.namespace is not None:
        places += [(_ROLES, objects.namespace), (_ROLE_BINDINGS, objects.namespace)]

    def read(place: tuple[Resource, str | None]) -> list[Any] | None:
        resource, namespace = place
        shape = _Binding if "Binding" in resource.kind else _Role
        try:
            listed = session.list(resource, namespace, deadline=deadline, type=shape)
        except (ApiError, DeadlineExceeded):
            return None
        return [item.object for item in listed.items]

    kinds = [resource.kind for resource, _ in places]
    answers = dict(zip(kinds, pool.map(read, places), strict=True))
    likelihoods = {
        (kind, role["metadata"]["name"]): _rate_role(role, objects)
        for kind in ("ClusterRole", "Role")
        for role in answers.get(kind) or ()
    }
    accounts: dict[_Account, int] = {}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in answers.get(kind) or ():
            reference = binding["roleRef"]
            likelihood = likelihoods.get((reference["kind"], reference["name"]))
            if likelihood is None:
                continue
            for account in _iterate_accounts(binding):
                accounts[account] = min(likelihood, accounts.get(account, likelihood))

    def order(account: _Account) -> Any:
        return (
            accounts[account],
            account.namespace == _SYSTEM_NAMESPACE,
            account.namespace != objects.namespace,
            account.namespace,
            account.name,
        )

    return None not in answers.values(), sorted(accounts, key=order)


def _rate_role(role: _Role, objects: OperatedObjects) -> int | None:
    """Return how little a role points to an operator of the objects; None if it does not.

    Rights on the kind itself, on another kind of its group, on everything; of a kind of Kubernetes
    itself only the right to write it counts.
    """
    group, plural = objects.resource.group, objects.resource.plural
    ratings = []
    for rule in role.get("rules") or ():
        groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
        verbs = set(rule.get("verbs") or ())
        if not objects.is_custom:
            if group in groups and plural in resources and verbs & _WRITES:
                ratings.append(0)
        elif group in groups:
            ratings.append(0 if plural in resources or f"{plural}/status" in resources else 1)
        elif "*" in groups and {"*", plural} & set(resources) and verbs & _WRITES:
            ratings.append(2)
    return min(ratings, default=None)


def _iterate_accounts(binding: _Binding) -> Iterator[_Account]:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name") or ""
        if kind == "ServiceAccount" and (namespace := subject.get("namespace")):
            yield _Account(namespace, name)
        elif kind == "Group" and name.startswith(_ACCOUNTS):
            yield _Account(name.removeprefix(_ACCOUNTS), "")


def make_matcher(objects: OperatedObjects, *, is_elsewhere: bool) -> Callable[[str], object]:
    """Return whether a text of an operator is about one of the objects.

    Args:
        is_elsewhere: whether the operator runs in another namespace, where it serves objects of the
            same name of other namespaces, too.
    """
    names = _compile_words(objects.names) if objects.names else None
    namespace = objects.namespace
    where = _compile_words([namespace]) if is_elsewhere and namespace else None

    def is_about(text: str) -> bool:
        return all(words is None or words.search(text) for words in (names, where))

    return is_about


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, words))
    return re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-]|\.\w)")
