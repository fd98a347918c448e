"""How many replicas controllers lack, counted along; and all but a few pods of a namespace ready.

Source: kubernetes/test/e2e/framework/pod/wait.go WaitForAlmostAllPodsReady.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pytest_kwait.client.resource import REPLICA_SETS, REPLICATION_CONTROLLERS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.framework.pod.list_conditions import RunningReadyPods

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["AlmostAllPods", "ReplicaCountStore"]


class _ReplicaSpec(TypedDict, total=False):
    replicas: int | None


class _ReplicaStatus(TypedDict, total=False):
    readyReplicas: int | None
    observedGeneration: int | None


class _ReplicaFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _ReplicaSpec | None
    status: _ReplicaStatus | None


class _Counted(NamedTuple):
    off: int
    stale: bool


class ReplicaCountStore:
    """The book of controllers: by how many ready replicas each is off, and whose status is old."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        self.off = 0
        """How many ready replicas there are too few or too many, over all of them."""
        self.stale = 0
        """How many of them have a status of an older generation."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a controller, instead of what it counted as before."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.drop(uid)
        status = obj.get("status") or {}
        replicas = (obj.get("spec") or {}).get("replicas")
        wanted = 1 if replicas is None else replicas
        stale = (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0)
        counted = _Counted(abs(wanted - (status.get("readyReplicas") or 0)), stale)
        self._counted[uid] = counted
        self.off += counted.off
        self.stale += counted.stale

    def drop(self, uid: str) -> None:
        """Count a controller no more; nothing where it was not counted."""
        counted = self._counted.pop(uid, None)
        if counted is not None:
            self.off -= counted.off
            self.stale -= counted.stale

    def uids(self) -> Collection[str]:
        """Return the UIDs of the controllers that are there."""
        return self._counted.keys()


class AlmostAllPods(RunningReadyPods):
    """As many pods are ready as must be, and controllers have the replicas they are to have.

    Args:
        namespace: where the pods are.
        least: how many must be Running and ready at least.
        allowed: how many others may be neither, and how many replicas may be missing.
    """

    def __init__(self, namespace: str, least: int, allowed: int) -> None:
        super().__init__(namespace, least, allowed)
        # One book per kind: what is not in a list is gone, and a list is of one kind.
        self._owners = (ReplicaCountStore(), ReplicaCountStore())
        kinds = (REPLICATION_CONTROLLERS, REPLICA_SETS)
        self._sources = (
            *self._sources,
            *(
                Source(kind, namespace, book, fields=_ReplicaFields)
                for kind, book in zip(kinds, self._owners, strict=True)
            ),
        )

    def verdict(self) -> Verdict:
        """Judge by the pods, then by the replicas."""
        verdict = super().verdict()
        if not isinstance(verdict, Met):
            return verdict
        if stale := sum(book.stale for book in self._owners):
            noun = "controller has" if stale == 1 else "controllers have"
            return Pending(f"{stale} {noun} a status of an older generation")
        if (off := sum(book.off for book in self._owners)) > self._allowed:
            return Pending(f"controllers lack {off} ready replicas, {self._allowed} allowed")
        return verdict
