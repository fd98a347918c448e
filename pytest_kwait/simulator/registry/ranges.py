"""Addresses and ranges of them, classes of attributes, and capacities.

Source: k8s.io/kubernetes pkg/registry/networking/{ipaddress,servicecidr},
pkg/registry/storage/{volumeattributesclass,csistoragecapacity}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.ranges import (
    validate_csi_storage_capacity,
    validate_ip_address,
    validate_service_cidr,
    validate_service_cidr_update,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)
from pytest_kwait.simulator.validation.storage import validate_immutable_fields

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "CSIStorageCapacityStrategy",
    "IPAddressStrategy",
    "ServiceCIDRStrategy",
    "VolumeAttributesClassStrategy",
]


class IPAddressStrategy(Strategy):
    """Addresses that are held."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Somebody holds it."""
        return validate_ip_address(obj)


class ServiceCIDRStrategy(Strategy):
    """Ranges of addresses for services."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """One of each family at most."""
        return validate_service_cidr(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is there stays."""
        return validate_service_cidr_update(new, old)


class VolumeAttributesClassStrategy(Strategy):
    """Classes of attributes of volumes."""

    validates_metadata_on_update = True

    def prepare_create(self, obj: Obj) -> None:
        """Protected while claims or volumes name it."""
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/vac-protection" not in finalizers:
            finalizers.append("kubernetes.io/vac-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """For a driver, and about something."""
        return validate_volume_attributes_class(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """All of it stays."""
        return validate_volume_attributes_class_update(new, old)


class CSIStorageCapacityStrategy(Strategy):
    """Capacities of storage classes."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Of a class, on nodes, and so much."""
        return validate_csi_storage_capacity(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Of what, and where, stays."""
        return validate_immutable_fields(new, old, "nodeTopology", "storageClassName")
