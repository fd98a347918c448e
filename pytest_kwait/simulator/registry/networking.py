"""Strategies of ingresses, network policies, IP addresses and service CIDRs.

Source: k8s.io/kubernetes pkg/registry/networking, pkg/apis/networking/v1/defaults.go,
pkg/registry/storage/{volumeattributesclass,csistoragecapacity}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.addresses import get_ip_warnings
from pytest_kwait.simulator.validation.core.services import get_load_balancer_ingress_points
from pytest_kwait.simulator.validation.networking import (
    CLASS_ANNOTATION,
    get_network_policy_warnings,
    validate_ingress,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_create,
    validate_ingress_status_update,
    validate_ip_address,
    validate_network_policy,
    validate_service_cidr,
    validate_service_cidr_update,
)
from pytest_kwait.simulator.validation.storage import (
    validate_csi_storage_capacity,
    validate_immutable_fields,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "CSIStorageCapacityStrategy",
    "IPAddressStrategy",
    "IngressClassStrategy",
    "IngressStrategy",
    "NetworkPolicyStrategy",
    "ServiceCIDRStrategy",
    "VolumeAttributesClassStrategy",
]


class IngressStrategy(Strategy):
    """Ingresses."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """The group of a resource behind it is always shown."""
        super().default(obj)
        spec = obj.get("spec") or {}
        backends = [spec.get("defaultBackend")]
        for rule in spec.get("rules") or ():
            backends += [
                path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()
            ]
        for backend in backends:
            resource = (backend or {}).get("resource")
            if resource is not None:
                resource.setdefault("apiGroup", None)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Rules, backends, and one class."""
        return validate_ingress_create(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Rules and backends."""
        del old
        return validate_ingress(new)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Addresses and names."""
        return validate_ingress_status_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """The annotation of before."""
        name = (obj.get("spec") or {}).get("ingressClassName")
        if CLASS_ANNOTATION in annotations_of(obj) and name is None:
            caller.warn(
                f'annotation "{CLASS_ANNOTATION}" is deprecated, please use '
                "'spec.ingressClassName' instead"
            )

    def warn_status(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Odd addresses."""
        del old
        for index, point in enumerate(get_load_balancer_ingress_points(new)):
            for text in get_ip_warnings(
                f"status.loadBalancer.ingress[{index}]", point.get("ip", "")
            ):
                caller.warn(text)


class IngressClassStrategy(Strategy):
    """Classes of ingresses."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Parameters are the cluster's, unless they say otherwise."""
        super().default(obj)
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A controller, and parameters that can be found."""
        return validate_ingress_class(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """The controller never changes."""
        return validate_ingress_class_update(new, old)


class NetworkPolicyStrategy(Strategy):
    """Network policies."""

    def default(self, obj: Obj) -> None:
        """A policy is for what comes in, and for what goes out where it says something of that."""
        super().default(obj)
        spec = obj.get("spec")
        if isinstance(spec, dict) and not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Selectors, peers, ports."""
        return validate_network_policy(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The same; networks that were there may stay."""
        return validate_network_policy(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Odd networks."""
        for text in get_network_policy_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Odd networks."""
        del old
        self.warn_create(new, caller)


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
