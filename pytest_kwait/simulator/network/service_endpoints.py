"""Services as their clients meet them: their addresses, and the endpoints behind a port.

Source: kube-proxy pkg/proxy/topology.go, `CategorizeEndpoints`.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.cluster_names import list_endpoints
from pytest_kwait.simulator.objects import annotations_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HEADLESS = "None"


def list_targets(
    cluster: Cluster, service: Obj, port: Obj, node: str | None = None
) -> list[tuple[str, int]]:
    """Return the addresses and ports of the endpoints behind a service's port.

    Those that terminate and still serve are among them only if none is ready.

    Args:
        port: one of its ports.
        node: the node of all endpoints; None for any.
    """
    wanted = port.get("name") or "", port.get("protocol", "TCP")
    ready: list[tuple[str, int]] = []
    terminating: list[tuple[str, int]] = []
    for endpoint, slice_ in list_endpoints(cluster, service):
        number = next(
            (
                slice_port.get("port")
                for slice_port in slice_.get("ports") or ()
                if (slice_port.get("name") or "", slice_port.get("protocol", "TCP")) == wanted
            ),
            None,
        )
        conditions = endpoint.get("conditions") or {}
        usable = conditions.get("ready") is not False
        serves = conditions.get("serving", usable) and conditions.get("terminating")
        if number is None or not (usable or serves):
            continue
        if node in (None, endpoint.get("nodeName")):
            (ready if usable else terminating).append((endpoint["addresses"][0], number))
    return ready or terminating


def is_source_allowed(service: Obj, address: str, client: str) -> bool:
    """Return whether a client may use an address of a service.

    Source: kube-proxy pkg/proxy/iptables/proxier.go, the chain `KUBE-FW`; k8s.io/cloud-provider
    service/helpers/helper.go, `GetLoadBalancerSourceRanges`.

    Args:
        address: source ranges hold for the addresses of its load balancer alone.
        client: the client's address; empty if it is not known.
    """
    ranges = service["spec"].get("loadBalancerSourceRanges") or [
        part.strip()
        for part in annotations_of(service).get(_SOURCE_RANGES_ANNOTATION, "").split(",")
        if part.strip()
    ]
    if not ranges or not client or address not in list_ingress_addresses(service):
        return True
    return any(ip_address(client) in ip_network(one, strict=False) for one in ranges)


def list_ingress_addresses(service: Obj) -> list[str]:
    """Return the addresses of a service's load balancer that lead to it without that."""
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    return [
        ingress["ip"]
        for ingress in balancer.get("ingress") or ()
        if ingress.get("ip") and ingress.get("ipMode") != "Proxy"
    ]


def list_addresses(service: Obj) -> list[str]:
    """Return the IPv4 addresses at which a service has its own ports."""
    spec = service["spec"]
    cluster_ips = [
        address
        for address in spec.get("clusterIPs") or ()
        if address != _HEADLESS and ":" not in address
    ]
    return [*cluster_ips, *(spec.get("externalIPs") or ()), *list_ingress_addresses(service)]
