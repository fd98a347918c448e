"""Strategies of ingresses, network policies, IP addresses and service CIDRs.

Source: k8s.io/kubernetes pkg/registry/networking, pkg/apis/networking/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import canonical_ip_texts
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.services import get_ingress_point_warnings
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

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller


class IngressStrategy(Strategy):
    """The strategy of ingresses."""

    resource_prefix = "ingress"
    validates_metadata_on_update = True
    validate_create = staticmethod(validate_ingress_create)
    validate_status = staticmethod(validate_ingress_status_update)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate rules and backends."""
        del old
        return validate_ingress(new)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the deprecated class annotation."""
        name = (obj.get("spec") or {}).get("ingressClassName")
        if CLASS_ANNOTATION in annotations_of(obj) and name is None:
            caller.warn(
                f'annotation "{CLASS_ANNOTATION}" is deprecated, please use '
                "'spec.ingressClassName' instead"
            )

    def warn_on_status_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of non-canonical addresses."""
        del old
        for text in get_ingress_point_warnings(new):
            caller.warn(text)


class IngressClassStrategy(Strategy):
    """The strategy of ingress classes."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_ingress_class)
    validate_immutable = staticmethod(validate_ingress_class_update)

    def default(self, obj: Obj) -> None:
        """Default the scope of parameters to the cluster."""
        super().default(obj)
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")


class NetworkPolicyStrategy(Strategy):
    """The strategy of network policies."""

    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_network_policy)
    validate_update = staticmethod(validate_network_policy)

    def default(self, obj: Obj) -> None:
        """Default the policy types: Ingress, and Egress if there are egress rules."""
        super().default(obj)
        spec = obj.get("spec")
        if isinstance(spec, dict) and not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of non-canonical CIDRs."""
        for text in get_network_policy_warnings(obj):
            caller.warn(text)


def _validate_ip_name(name: str, prefix: bool) -> list[str]:
    """Return messages if `name` is no canonical IP address."""
    del prefix
    return canonical_ip_texts(name)


class IPAddressStrategy(Strategy):
    """The strategy of IP addresses: their names are the addresses."""

    validate_name = staticmethod(_validate_ip_name)
    validate_create = staticmethod(validate_ip_address)


class ServiceCIDRStrategy(Strategy):
    """The strategy of service CIDRs."""

    validate_create = staticmethod(validate_service_cidr)
    validate_update = staticmethod(validate_service_cidr_update)
