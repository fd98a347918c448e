"""Ingresses, their classes, and network policies.

Source: k8s.io/kubernetes pkg/registry/networking, pkg/apis/networking/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.rules.addresses import ip_warnings
from pytest_kwait.simulator.rules.ingresses import (
    CLASS_ANNOTATION,
    class_change_errors,
    class_errors,
    ingress_errors,
    ingress_status_errors,
    new_ingress_errors,
)
from pytest_kwait.simulator.rules.network_policies import policy_errors, policy_warnings
from pytest_kwait.simulator.rules.services import points_of
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["IngressClassStrategy", "IngressStrategy", "NetworkPolicyStrategy"]


class IngressStrategy(Strategy):
    """Ingresses."""

    looks_at_metadata_again = True

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
        return new_ingress_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Rules and backends."""
        del old
        return ingress_errors(new)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Addresses and names."""
        return ingress_status_errors(new, old)

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
        for index, point in enumerate(points_of(new)):
            for text in ip_warnings(f"status.loadBalancer.ingress[{index}]", point.get("ip", "")):
                caller.warn(text)


class IngressClassStrategy(Strategy):
    """Classes of ingresses."""

    looks_at_metadata_again = True

    def default(self, obj: Obj) -> None:
        """Parameters are the cluster's, unless they say otherwise."""
        super().default(obj)
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A controller, and parameters that can be found."""
        return class_errors(obj)

    def validate_change(self, new: Obj, old: Obj) -> list[FieldError]:
        """The controller never changes."""
        return class_change_errors(new, old)


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
        return policy_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The same; networks that were there may stay."""
        return policy_errors(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Odd networks."""
        for text in policy_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Odd networks."""
        del old
        self.warn_create(new, caller)
