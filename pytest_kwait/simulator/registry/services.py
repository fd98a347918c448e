"""Services: what follows from their type; addresses are handed out by `service_addresses`.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Service;
pkg/registry/core/service/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.addresses import get_ip_warnings
from pytest_kwait.simulator.validation.core.services import (
    get_load_balancer_ingress_points,
    get_service_warnings,
    is_externally_accessible,
    needs_health_check,
    validate_service,
    validate_service_status_update,
    validate_service_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["ServiceStrategy"]

_AFFINITY_SECONDS = 10800


class ServiceStrategy(Strategy):
    """Services."""

    def default(self, obj: Obj) -> None:
        """Type, affinity, ports, traffic."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
            if client.get("timeoutSeconds") is None:
                seconds = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
                spec["sessionAffinityConfig"] = seconds
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if is_externally_accessible(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        else:
            spec.pop("internalTrafficPolicy", None)
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for point in get_load_balancer_ingress_points(obj):
                if point.get("ip"):
                    point.setdefault("ipMode", "VIP")

    def prepare_create(self, obj: Obj) -> None:
        """No load balancer yet."""
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """What the new type has no use for goes, where the update left it as it was."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        named, balanced = spec["type"] == "ExternalName", spec["type"] == "LoadBalancer"
        if named and before["type"] != "ExternalName":
            if all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs")):
                spec.pop("clusterIP", None)
                spec.pop("clusterIPs", None)
            _drop_unchanged(spec, before, "ipFamilies", "ipFamilyPolicy")
        on_nodes = ("LoadBalancer", "NodePort")
        if before["type"] in on_nodes and spec["type"] not in on_nodes:
            kept = _node_ports(before) >= _node_ports(spec)
            for port in (spec.get("ports") or ()) if kept else ():
                port.pop("nodePort", None)
        if needs_health_check(before) and not needs_health_check(spec):
            _drop_unchanged(spec, before, "healthCheckNodePort")
        if before["type"] == "LoadBalancer" and not balanced:
            _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
        if is_externally_accessible(before) and not is_externally_accessible(spec):
            _drop_unchanged(spec, before, "externalTrafficPolicy")
        if not balanced and "status" in new:
            new["status"] = {**new["status"], "loadBalancer": {}}

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """All of its rules."""
        return validate_service(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """All of its rules, and what never changes."""
        return validate_service_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Only load balancers answer elsewhere."""
        return validate_service_status_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """What is deprecated or ignored."""
        for text in get_service_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same as of a new one."""
        del old
        self.warn_create(new, caller)

    def warn_status(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Odd addresses."""
        del old
        for index, point in enumerate(get_load_balancer_ingress_points(new)):
            for text in get_ip_warnings(
                f"status.loadBalancer.ingress[{index}]", point.get("ip", "")
            ):
                caller.warn(text)


def _drop_unchanged(spec: Obj, before: Obj, *fields: str) -> None:
    for field in fields:
        if field in spec and spec[field] == before.get(field):
            del spec[field]


def _node_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
