"""Addresses and ranges of them, classes of attributes, and capacities.

Source: k8s.io/kubernetes pkg/registry/networking/{ipaddress,servicecidr},
pkg/registry/storage/{volumeattributesclass,csistoragecapacity}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.rules.ranges import (
    address_errors,
    attribute_change_errors,
    attribute_errors,
    capacity_errors,
    range_change_errors,
    range_errors,
)
from pytest_kwait.simulator.rules.storage import immutable_errors
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["AddressStrategy", "AttributeStrategy", "CapacityStrategy", "RangeStrategy"]


class AddressStrategy(Strategy):
    """Addresses that are held."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Somebody holds it."""
        return address_errors(obj)


class RangeStrategy(Strategy):
    """Ranges of addresses for services."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """One of each family at most."""
        return range_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is there stays."""
        return range_change_errors(new, old)


class AttributeStrategy(Strategy):
    """Classes of attributes of volumes."""

    looks_at_metadata_again = True

    def prepare_create(self, obj: Obj) -> None:
        """Protected while claims or volumes name it."""
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/vac-protection" not in finalizers:
            finalizers.append("kubernetes.io/vac-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """For a driver, and about something."""
        return attribute_errors(obj)

    def validate_change(self, new: Obj, old: Obj) -> list[FieldError]:
        """All of it stays."""
        return attribute_change_errors(new, old)


class CapacityStrategy(Strategy):
    """Capacities of storage classes."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Of a class, on nodes, and so much."""
        return capacity_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Of what, and where, stays."""
        return immutable_errors(new, old, "nodeTopology", "storageClassName")
