"""The cluster's network as programs of a pod see it: pods, nodes, services and DNS.

Source: names as in CoreDNS' `kubernetes` plugin, ports as in kube-proxy.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Session, Sink
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ClusterNetwork"]

_DOMAIN = "cluster.local"
_SERVICE_LABEL = "kubernetes.io/service-name"
_MAX_ALIASES = 5


class ClusterNetwork:
    """The cluster's network, seen from a namespace.

    Args:
        networks: returns the ports behind an address of a pod or node.
    """

    __slots__ = ("_api", "_namespace", "_networks")

    def __init__(
        self, api: Cluster, networks: Callable[[str], Network | None], namespace: str
    ) -> None:
        self._api, self._networks, self._namespace = api, networks, namespace

    @property
    def search(self) -> str:
        """The search domains."""
        return f"{self._namespace}.svc.{_DOMAIN} svc.{_DOMAIN} {_DOMAIN}"

    # -- names

    def resolve(self, name: str, *, search: bool = True) -> list[str]:
        """Return the addresses of a name."""
        return self._resolve(name, search=search, aliases=0)

    def _resolve(self, name: str, *, search: bool, aliases: int) -> list[str]:
        name = name.lower()
        candidates = [name.rstrip(".")]
        if search and not name.endswith("."):
            candidates = [*(f"{name}.{domain}" for domain in self.search.split()), *candidates]
        for candidate in candidates:
            found = self._resolve_qualified(candidate, aliases)
            if found:
                return found
        return []

    def _resolve_qualified(self, name: str, aliases: int) -> list[str]:
        rest = name.removesuffix(f".svc.{_DOMAIN}")
        if rest == name:
            node = self._api.find("nodes", name)
            if node is None:
                return []
            return [
                one["address"]
                for one in (node.get("status") or {}).get("addresses") or ()
                if one["type"] == "InternalIP"
            ]
        *hosts, service_name, namespace = rest.split(".") if "." in rest else (rest, "")
        service = self._api.find("services", service_name, namespace) if namespace else None
        if service is None or len(hosts) > 1:
            return []
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            if aliases >= _MAX_ALIASES:
                return []
            return self._resolve(spec["externalName"], search=False, aliases=aliases + 1)
        if spec.get("clusterIP") not in (None, "", "None"):
            return [] if hosts else [spec["clusterIP"]]
        found = []
        for endpoint, _ in self._list_endpoints(service):
            host = endpoint.get("hostname") or endpoint["addresses"][0].replace(".", "-")
            if not hosts or host == hosts[0]:
                found.append(endpoint["addresses"][0])
        return sorted(set(found))

    def _list_endpoints(self, service: Obj) -> Iterator[tuple[Obj, Obj]]:
        """Yield the endpoints of a service that take connections, with their slices."""
        metadata = service["metadata"]
        unready = service["spec"].get("publishNotReadyAddresses")
        for each in self._api.list("endpointslices", metadata["namespace"]):
            if (each["metadata"].get("labels") or {}).get(_SERVICE_LABEL) != metadata["name"]:
                continue
            for endpoint in each.get("endpoints") or ():
                if unready or (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield endpoint, each

    # -- connections

    def connect(self, address: str, port: int, sink: Sink) -> Session | str:
        """Connect to an address with output to `sink`; return an error text on failure."""
        network = self._networks(address)
        if network is None:
            target = self._find_target(address, port)
            if isinstance(target, str):
                return target
            address, port = target
            network = self._networks(address)
            if network is None:
                return "Connection timed out"
        return network.connect(port, sink) or "Connection refused"

    def _find_target(self, address: str, port: int) -> tuple[str, int] | str:
        """Return the endpoint behind a service's address, or an error text."""
        for service in self._api.list("services"):
            spec = service["spec"]
            external = [one.get("ip") for one in _find_ingress_addresses(service)]
            addresses = (
                *(spec.get("clusterIPs") or ()),
                *(spec.get("externalIPs") or ()),
                *external,
            )
            if address not in addresses:
                continue
            served = next((one for one in spec.get("ports") or () if one["port"] == port), None)
            if served is None:
                return "Connection timed out"
            targets = [
                (endpoint["addresses"][0], one["port"])
                for endpoint, each in self._list_endpoints(service)
                for one in each.get("ports") or ()
                if (one.get("name") or "") == (served.get("name") or "")
            ]
            # A random endpoint, as kube-proxy chooses.
            return random.choice(targets) if targets else "Connection refused"  # noqa: S311
        return "Connection timed out"


def _find_ingress_addresses(service: Obj) -> list[Obj]:
    found: list[Obj] = ((service.get("status") or {}).get("loadBalancer") or {}).get(
        "ingress"
    ) or []
    return found
