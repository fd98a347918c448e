"""Controllers of a selection of pods, and the number of pods that they are to have.

An exact number of pods is final only if their controllers want exactly these pods. Only kinds that
own selected pods are read, and only once the awaited number is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.conditions import StatusCondition, get_condition
from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import ObjectSink, Source
from pytest_kwait.engine.pod_fields import is_finished, is_terminating

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kwait.apimachinery.selectors import Labels
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.object_sinks import ObjectCounter

_KINDS: dict[str, tuple[Resource, ...]] = {
    "ReplicaSet": (REPLICA_SETS, DEPLOYMENTS),
    "ReplicationController": (REPLICATION_CONTROLLERS,),
    "StatefulSet": (STATEFUL_SETS,),
    "DaemonSet": (DAEMON_SETS,),
    "Job": (JOBS,),
}
"""The kinds to read for pods of an owner: a Deployment decides for its ReplicaSets."""

_ALIVE, _UNOWNED, _ENDING, _OTHER = "alive", "unowned", "being deleted", "other"


class _Template(TypedDict, total=False):
    metadata: ObjectMeta | None


class _Spec(TypedDict, total=False):
    replicas: int | None
    parallelism: int | None
    completions: int | None
    suspend: bool | None
    template: _Template | None


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    desiredNumberScheduled: int | None
    succeeded: int | None
    conditions: list[StatusCondition] | None


class _Fields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


class _WantedPods(ObjectSink):
    """Store of the pods wanted by each controller of one kind that the selector concerns."""

    def __init__(self, resource: Resource, selects: Callable[[Labels], bool]) -> None:
        self._resource = resource
        self._selects = selects
        self._wanted: dict[str, int | None] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Record a controller, replacing its earlier state."""
        self._wanted[obj["metadata"].get("uid") or obj["metadata"]["name"]] = self._count(obj)

    def drop(self, uid: str) -> None:
        self._wanted.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present controllers."""
        return self._wanted.keys()

    @property
    def total(self) -> int | None:
        """The number of pods that all of them want; None if one of them has not decided."""
        counts = [count for count in self._wanted.values() if count is not None]
        return sum(counts) if len(counts) == len(self._wanted) else None

    def _count(self, obj: dict[str, Any]) -> int | None:
        spec = obj.get("spec") or {}
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        owners = obj["metadata"].get("ownerReferences") or ()
        if any(owner.get("kind") == "Deployment" for owner in owners) or not self._selects(labels):
            return 0
        if obj["metadata"].get("deletionTimestamp"):
            return None
        if self._resource == JOBS:
            return _active_pods_of(obj)
        status = obj.get("status") or {}
        if (status.get("observedGeneration") or 0) < (obj["metadata"].get("generation") or 0):
            return None
        if self._resource == DAEMON_SETS:
            return status.get("desiredNumberScheduled") or 0
        replicas = spec.get("replicas")
        return 1 if replicas is None else replicas


def _active_pods_of(job: dict[str, Any]) -> int | None:
    """Return the number of pods that a Job is to have active; None if its end is near."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    ends = (get_condition(job, end) for end in ("Complete", "Failed"))
    if spec.get("suspend") or any(end and end.get("status") == "True" for end in ends):
        return 0
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    parallelism = 1 if parallelism is None else int(parallelism)
    succeeded = status.get("succeeded") or 0
    if completions is None:
        return None if succeeded else parallelism
    return max(0, min(parallelism, int(completions) - succeeded))


class PodControllers:
    """The controllers of the pods that a selector matches.

    Args:
        selects: the predicate of their labels.
    """

    def __init__(self, namespace: str | None, selects: Callable[[Labels], bool]) -> None:
        self._namespace = namespace
        self._selects = selects
        self._stores: dict[Resource, _WantedPods] = {}
        self._kinds: set[str] = set()
        self._sources: tuple[Source, ...] = ()

    def classify(self, pod: dict[str, Any], *, met: bool) -> tuple[str, ...]:
        """Return the names under which a pod is counted for `is_settled`.

        Args:
            met: whether it counts for the awaited number.
        """
        if is_terminating(pod):
            return (_ENDING,)
        if is_finished(pod):
            return ()
        owners = pod["metadata"].get("ownerReferences") or ()
        owner = next((owner.get("kind") for owner in owners if owner.get("controller")), "")
        if owner not in _KINDS:
            return (_ALIVE, _UNOWNED)
        self._kinds.add(owner)
        return (_ALIVE,) if met else (_ALIVE, _OTHER)

    def sources(self) -> Sequence[Source]:
        """Return the collections of all kinds that own selected pods."""
        resources = {resource for kind in self._kinds for resource in _KINDS[kind]}
        for resource in resources - self._stores.keys():
            store = self._stores[resource] = _WantedPods(resource, self._selects)
            source = Source(resource, self._namespace, store, fields=_Fields, optional=True)
            self._sources = (*self._sources, source)
        return self._sources

    def is_settled(self, pods: ObjectCounter) -> bool:
        """Return whether the controllers want no more and no fewer pods than there are.

        Args:
            pods: the pods, counted under the names that `classify` returns.
        """
        if not self._stores or any(map(pods.count, (_UNOWNED, _ENDING, _OTHER))):
            return False
        totals = [store.total for store in self._stores.values()]
        known = [total for total in totals if total is not None]
        return len(known) == len(totals) and sum(known) == pods.count(_ALIVE)
