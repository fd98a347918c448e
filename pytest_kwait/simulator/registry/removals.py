"""Objects going: at once, after a grace period, or when nothing keeps them any more.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, k8s.io/kubernetes
pkg/registry/core/namespace/storage/storage.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import invalid
from pytest_kwait.simulator.kind_view import to_version
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.deletion import plan_deletion
from pytest_kwait.simulator.validation.finalizers import validate_finalizer_name
from pytest_kwait.simulator.validation.objectmeta import metadata_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["ObjectDeleter", "is_deletion_complete"]


class ObjectDeleter:
    """What deletes objects of one cluster.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._store = api.store

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        options: Obj,
        caller: Caller,
        *,
        admitted: bool = False,
    ) -> Obj:
        """Delete an object, or mark it for deletion; returns the object or a Status.

        Args:
            kind: its kind.
            name: its name.
            namespace: its namespace.
            options: how.
            caller: on whose behalf.
            admitted: whether the request was let in already.

        Raises:
            StatusError: 404 if it is not there, 409 if it is not the one that is meant.
        """
        where = name if kind.bucket == "namespaces" else namespace
        asked = Attributes("DELETE", kind, where, name, None, None, "", caller, options)
        entry = self._api.entry(kind, name, namespace)
        asked.old = to_version(kind, entry.obj, caller) if kind.custom else entry.obj
        if not admitted:
            self._api.admission.admit(asked)
        strategy = self._api.strategy(kind)
        marked = strategy.marked(entry.obj, self._api.clock.stamp())
        start = strategy.prepare_delete(entry.obj)
        outcome = plan_deletion(strategy, start, options, self._api.clock.time())
        if not admitted:
            self._api.admission.validate(asked)
        if kind.bucket == "namespaces":
            return self._delete_namespace(kind, entry, caller)
        if marked is not None:
            return marked if caller.dry_run else self._store.put(kind.bucket, entry.key, marked).obj
        obj = outcome.obj
        if not caller.dry_run:
            if outcome.changed:
                obj = self._store.put(kind.bucket, entry.key, obj).obj
            if outcome.remove and self._store.get(kind.bucket, entry.key) is not None:
                obj = self._store.remove(kind.bucket, entry.key).obj
        if not outcome.remove or strategy.returns_deleted_object:
            return obj
        return _deleted_status(kind, entry.obj)

    def finalize(self, kind: Kind, entry: Entry, obj: Obj, caller: Caller) -> Obj:
        """Write a namespace's `spec.finalizers` and its labels; without any left it goes.

        Raises:
            StatusError: 422, one of them is no name of a finalizer.
        """
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        spec = {**entry.obj.get("spec", {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        metadata = {**entry.obj["metadata"]}
        for field in ("labels", "annotations"):
            sent = (obj.get("metadata") or {}).get(field)
            if sent:
                metadata[field] = sent
            else:
                metadata.pop(field, None)
        new = {**entry.obj, "metadata": metadata, "spec": spec}
        self._api.strategy(kind).default(new)
        errors = [
            error
            for index, name in enumerate(finalizers)
            for error in validate_finalizer_name(name, f"spec.finalizers[{index}]")
        ]
        errors += metadata_errors(new, kind)
        if errors:
            raise invalid(kind.group, kind.kind, name_of(new), errors)
        if caller.dry_run:
            return new
        if is_deletion_complete(kind, new):
            self._store.remove(kind.bucket, entry.key)
            return new
        if new == entry.obj:
            return entry.obj
        return self._store.put(kind.bucket, entry.key, new).obj

    def _delete_namespace(self, kind: Kind, entry: Entry, caller: Caller) -> Obj:
        obj = entry.obj
        if obj["metadata"].get("deletionTimestamp") is None:
            metadata = {**obj["metadata"], "deletionTimestamp": self._api.clock.stamp()}
            status = {**obj.get("status", {}), "phase": "Terminating"}
            obj = {**obj, "metadata": metadata, "status": status}
            if caller.dry_run:
                return obj
            # Without finalizers it stays until it is deleted once more, as upstream.
            return self._store.put(kind.bucket, entry.key, obj).obj
        if is_deletion_complete(kind, obj) and not caller.dry_run:
            self._store.remove(kind.bucket, entry.key)
        return obj


def is_deletion_complete(kind: Kind, obj: Obj) -> bool:
    """Whether nothing keeps an object that is being deleted."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind.bucket == "namespaces":
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


def _deleted_status(kind: Kind, obj: Obj) -> Obj:
    """What answers the deletion of an object that is gone at once."""
    details: Obj = {"name": name_of(obj)}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details["uid"] = obj["metadata"]["uid"]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
