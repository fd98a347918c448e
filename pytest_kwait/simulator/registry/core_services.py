"""Services: strategy, REST storage, cluster IPs and node ports; Endpoints and EndpointSlices.

The server allocates addresses and node ports before it stores a service.
Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Service),
pkg/registry/core/service/strategy.go, pkg/registry/core/service/storage/{alloc,storage}.go,
pkg/registry/core/endpoint/strategy.go, pkg/registry/discovery/endpointslice/strategy.go.
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.simulator.api_errors import internal_error, invalid
from pytest_kwait.simulator.objects import clone, labels_of
from pytest_kwait.simulator.protocol.addresses import KUBERNETES_ADDRESS, SERVICE_NETWORK
from pytest_kwait.simulator.registry.generic_store import GenericStore
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.addresses import get_ip_warnings
from pytest_kwait.simulator.validation.core.endpoints import validate_endpoint_subsets
from pytest_kwait.simulator.validation.core.services import (
    get_ingress_point_warnings,
    get_load_balancer_ingress_points,
    get_service_warnings,
    init_ip_family_fields,
    is_externally_accessible,
    needs_health_check,
    validate_service,
    validate_service_status_update,
    validate_service_update,
)
from pytest_kwait.simulator.validation.discovery import validate_endpoint_slice
from pytest_kwait.simulator.validation.objectmeta import name_is_dns_label

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.generic_store import FinishFunc
    from pytest_kwait.simulator.request_info import Caller

_FIRST_ADDRESS = int(IPv4Address("10.0.0.2"))
_LAST_ADDRESS = int(IPv4Address("10.0.255.254"))
_FIRST_PORT, _LAST_PORT = 30000, 32767
_IP_FAMILIES = ("IPv4",)
_NODE_PORT_TYPES = ("LoadBalancer", "NodePort")
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs")
_AFFINITY_SECONDS = 10800

_FQDN_WARNING = "spec.addressType: FQDN endpoints are deprecated"


class ServiceAllocator:
    """Allocates cluster IPs and node ports."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next_address = _FIRST_ADDRESS
        self._next_port = _FIRST_PORT
        self._reserved: list[Obj] = []
        """The specs of services that are being written and not yet stored."""

    @property
    def cidrs(self) -> tuple[str, ...]:
        """The ranges of cluster IPs."""
        return (SERVICE_NETWORK,)

    @property
    def kubernetes_address(self) -> str:
        """The cluster IP of the service `default/kubernetes`."""
        return KUBERNETES_ADDRESS

    def begin_create(self, service: Obj, caller: Caller) -> FinishFunc:
        """Allocate the addresses and ports of a new service; return what releases them.

        Raises:
            StatusError: 422, a requested address or port is not available.
        """
        spec = service["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return self._allocate(service, None, caller)

    def begin_update(self, service: Obj, old: Obj, caller: Caller) -> FinishFunc:
        """Allocate the addresses and ports that a changed service lacks, as `begin_create`.

        Raises:
            StatusError: 422, a requested address or port is not available.
        """
        spec, before = service["spec"], old["spec"]
        _patch_allocated_values(spec, before)
        _normalize_cluster_ips(spec, before)
        return self._allocate(service, before, caller)

    def _allocate(self, service: Obj, before: Obj | None, caller: Caller) -> FinishFunc:
        spec = service["spec"]
        name = service["metadata"].get("name", "")
        if errors := init_ip_family_fields(spec, before, _IP_FAMILIES):
            raise invalid("", "Service", name, errors)
        new_address = before is None or before.get("type") == "ExternalName"
        if new_address and spec["type"] != "ExternalName" and spec.get("clusterIPs") != ["None"]:
            self._allocate_cluster_ip(spec, name, caller)
        if spec["type"] in _NODE_PORT_TYPES:
            self._allocate_node_ports(spec, before, name, caller)
        if needs_health_check(spec) and not (before and needs_health_check(before)):
            self._allocate_health_check_node_port(spec, caller)
        reserved = [] if caller.dry_run else [clone(spec)]
        self._reserved += reserved

        def release() -> None:
            self._reserved = [
                reservation for reservation in self._reserved if reservation not in reserved
            ]

        return release

    # -- addresses

    def _allocate_cluster_ip(self, spec: Obj, name: str, caller: Caller) -> None:
        requested = (spec.get("clusterIPs") or [""])[0]
        if requested and (why := self._find_address_error(requested, caller)):
            text = f"failed to allocate IP {requested}: {why}"
            error = invalid_value("spec.clusterIPs", spec["clusterIPs"], text)
            raise invalid("", "Service", name, [error])
        address = requested or self._free_address()
        spec["clusterIP"] = address
        spec["clusterIPs"] = [address]

    def _find_address_error(self, address: str, caller: Caller) -> str:
        if ip_address(address) not in ip_network(SERVICE_NETWORK):
            return (
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is "
                f"{SERVICE_NETWORK}"
            )
        if not caller.dry_run and address in self._used_addresses():
            return "provided IP is already allocated"
        return ""

    def _specs(self) -> list[Obj]:
        return [service["spec"] for service in self._cluster.list("services")] + self._reserved

    def _used_addresses(self) -> set[str]:
        return {address for spec in self._specs() for address in spec.get("clusterIPs") or ()}

    def _free_address(self) -> str:
        used = self._used_addresses()
        while True:
            address = str(IPv4Address(self._next_address))
            self._next_address += 1
            if self._next_address > _LAST_ADDRESS:
                self._next_address = _FIRST_ADDRESS
            if address not in used:
                return address

    # -- ports

    def _allocate_node_ports(
        self, spec: Obj, before: Obj | None, name: str, caller: Caller
    ) -> None:
        """Allocate one node port per port; ports that differ only in protocol share one."""
        allocates = (
            spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
        )
        previous_ports = {port.get("nodePort", 0) for port in (before or {}).get("ports") or ()}
        used = self._used_ports()
        node_ports: dict[int, int] = {}
        taken: set[int] = set()
        ports = spec.get("ports") or []
        for index, port in enumerate(ports):
            number, requested = port.get("port", 0), port.get("nodePort", 0)
            if not requested and not allocates:
                continue
            if before is None and number in node_ports and requested in (0, node_ports[number]):
                port["nodePort"] = node_ports[number]
                continue
            node_port = requested or (
                _find_requested_node_port(number, ports) if before is None else 0
            )
            if not node_port:
                node_port = self._free_port(used)
            elif node_port not in previous_ports and not (
                before is not None and node_port in taken
            ):
                why = _find_port_error(node_port, used | taken, dry_run=caller.dry_run)
                if why:
                    error = invalid_value(f"spec.ports[{index}].nodePort", node_port, why)
                    raise invalid("", "Service", name, [error])
            port["nodePort"] = node_port
            node_ports.setdefault(number, node_port)
            taken.add(node_port)

    def _allocate_health_check_node_port(self, spec: Obj, caller: Caller) -> None:
        used = self._used_ports()
        used |= {port.get("nodePort", 0) for port in spec.get("ports") or ()}
        requested = spec.get("healthCheckNodePort", 0)
        if not requested:
            spec["healthCheckNodePort"] = self._free_port(used)
        elif why := _find_port_error(requested, used, dry_run=caller.dry_run):
            text = f"failed to allocate requested HealthCheck NodePort {requested}: {why}"
            raise internal_error(text)

    def _used_ports(self) -> set[int]:
        used = set()
        for spec in self._specs():
            used |= {port.get("nodePort", 0) for port in spec.get("ports") or ()}
            used.add(spec.get("healthCheckNodePort", 0))
        return used - {0}

    def _free_port(self, used: set[int]) -> int:
        while True:
            port = self._next_port
            self._next_port += 1
            if self._next_port > _LAST_PORT:
                self._next_port = _FIRST_PORT
            if port not in used:
                return port


def _normalize_cluster_ips(spec: Obj, before: Obj) -> None:
    """Let `clusterIPs` follow a change of `clusterIP` alone."""
    old_ip, new_ip = before.get("clusterIP", ""), spec.get("clusterIP", "")
    if old_ip == new_ip and before.get("clusterIPs") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = list(before["clusterIPs"])
    elif old_ip != new_ip and before.get("clusterIPs") == spec.get("clusterIPs"):
        if new_ip:
            spec["clusterIPs"] = [new_ip]
        else:
            del spec["clusterIPs"]


def _patch_allocated_values(spec: Obj, before: Obj) -> None:
    """Keep allocated addresses and ports that the change does not set."""
    if "ExternalName" not in (spec["type"], before.get("type")):
        for field in _ADDRESS_FIELDS:
            if not spec.get(field) and before.get(field):
                value = before[field]
                spec[field] = list(value) if isinstance(value, list) else value
    if _has_node_ports(spec) and _has_node_ports(before):
        old, new = before.get("ports") or [], spec.get("ports") or []
        used = {port.get("nodePort", 0) for port in old}
        used &= {port.get("nodePort", 0) for port in new}
        numbers = {port.get("name", ""): port.get("nodePort", 0) for port in old}
        for port in new:
            number = numbers.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used - {0}:
                port["nodePort"] = number
    if all(
        service_spec.get("type") == "LoadBalancer"
        and service_spec.get("externalTrafficPolicy") == "Local"
        for service_spec in (spec, before)
    ) and before.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _has_node_ports(spec: Obj) -> bool:
    return spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _find_requested_node_port(number: int, ports: list[Obj]) -> int:
    """Return the node port requested by a port of that number; 0 for none."""
    for port in ports:
        if port.get("port") == number and port.get("nodePort"):
            return int(port["nodePort"])
    return 0


def _find_port_error(port: int, used: set[int], *, dry_run: bool) -> str:
    if not dry_run and not _FIRST_PORT <= port <= _LAST_PORT:
        return (
            "provided port is not in the valid range. The range of valid ports is "
            f"{_FIRST_PORT}-{_LAST_PORT}"
        )
    return "provided port is already allocated" if port in used else ""


class ServiceStrategy(Strategy):
    """The strategy of services."""

    validate_name = staticmethod(name_is_dns_label)
    allows_create_on_update = True
    returns_deleted_object = True
    resource_prefix = "services/specs"
    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_service)
    validate_update = staticmethod(validate_service_update)
    validate_status = staticmethod(validate_service_status_update)

    def default(self, obj: Obj) -> None:
        """Set the defaults of type, affinity, ports and traffic policies."""
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

    def prepare_for_create(self, obj: Obj) -> None:
        """Reset the load balancer's status."""
        super().prepare_for_create(obj)
        obj["status"] = {"loadBalancer": {}}

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Drop unchanged fields that the new type does not use."""
        super().prepare_for_update(new, old)
        spec, before = new["spec"], old["spec"]
        is_external_name = spec["type"] == "ExternalName"
        is_load_balancer = spec["type"] == "LoadBalancer"
        if is_external_name and before["type"] != "ExternalName":
            if all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs")):
                spec.pop("clusterIP", None)
                spec.pop("clusterIPs", None)
            _drop_unchanged(spec, before, "ipFamilies", "ipFamilyPolicy")
        if before["type"] in _NODE_PORT_TYPES and spec["type"] not in _NODE_PORT_TYPES:
            keeps_ports = _node_ports(before) >= _node_ports(spec)
            for port in (spec.get("ports") or ()) if keeps_ports else ():
                port.pop("nodePort", None)
        if needs_health_check(before) and not needs_health_check(spec):
            _drop_unchanged(spec, before, "healthCheckNodePort")
        if before["type"] == "LoadBalancer" and not is_load_balancer:
            _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
        if is_externally_accessible(before) and not is_externally_accessible(spec):
            _drop_unchanged(spec, before, "externalTrafficPolicy")
        if not is_load_balancer and "status" in new:
            new["status"] = {**new["status"], "loadBalancer": {}}

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated and ignored fields."""
        for text in get_service_warnings(obj):
            caller.warn(text)

    def warn_on_status_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of non-canonical addresses."""
        del old
        for text in get_ingress_point_warnings(new):
            caller.warn(text)


def _drop_unchanged(spec: Obj, before: Obj, *fields: str) -> None:
    for field in fields:
        if field in spec and spec[field] == before.get(field):
            del spec[field]


def _node_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


class ServiceREST(GenericStore):
    """The REST storage of services, which allocates cluster IPs and node ports."""

    def begin_create(self, new: Obj, caller: Caller) -> FinishFunc:
        """Allocate addresses and ports; return what releases them.

        Raises:
            StatusError: 422, a requested address or port is not available.
        """
        return self._cluster.addresses.begin_create(new, caller)

    def begin_update(self, new: Obj, old: Obj, caller: Caller) -> FinishFunc:
        """Allocate the addresses and ports that the change needs; return what releases them.

        Raises:
            StatusError: 422, a requested address or port is not available.
        """
        return self._cluster.addresses.begin_update(new, old, caller)


class EndpointsStrategy(Strategy):
    """The strategy of endpoints."""

    allows_create_on_update = True
    resource_prefix = "services/endpoints"
    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the subsets."""
        return validate_endpoint_subsets(obj.get("subsets") or [])

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate changed subsets."""
        return [] if new.get("subsets") == old.get("subsets") else self.validate_create(new)


class EndpointSliceStrategy(Strategy):
    """The strategy of endpoint slices."""

    validate_create = staticmethod(validate_endpoint_slice)
    validate_update = staticmethod(validate_endpoint_slice)

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop the topology of v1beta1."""
        super().prepare_for_create(obj)
        _drop_topology(obj)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Drop the topology of v1beta1."""
        super().prepare_for_update(new, old)
        if new.get("endpoints") != old.get("endpoints"):
            _drop_topology(new)

    def increments_generation(self, new: Obj, old: Obj) -> bool:
        """Count labels, too."""
        return super().increments_generation(new, old) or labels_of(new) != labels_of(old)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated and suspicious fields."""
        if obj.get("addressType") == "FQDN":
            caller.warn(_FQDN_WARNING)
        self.warn_on_update(obj, obj, caller)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of suspicious fields."""
        del old
        for index, endpoint in enumerate(new.get("endpoints") or []):
            for number, address in enumerate(endpoint.get("addresses") or []):
                for text in get_ip_warnings(f"endpoints[{index}].addresses[{number}]", address):
                    caller.warn(text)


def _drop_topology(obj: Obj) -> None:
    for endpoint in obj.get("endpoints") or []:
        endpoint.pop("deprecatedTopology", None)
