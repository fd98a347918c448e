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
        """Set the API group of resource backends."""
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
        """Validate rules, backends and class."""
        return validate_ingress_create(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate rules and backends."""
        del old
        return validate_ingress(new)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate addresses and host names."""
        return validate_ingress_status_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the deprecated class annotation."""
        name = (obj.get("spec") or {}).get("ingressClassName")
        if CLASS_ANNOTATION in annotations_of(obj) and name is None:
            caller.warn(
                f'annotation "{CLASS_ANNOTATION}" is deprecated, please use '
                "'spec.ingressClassName' instead"
            )

    def warn_status(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of non-canonical addresses."""
        del old
        for index, point in enumerate(get_load_balancer_ingress_points(new)):
            for text in get_ip_warnings(
                f"status.loadBalancer.ingress[{index}]", point.get("ip", "")
            ):
                caller.warn(text)


class IngressClassStrategy(Strategy):
    """Ingress classes."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Default the scope of parameters to the cluster."""
        super().default(obj)
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate controller and parameters."""
        return validate_ingress_class(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that the controller does not change."""
        return validate_ingress_class_update(new, old)


class NetworkPolicyStrategy(Strategy):
    """Network policies."""

    def default(self, obj: Obj) -> None:
        """Default the policy types: Ingress, and Egress if there are egress rules."""
        super().default(obj)
        spec = obj.get("spec")
        if isinstance(spec, dict) and not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate selectors, peers and ports."""
        return validate_network_policy(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; present invalid CIDRs may stay."""
        return validate_network_policy(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of non-canonical CIDRs."""
        for text in get_network_policy_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of non-canonical CIDRs."""
        del old
        self.warn_create(new, caller)


class IPAddressStrategy(Strategy):
    """IP addresses."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the parent reference."""
        return validate_ip_address(obj)


class ServiceCIDRStrategy(Strategy):
    """Service CIDRs."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate: at most one CIDR of each family."""
        return validate_service_cidr(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; present CIDRs must not change."""
        return validate_service_cidr_update(new, old)


class VolumeAttributesClassStrategy(Strategy):
    """Volume attributes classes."""

    validates_metadata_on_update = True

    def prepare_create(self, obj: Obj) -> None:
        """Add the protection finalizer."""
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/vac-protection" not in finalizers:
            finalizers.append("kubernetes.io/vac-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate driver name and parameters."""
        return validate_volume_attributes_class(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that nothing changes."""
        return validate_volume_attributes_class_update(new, old)


class CSIStorageCapacityStrategy(Strategy):
    """CSI storage capacities."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate storage class, topology and capacity."""
        return validate_csi_storage_capacity(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; class and topology must not change."""
        return validate_immutable_fields(new, old, "nodeTopology", "storageClassName")
