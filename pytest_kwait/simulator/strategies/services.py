"""Services: ports and families; addresses are handed out by admission.

Source: pkg/apis/core/v1/defaults.go, pkg/registry/core/service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import duplicate, invalid_value, not_supported, required
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["ServiceStrategy"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


class ServiceStrategy(Strategy):
    """Services."""

    def default(self, obj: Obj) -> None:
        """Type, affinity, ports."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: Obj) -> None:
        """No load balancer yet."""
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Addresses that were handed out stay where the update does not name them."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if field in before and field not in spec:
                    spec[field] = before[field]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Ports have numbers, and names where there are several."""
        spec = obj["spec"]
        errors: list[FieldError] = []
        ports = spec.get("ports", [])
        if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            errors.append(required("spec.ports"))
        names: set[str] = set()
        for index, port in enumerate(ports):
            at = f"spec.ports[{index}]"
            name = port.get("name", "")
            if not name and len(ports) > 1:
                errors.append(required(f"{at}.name"))
            elif name and name in names:
                errors.append(duplicate(f"{at}.name", name))
            names.add(name)
            number = port.get("port", 0)
            if not 1 <= number <= 65535:
                errors.append(
                    invalid_value(f"{at}.port", number, "must be between 1 and 65535, inclusive")
                )
            target = port.get("targetPort")
            if isinstance(target, int) and not 1 <= target <= 65535:
                errors.append(
                    invalid_value(
                        f"{at}.targetPort", target, "must be between 1 and 65535, inclusive"
                    )
                )
        if spec["type"] not in _TYPES:
            errors.append(not_supported("spec.type", spec["type"], _TYPES))
        if spec["type"] == "ExternalName" and not spec.get("externalName"):
            errors.append(required("spec.externalName"))
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """An address never changes while the service has one."""
        errors = self.validate_create(new)
        before = old["spec"].get("clusterIP")
        after = new["spec"].get("clusterIP")
        if before and after != before and new["spec"]["type"] != "ExternalName":
            errors.append(invalid_value("spec.clusterIPs[0]", [after], "may not change once set"))
        return errors
