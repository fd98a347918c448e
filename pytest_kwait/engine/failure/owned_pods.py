"""The pods that a custom object owns, directly or through Jobs, workloads and other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

OWNERS = 10
"""Maximum number of owners that are read for each step up from the pods."""

STEPS = 3
"""Maximum number of owners between a pod and the object: ReplicaSet, Deployment, and one more."""


class _OwnerReference(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str


class _Metadata(TypedDict, total=False):
    name: str
    uid: str
    ownerReferences: list[_OwnerReference] | None


class _Owned(TypedDict):
    metadata: _Metadata


class _Owner(NamedTuple):
    api_version: str
    kind: str
    name: str
    uid: str


def list_owned_pods(
    session: ApiSession, namespace: str, uids: Iterable[str], pool: Executor, deadline: Deadline
) -> tuple[str, ...]:
    """Return the names of the pods of a namespace that objects own, sorted.

    Pods and owners that may not be read are left out.

    Args:
        uids: the UIDs of the objects.
        pool: reads owners side by side.
    """
    try:
        listed = session.list(PODS, namespace, deadline=deadline, type=_Owned)
    except (ApiError, DeadlineExceeded):
        return ()
    roots = set(uids)
    above: dict[str, list[_Owner]] = {}
    """The owners of pods, by name, and of their owners, by UID."""
    pods = {item.object["metadata"]["name"]: item.object for item in listed.items}
    for name, pod in pods.items():
        above[name] = _list_owners(pod)

    def read(owner: _Owner) -> list[_Owner]:
        try:
            resource = session.resolve(owner.kind, owner.api_version, deadline=deadline)
            place = namespace if resource.namespaced else None
            return _list_owners(session.get(resource, owner.name, place, deadline=deadline))
        except (ApiError, DeadlineExceeded, InvalidArgument):
            return []

    frontier = [owner for owners in above.values() for owner in owners]
    for _ in range(STEPS):
        unknown = {
            owner.uid: owner
            for owner in frontier
            if owner.uid not in roots and owner.uid not in above
        }
        some = list(unknown.values())[:OWNERS]
        for owner, owners in zip(some, pool.map(read, some), strict=True):
            above[owner.uid] = owners
        frontier = [higher for owner in some for higher in above[owner.uid]]
    return tuple(sorted(name for name in pods if _is_owned(name, above, roots)))


def _list_owners(obj: Mapping[str, Any]) -> list[_Owner]:
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    fields = ("apiVersion", "kind", "name", "uid")
    return [
        _Owner(*(str(reference.get(field) or "") for field in fields)) for reference in references
    ]


def _is_owned(key: str, above: Mapping[str, list[_Owner]], roots: set[str]) -> bool:
    seen: set[str] = set()
    pending = [key]
    while pending:
        for owner in above.get(pending.pop(), ()):
            if owner.uid in roots:
                return True
            if owner.uid not in seen:
                seen.add(owner.uid)
                pending.append(owner.uid)
    return False
