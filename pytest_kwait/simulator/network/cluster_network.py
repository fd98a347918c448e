"""The cluster's network as programs of a pod see it: pods, nodes, services and DNS.

Source: kube-proxy pkg/proxy/iptables/proxier.go, `syncProxyRules`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.busybox.os.network import Connecting
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, ProcessSession
from pytest_kwait.simulator.network.cluster_names import ClusterNames, is_kubernetes_service
from pytest_kwait.simulator.network.egress_proxy import get_egress_reporter, open_egress_session
from pytest_kwait.simulator.network.listeners import LOOPBACK
from pytest_kwait.simulator.network.network_policies import get_network_policies
from pytest_kwait.simulator.network.service_endpoints import (
    is_source_allowed,
    list_ingress_addresses,
    list_targets,
)
from pytest_kwait.simulator.objects import uid_of
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Sink
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

# Source: net/http server.go, `badRequestError`, for a TLS record header error.
_PLAIN_HTTP_ANSWER = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)
_DNS_PORT = 53
_REFUSED, _TIMED_OUT = "Connection refused", "Connection timed out"
# Source: pkg/apis/core/v1/defaults.go, `DefaultClientIPServiceAffinitySeconds`.
_AFFINITY_SECONDS = 10800
_UNSPECIFIED = ("", "0.0.0.0")  # noqa: S104 - of manifests


class HostPort(NamedTuple):
    """One address of one host port."""

    address: str
    port: int
    protocol: str
    is_external: bool = False


class _ServicePort(NamedTuple):
    """A port of a service that an address leads to.

    Args:
        is_internal: whether the address is a cluster IP, for which `internalTrafficPolicy` holds.
    """

    service: Obj
    port: Obj
    is_internal: bool


def find_network(cluster: Cluster, address: str) -> Network | None:
    """Return the ports of a pod or node by its address; None for others."""
    for kubelet in cluster.kubelets.values():
        network = kubelet.find_network(address)
        if network is not None:
            return network
    return None


class ClusterNetwork:
    """The cluster's network, seen from one pod.

    Args:
        networks: returns the ports behind an address of a pod or node.
        node: the name of the pod's node; empty for a client that is no pod.
    """

    __slots__ = ("_affinity", "_cluster", "_names", "_networks", "_node")

    def __init__(
        self, cluster: Cluster, networks: Callable[[str], Network | None], node: str
    ) -> None:
        self._cluster, self._networks, self._node = cluster, networks, node
        self._names = ClusterNames(cluster)
        self._affinity: dict[tuple[str, str], tuple[tuple[str, int], float]] = {}

    @property
    def node(self) -> str:
        """The name of the pod's node; empty for a client that is no pod."""
        return self._node

    # -- names

    def resolve(self, name: str, server: str, source: str = "") -> list[str]:
        """Return the IPv4 addresses that a DNS server has for a fully qualified name.

        Args:
            server: the address of the DNS server.
            source: the pod's address.
        """
        if not get_network_policies(self._cluster).is_allowed(source, server, _DNS_PORT, "UDP"):
            return []
        names = self._names
        find = names.resolve if server == CLUSTER_DNS_ADDRESS else names.resolve_outside
        addresses = find(name)
        if not addresses:
            get_egress_reporter(self._cluster).report_name(names.find_unresolved(name), source)
        # CoreDNS' plugin `loadbalance` changes the order with each answer.
        return random.sample(addresses, len(addresses))

    # -- connections

    def connect(
        self, address: str, port: int, sink: Sink, source: str = ""
    ) -> ProcessSession | Connecting | str:
        """Connect to an address with output to `sink`; return an error text on failure.

        Args:
            sink: takes what the other side sends.
            source: the pod's address, which real programs see.
        """
        served, client = self._find_service_port(address, port), source
        if served is not None:
            if not is_source_allowed(served.service, address, source):
                return _TIMED_OUT
            target = self.choose_endpoint(
                served.service, served.port, is_internal=served.is_internal
            )
            if isinstance(target, str):
                return target
            address, port = target
            if is_kubernetes_service(served.service):
                address, port = self._cluster.server_address
            if not served.is_internal or address == source:
                # Masqueraded.
                source = ""
        else:
            address, port = _find_host_port(self._cluster, address, port) or (address, port)
        if not get_network_policies(self._cluster).is_allowed(client, address, port):
            return _TIMED_OUT
        if served is not None and is_kubernetes_service(served.service):
            return _connect_to_api_server(sink)
        if served is None and self._cluster.egress.has_address(address):
            outside = self._cluster.egress.find_target(address, port)
            if outside is None:
                return _REFUSED
            return Connecting(open_egress_session(self._cluster, outside, source), sink)
        network = self._networks(address)
        if network is None:
            return _TIMED_OUT
        return network.open_connection(port, sink, source=source)

    def _find_service_port(self, address: str, port: int) -> _ServicePort | None:
        """Return the service port that an address leads to; None if it is none of a service."""
        is_node = any(
            node_address.get("address") == address
            for node in self._cluster.list("nodes")
            for node_address in (node.get("status") or {}).get("addresses") or ()
        )
        for service in self._cluster.list("services"):
            spec = service["spec"]
            if spec.get("type") == "ExternalName":
                continue
            internal = address in (spec.get("clusterIPs") or ())
            external = address in (
                *(spec.get("externalIPs") or ()), *list_ingress_addresses(service),
            )  # fmt: skip
            for service_port in spec.get("ports") or ():
                if service_port.get("protocol", "TCP") != "TCP":
                    continue
                if (internal or external) and service_port["port"] == port:
                    return _ServicePort(service, service_port, internal)
                if is_node and service_port.get("nodePort") == port:
                    return _ServicePort(service, service_port, is_internal=False)
        return None

    def choose_endpoint(
        self, service: Obj, port: Obj, *, is_internal: bool
    ) -> tuple[str, int] | str:
        """Return the address and port of an endpoint of a service's port, or an error text.

        Ready endpoints are preferred to terminating ones that still serve. Traffic from pods to
        external addresses ignores `externalTrafficPolicy`.

        Args:
            port: one of its ports.
            is_internal: whether the client used a cluster IP, for which `internalTrafficPolicy`
                holds.
        """
        is_local = is_internal and service["spec"].get("internalTrafficPolicy") == "Local"
        targets = list_targets(self._cluster, service, port, self._node if is_local else None)
        if not targets:
            # Without endpoints on this node packets are dropped; without any they are rejected.
            elsewhere = is_local and list_targets(self._cluster, service, port)
            return _TIMED_OUT if elsewhere else _REFUSED
        return self._choose_with_affinity(service, port.get("name") or "", targets)

    def _choose_with_affinity(
        self, service: Obj, port: str, targets: list[tuple[str, int]]
    ) -> tuple[str, int]:
        """Return a random target, or with `sessionAffinity: ClientIP` the last one."""
        chosen = random.choice(targets)  # noqa: S311 - as kube-proxy chooses
        spec = service["spec"]
        if spec.get("sessionAffinity") != "ClientIP":
            return chosen
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        now, key = self._cluster.clock.monotonic(), (uid_of(service), port)
        last, until = self._affinity.get(key, (chosen, 0.0))
        if last in targets and now < until:
            chosen = last
        seconds = config.get("timeoutSeconds", _AFFINITY_SECONDS)
        self._affinity[key] = (chosen, now + seconds)
        return chosen


def _connect_to_api_server(sink: Sink) -> ProcessSession:
    """Connect to the API server, which refuses plain HTTP; no simulated program speaks TLS."""
    stdin = Pipe()

    def answer() -> None:
        if len(stdin):
            sink.write(1, _PLAIN_HTTP_ANSWER)
        sink.end(0)

    stdin.when_ready(answer)
    return ProcessSession(stdin, OutputBuffer(), stdin.close)


def list_host_ports(pod: Obj) -> Iterator[tuple[HostPort, tuple[str, int]]]:
    """Yield the host ports of a pod that has its address, each with the address and port behind.

    A pod with `hostNetwork` has none: its programs open ports of the node themselves.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    address, node = status.get("podIP"), status.get("hostIP")
    if not (address and node) or spec.get("hostNetwork"):
        return
    if status.get("phase") in ("Succeeded", "Failed"):
        return
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in (*spec["containers"], *sidecars):
        for port in container.get("ports") or ():
            number, host = port.get("hostPort"), port.get("hostIP") or ""
            if number:
                target = (address, port["containerPort"])
                for host_address in (node, LOOPBACK) if host in _UNSPECIFIED else (host,):
                    yield HostPort(host_address, number, port.get("protocol", "TCP")), target


def _find_host_port(cluster: Cluster, address: str, port: int) -> tuple[str, int] | None:
    """Return the pod's address and port behind a TCP host port of a node; None without one."""
    host_port = HostPort(address, port, "TCP")
    for pod in cluster.list("pods"):
        if (pod.get("status") or {}).get("hostIP") == address:
            for pod_port, target in list_host_ports(pod):
                if pod_port == host_port:
                    return target
    return None
