"""Claims and volumes: pending until something binds them.

Source: pkg/registry/core/{persistentvolume,persistentvolumeclaim}/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import required
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["ClaimStrategy", "VolumeStrategy"]


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    def prepare_create(self, obj: Obj) -> None:
        """Pending, and protected while pods use it."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pvc-protection" not in finalizers:
            finalizers.append("kubernetes.io/pvc-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """How it is used, and how much."""
        spec = obj.get("spec", {})
        errors = []
        if not spec.get("accessModes"):
            errors.append(required("spec.accessModes", "at least 1 access mode is required"))
        if "storage" not in spec.get("resources", {}).get("requests", {}):
            errors.append(required("spec.resources[storage]"))
        return errors


class VolumeStrategy(Strategy):
    """Persistent volumes."""

    def prepare_create(self, obj: Obj) -> None:
        """Pending, and protected while bound."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pv-protection" not in finalizers:
            finalizers.append("kubernetes.io/pv-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """How it is used, and how much."""
        spec = obj.get("spec", {})
        errors = []
        if not spec.get("accessModes"):
            errors.append(required("spec.accessModes"))
        if not spec.get("capacity"):
            errors.append(required("spec.capacity"))
        return errors
