"""Load balancers of services: addresses of the machine's loopback interface that lead to pods.

Each service has an address of its own in the cluster's block, so that its ports are free there.
The machine reaches it by a listener, pods by the proxy of services. A connection that finds no
endpoint is reset, as load balancers of clouds do, and one from outside the source ranges, too.

Source: k8s.io/cloud-provider cloud.go, `LoadBalancer`; sigs.k8s.io/cloud-provider-kind
pkg/loadbalancer/server.go.
"""

from __future__ import annotations

import errno
import os
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_kwait.simulator.network.cluster_network import ClusterNetwork, find_network
from pytest_kwait.simulator.network.listeners import Listener, bind_on_machine, open_listener
from pytest_kwait.simulator.network.loopback_blocks import hold_block
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from pytest_kwait.simulator.network.relay import relay_session
from pytest_kwait.simulator.network.service_endpoints import is_source_allowed
from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of

if TYPE_CHECKING:
    import socket

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.relay import PodSockets, SocketEnd
    from pytest_kwait.simulator.objects import Obj

_KINDS: dict[str, Literal["tcp", "udp"]] = {"TCP": "tcp", "UDP": "udp"}
_ADDRESSES = 0xFF00
"""The addresses of the block that services get; the last ones are left for what holds it."""
_NO_BLOCK = "the loopback interface of this machine has no addresses but 127.0.0.1, as on macOS"
_PRIVILEGED = (
    "{} asks for a port that only privileged programs may use here: choose one from {} on, or set "
    "the sysctl net.ipv4.ip_unprivileged_port_start"
)
_FIRST_UNPRIVILEGED = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
_DEFAULT_UNPRIVILEGED = 1024


class _BalancedPort(NamedTuple):
    """One port of one service's load balancer."""

    namespace: str
    name: str
    address: str
    port: int
    protocol: str
    is_external: bool = True


class _LoadBalancer:
    """The address of a service, and what listens there."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.listeners: dict[_BalancedPort, Listener[_BalancedPort]] = {}

    def close(self) -> None:
        """Stop listening; connections that exist go on."""
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()


class LoadBalancers:
    """The load balancers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._holder: socket.socket | None = None
        self._network: IPv4Network | None = None
        self._last = 0
        self._balancers: dict[str, _LoadBalancer] = {}
        self._clients: dict[str, ClusterNetwork] = {}
        cluster.services.on_close(self.close)

    def list_networks(self) -> tuple[str, ...]:
        """Return the network of all addresses; empty if the machine has none for it."""
        try:
            return (str(self._hold()),)
        except OSError:
            return ()

    async def close(self) -> None:
        """End all load balancers."""
        for balancer in self._balancers.values():
            balancer.close()
        self._balancers.clear()
        if self._holder is not None:
            self._holder.close()

    # -- of the service controller

    def has(self, service: Obj) -> bool:
        """Return whether a service has a load balancer."""
        return uid_of(service) in self._balancers

    def ensure(self, service: Obj) -> list[Obj]:
        """Create or update the load balancer of a service; return the ingress of its status.

        Raises:
            OSError: `strerror` says why it cannot be.
        """
        balancer = self._balancers.get(uid_of(service))
        address = self._choose_address(service, balancer)
        if balancer is None or balancer.address != address:
            made = _LoadBalancer(address)
            self._listen(made, service)
            if balancer is not None:
                balancer.close()
            self._balancers[uid_of(service)] = made
        else:
            self._listen(balancer, service)
        return [{"ip": address, "ipMode": "VIP"}]

    def ensure_deleted(self, service: Obj) -> None:
        """Delete the load balancer of a service; idempotent."""
        balancer = self._balancers.pop(uid_of(service), None)
        if balancer is not None:
            balancer.close()

    def _hold(self) -> IPv4Network:
        """Return the network of the addresses, which no other cluster on the machine has."""
        if self._network is None:
            try:
                self._holder, block = hold_block(os.getpid())
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise OSError(errno.EADDRNOTAVAIL, _NO_BLOCK) from None
                raise
            self._network = IPv4Network(f"127.{block}.0.0/16")
        return self._network

    def _choose_address(self, service: Obj, balancer: _LoadBalancer | None) -> str:
        network = self._hold()
        asked = service["spec"].get("loadBalancerIP")
        if not asked:
            return balancer.address if balancer is not None else self._find_free(network)
        if balancer is not None and balancer.address == asked:
            return balancer.address
        first, last = network.network_address + 1, network.network_address + _ADDRESSES
        try:
            is_valid = first <= IPv4Address(asked) <= last
        except ValueError:
            is_valid = False
        if not is_valid:
            why = f"loadBalancerIP {asked} is not in {first} to {last}"
            raise OSError(errno.EADDRNOTAVAIL, why)
        if asked in self._list_used():
            raise OSError(errno.EADDRINUSE, f"loadBalancerIP {asked} is another service's")
        return str(asked)

    def _find_free(self, network: IPv4Network) -> str:
        """Return the address after the last one, so that one is used again as late as possible."""
        used = self._list_used()
        for _ in range(_ADDRESSES):
            self._last = self._last % _ADDRESSES + 1
            address = str(network.network_address + self._last)
            if address not in used:
                return address
        raise OSError(errno.EADDRNOTAVAIL, f"all addresses of {network} are in use")

    def _list_used(self) -> set[str]:
        return {balancer.address for balancer in self._balancers.values()}

    def _listen(self, balancer: _LoadBalancer, service: Obj) -> None:
        """Serve the ports of a service and no others.

        Raises:
            OSError: it cannot listen at one; then it listens where it did before.
        """
        wanted = dict.fromkeys(
            _BalancedPort(
                namespace_of(service), name_of(service), balancer.address, port["port"],
                port.get("protocol", "TCP"),
            )
            for port in service["spec"].get("ports") or ()
        )  # fmt: skip
        bound: dict[_BalancedPort, socket.socket] = {}
        try:
            for key in wanted:
                if key not in balancer.listeners:
                    bound[key] = _bind(key)
        except OSError:
            for made in bound.values():
                made.close()
            raise
        for key in [key for key in balancer.listeners if key not in wanted]:
            balancer.listeners.pop(key).close()
        for key, made in bound.items():
            balancer.listeners[key] = open_listener(self, key, made)

    # -- of listeners

    @property
    def sockets(self) -> PodSockets:
        """The sockets of the pods' network.

        Raises:
            RuntimeError: no program runs in the cluster.
        """
        network = get_pod_networks(self._cluster).current
        if network is None:
            raise RuntimeError("no program has sockets yet")
        return network.sockets

    def describe(self, key: _BalancedPort) -> str:
        """Return the name of a load balancer."""
        return f"load balancer of service {key.namespace}/{key.name}"

    def choose_endpoint(self, key: _BalancedPort, client: str) -> tuple[str, int] | None:
        """Return the address and port of an endpoint; None without one that can be reached.

        Nodes without endpoints get no traffic, so all that is there counts as local.
        """
        service = self._cluster.find("services", key.name, key.namespace)
        if service is None or not is_source_allowed(service, key.address, client):
            return None
        if key.protocol == "UDP" and get_pod_networks(self._cluster).current is None:
            return None
        for port in service["spec"].get("ports") or ():
            if (port["port"], port.get("protocol", "TCP")) == (key.port, key.protocol):
                target = self._get_client(client).choose_endpoint(service, port, is_internal=False)
                return None if isinstance(target, str) else target
        return None

    def _get_client(self, client: str) -> ClusterNetwork:
        """Return the network as a client has it, with its affinities."""
        network = self._clients.get(client)
        if network is None:
            network = self._clients[client] = ClusterNetwork(
                self._cluster, lambda address: find_network(self._cluster, address), ""
            )
        return network

    async def connect(self, key: _BalancedPort, client: str, end: SocketEnd) -> bool:
        """Join a client's connection with one to an endpoint; False if there is none."""
        target = self.choose_endpoint(key, client)
        if target is None:
            return False
        programs = get_pod_networks(self._cluster).current
        if programs is not None:
            return await programs.connect_to(target, end)
        address, port = target
        network = find_network(self._cluster, address)
        session = None if network is None else network.connect(port)
        if session is None:
            return False
        relay_session(session, end)
        return True


def _bind(key: _BalancedPort) -> socket.socket:
    kind = _KINDS.get(key.protocol)
    if kind is None:
        raise OSError(errno.EPROTONOSUPPORT, f"protocol {key.protocol} is not supported")
    place = f"{key.address}:{key.port}/{key.protocol}"
    try:
        return bind_on_machine(key.address, key.port, kind)
    except PermissionError:
        why = _PRIVILEGED.format(place, _read_first_unprivileged())
        raise OSError(errno.EACCES, why) from None
    except OSError as error:
        raise OSError(error.errno, f"listen on {place}: {error.strerror}") from None


def _read_first_unprivileged() -> int:
    try:
        return int(Path(_FIRST_UNPRIVILEGED).read_text(encoding="ascii"))
    except OSError:
        return _DEFAULT_UNPRIVILEGED


def get_load_balancers(cluster: Cluster) -> LoadBalancers:
    """Return the load balancers of a cluster."""
    return cluster.services.get(LoadBalancers, lambda: LoadBalancers(cluster))
