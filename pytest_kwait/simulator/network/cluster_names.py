"""The names of the cluster: DNS records of services, endpoints and pods.

Names outside of the cluster's domain do not exist, but for those of nodes and of allowed egress.

Source: CoreDNS plugin/kubernetes, `Services`, `findServices`, `findPods`, `serviceRecordForIP`;
Kubernetes DNS-Based Service Discovery 1.1.0.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.objects import labels_of, name_of, namespace_of
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

KUBERNETES_SERVICE = "kubernetes"
"""The name of the API server's service, its endpoints and the default ServiceCIDR."""

_SLICES = "endpointslices.discovery.k8s.io"
_SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_REVERSE_DOMAIN = ".in-addr.arpa"
_MAX_ALIASES = 5
_SPECIFICATION_VERSION = "1.1.0"
# The weights of SRV records with one name and priority share this sum.
_SRV_WEIGHT = 100


class Record(NamedTuple):
    """A DNS record.

    Args:
        name: its owner, without the final dot.
        type: `A`, `CNAME`, `PTR`, `SRV` or `TXT`.
        value: its data in the text form of zone files.
    """

    name: str
    type: str
    value: str


def is_kubernetes_service(obj: Obj) -> bool:
    """Return whether an object is the service `default/kubernetes` or one of its endpoints."""
    return name_of(obj) == KUBERNETES_SERVICE and namespace_of(obj) == "default"


def list_endpoints(cluster: Cluster, service: Obj) -> Iterator[tuple[Obj, Obj]]:
    """Yield the endpoints of a service with their slices."""
    name = name_of(service)
    for slice_ in cluster.list(_SLICES, namespace_of(service)):
        if labels_of(slice_).get(_SERVICE_NAME_LABEL) == name:
            for endpoint in slice_.get("endpoints") or ():
                yield endpoint, slice_


class _Target(NamedTuple):
    """An address behind a service's name, with one of its ports.

    Args:
        host: the name that SRV records have.
        port: the name, protocol and number of the port; None for an address without ports.
    """

    host: str
    address: str
    port: tuple[str, str, int] | None


class ClusterNames:
    """The DNS records of a cluster.

    Args:
        has_services: whether names within its domain exist; nodes know none.
    """

    def __init__(self, cluster: Cluster, *, has_services: bool = True) -> None:
        self._cluster = cluster
        self._has_services = has_services

    def lookup(self, name: str, kind: str) -> list[Record] | None:
        """Return the records that answer a question; None for a name that does not exist.

        Args:
            name: a fully qualified name, with or without the final dot.
            kind: the type of the wanted records, for example `A`.
        """
        name = name.lower().rstrip(".")
        if not self._has_services:
            records = self._find_outside(name)
        elif name.endswith(_REVERSE_DOMAIN):
            records = self._find_pointers(name)
        elif name == CLUSTER_DOMAIN or name.endswith(f".{CLUSTER_DOMAIN}"):
            records = self._find_records(name, aliases=0)
        else:
            records = self._find_outside(name)
        if records is None:
            return None
        aliases = [record for record in records if record.type == "CNAME"]
        return aliases + [record for record in records if record.type == kind and kind != "CNAME"]

    def resolve(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a fully qualified name."""
        return [record.value for record in self.lookup(name, "A") or () if record.type == "A"]

    def resolve_outside(self, name: str) -> list[str]:
        """Return the addresses of a name outside the cluster's domain: of a node or of egress."""
        return [record.value for record in self._find_outside(name.lower().rstrip(".")) or ()]

    def find_unresolved(self, name: str) -> str:
        """Return the name that has no address: the given one, or that of its last alias.

        Empty for a name that has an address, and for one of the cluster or of an address.
        """
        name = name.lower().rstrip(".")
        records = self.lookup(name, "A")
        if records:
            if any(record.type == "A" for record in records):
                return ""
            name = records[-1].value.rstrip(".")
        elif records is not None:
            return ""
        own = (CLUSTER_DOMAIN, "arpa")
        return "" if any(f".{name}".endswith(f".{domain}") for domain in own) else name

    def _find_records(self, name: str, aliases: int) -> list[Record] | None:
        labels = name.removesuffix(CLUSTER_DOMAIN).rstrip(".").split(".")
        if labels == ["dns-version"]:
            return [Record(name, "TXT", f'"{_SPECIFICATION_VERSION}"')]
        kind = labels.pop()
        if kind not in ("pod", "svc"):
            return [] if not kind else None
        if not labels:
            return []
        namespace = labels.pop()
        if self._cluster.find("namespaces", namespace) is None:
            return None
        if not labels:
            return []
        if kind == "pod":
            return _find_pod(name, labels)
        return self._find_service(name, labels, namespace, aliases)

    def _find_service(
        self, name: str, labels: list[str], namespace: str, aliases: int
    ) -> list[Record] | None:
        *before, service_name = labels
        service = self._cluster.find("services", service_name, namespace)
        if service is None or len(before) > 2:
            return None
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return None if before else self._follow_alias(name, spec["externalName"], aliases)
        port = tuple(label.removeprefix("_") for label in before) if len(before) == 2 else None
        if port is not None and not all(label.startswith("_") for label in before):
            return None
        host = before[0] if len(before) == 1 else ""
        domain = f"{service_name}.{namespace}.svc.{CLUSTER_DOMAIN}"
        targets = [
            target
            for target in self._list_targets(service, domain, host)
            if port is None or (target.port and (target.port[0], target.port[1].lower()) == port)
        ]
        if not targets:
            return None
        addresses = dict.fromkeys(target.address for target in targets)
        records = [Record(name, "A", address) for address in addresses]
        ports = dict.fromkeys((target.port[2], target.host) for target in targets if target.port)
        weight = max(1, _SRV_WEIGHT // len(ports)) if ports else 0
        records += [
            Record(name, "SRV", f"0 {weight} {number} {target}.") for number, target in ports
        ]
        return records

    def _follow_alias(self, name: str, target: str, aliases: int) -> list[Record] | None:
        target = target.lower().rstrip(".")
        alias = Record(name, "CNAME", f"{target}.")
        if aliases >= _MAX_ALIASES:
            return [alias]
        if target.endswith(f".{CLUSTER_DOMAIN}"):
            return [alias, *(self._find_records(target, aliases + 1) or ())]
        return [alias, *(self._find_outside(target) or ())]

    def _list_targets(self, service: Obj, domain: str, host: str) -> Iterator[_Target]:
        """Yield the addresses of a service, or of its endpoints where it is headless.

        Args:
            domain: its name.
            host: the first label of the one wanted endpoint; empty for the service itself.
        """
        spec = service["spec"]
        if not host and spec.get("clusterIP") not in (None, "", "None"):
            for port in spec.get("ports") or ():
                number = (port.get("name") or "", port.get("protocol", "TCP"), port["port"])
                yield _Target(domain, spec["clusterIP"], number)
            return
        for endpoint, slice_ in list_endpoints(self._cluster, service):
            if (
                slice_["addressType"] != "IPv4"
                or (endpoint.get("conditions") or {}).get("ready") is False
            ):
                continue
            label = _get_endpoint_hostname(endpoint)
            if host not in ("", label):
                continue
            address = endpoint["addresses"][0]
            if not slice_.get("ports"):
                yield _Target(f"{label}.{domain}", address, None)
            for port in slice_.get("ports") or ():
                number = (
                    port.get("name") or "",
                    port.get("protocol", "TCP"),
                    port.get("port") or 0,
                )
                yield _Target(f"{label}.{domain}", address, number)

    def _find_outside(self, name: str) -> list[Record] | None:
        node = self._cluster.find("nodes", name)
        if node is None:
            address = self._cluster.egress.find_address(name)
            return None if address is None else [Record(name, "A", address)]
        return [
            Record(name, "A", node_address["address"])
            for node_address in (node.get("status") or {}).get("addresses") or ()
            if node_address["type"] == "InternalIP"
        ]

    def _find_pointers(self, name: str) -> list[Record] | None:
        address = ".".join(reversed(name.removesuffix(_REVERSE_DOMAIN).split(".")))
        for service in self._cluster.list("services"):
            if address in (service["spec"].get("clusterIPs") or ()):
                domain = f"{name_of(service)}.{namespace_of(service)}.svc.{CLUSTER_DOMAIN}"
                return [Record(name, "PTR", f"{domain}.")]
        pointers: list[Record] = []
        for service in self._cluster.list("services"):
            domain = f"{name_of(service)}.{namespace_of(service)}.svc.{CLUSTER_DOMAIN}"
            pointers += [
                Record(name, "PTR", f"{_get_endpoint_hostname(endpoint)}.{domain}.")
                for endpoint, _ in list_endpoints(self._cluster, service)
                if address in endpoint["addresses"]
            ]
        return pointers or None


def _find_pod(name: str, labels: list[str]) -> list[Record] | None:
    """Return the address that a name like `10-244-0-5.default.pod` contains."""
    address = labels[0].replace("-", ".")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return None
    return [Record(name, "A", address)] if len(labels) == 1 else None


def _get_endpoint_hostname(endpoint: Obj) -> str:
    """Return the first label of an endpoint's name.

    Source: CoreDNS plugin/kubernetes/handler.go, `endpointHostname`.
    """
    hostname: str = endpoint.get("hostname") or endpoint["addresses"][0].replace(".", "-")
    return hostname
