"""Namespaces: strategy and REST storages; `finalize` writes the finalizers of the spec.

A namespace stays until its content is gone: its deletion marks it, `finalize` removes it.
Source: k8s.io/kubernetes pkg/registry/core/namespace/{strategy.go,storage/storage.go}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.simulator.api_errors import invalid
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.generic_store import GenericStore, StatusREST
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.objectmeta import (
    name_is_dns_label,
    validate_finalizer_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.deletion import DeletionPlan
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.store import Entry

NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """The strategy of namespaces."""

    returns_deleted_object = True
    validate_name = staticmethod(name_is_dns_label)
    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Label the namespace with its own name."""
        super().default(obj)
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_for_create(self, obj: Obj) -> None:
        """Set the phase Active and the finalizer `kubernetes`."""
        super().prepare_for_create(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the finalizers of the spec; only `finalize` changes them."""
        super().prepare_for_update(new, old)
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the finalizers of the spec."""
        return [
            error
            for name in obj["spec"]["finalizers"]
            for error in validate_finalizer_name(name, "spec.finalizers")
        ]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that only metadata changes."""
        del new, old
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that the phase matches the deletion timestamp."""
        del old
        phase = (new.get("status") or {}).get("phase", "")
        going = bool(new["metadata"].get("deletionTimestamp"))
        expected_phase = "Terminating" if going else "Active"
        if phase == expected_phase:
            return []
        text = (
            f"may only be '{expected_phase}' if `deletionTimestamp` is "
            f"{'not ' if going else ''}empty"
        )
        return [invalid_value("status.Phase", phase, text)]


class NamespaceREST(GenericStore):
    """The REST storage of namespaces."""

    @staticmethod
    def should_delete_during_update(obj: Obj) -> bool:
        """Return whether the spec has no finalizers either."""
        if not GenericStore.should_delete_during_update(obj):
            return False
        return not obj.get("spec", {}).get("finalizers")

    def request_namespace(self, name: str, namespace: str) -> str:
        """Return the namespace's own name."""
        del namespace
        return name

    def finalize_delete(self, entry: Entry, plan: DeletionPlan, caller: Caller) -> Obj:
        """Mark the namespace as terminating; remove it if it is, and has no finalizers."""
        del plan
        obj, metadata = entry.obj, entry.obj["metadata"]
        if metadata.get("deletionTimestamp") is None:
            terminating = {
                **obj,
                "metadata": {**metadata, "deletionTimestamp": self._cluster.clock.stamp()},
                "status": {**obj.get("status", {}), "phase": "Terminating"},
            }
            # Without finalizers it stays until a second deletion, as upstream.
            return self._storage.put(entry.key, terminating, dry_run=caller.dry_run)
        if self.should_delete_during_update(obj):
            self._storage.delete(entry.key, obj, dry_run=caller.dry_run)
        return obj


class NamespaceStatusREST(NamespaceREST, StatusREST):
    """The REST storage of the status of namespaces."""


class NamespaceFinalizeREST(NamespaceREST):
    """The REST storage of `namespaces/finalize`."""

    def update(
        self,
        entry: Entry,
        obj: Obj,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
        *,
        decoded: bool = False,
    ) -> Obj:
        """Write `spec.finalizers`, labels and annotations; remove without the last finalizer.

        Raises:
            StatusError: 409 for a conflict, 422, a finalizer's name is invalid.
        """
        del decoded
        old = entry.obj
        self.check_resource_version(obj.get("metadata", {}), old["metadata"])
        new = _finalized(old, obj)
        self.strategy.default(new)
        self._record(new, old, caller, record)
        errors = [
            error
            for index, name in enumerate(new["spec"].get("finalizers", ()))
            for error in validate_finalizer_name(name, f"spec.finalizers[{index}]")
        ]
        errors += self.strategy.validate_metadata(new)
        if errors:
            raise invalid(self.kind.group, self.kind.kind, name_of(new), errors)
        if caller.dry_run:
            return new
        if self.should_delete_during_update(new):
            self._storage.delete(entry.key, new, dry_run=False)
            return new
        return old if new == old else self._storage.put(entry.key, new, dry_run=False)


def _finalized(old: Obj, sent: Obj) -> Obj:
    """Return a namespace with the finalizers, labels and annotations of another."""
    spec = {**old.get("spec", {}), "finalizers": (sent.get("spec") or {}).get("finalizers")}
    if not spec["finalizers"]:
        del spec["finalizers"]
    metadata = {**old["metadata"]}
    for field in ("labels", "annotations"):
        value = (sent.get("metadata") or {}).get(field)
        if value:
            metadata[field] = value
        else:
            metadata.pop(field, None)
    return {**old, "metadata": metadata, "spec": spec}
