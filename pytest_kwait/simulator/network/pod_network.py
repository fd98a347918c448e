"""The network of pods that run programs: what serves its names, services and simulated ports.

It starts with the first program of a cluster. Until then the cluster has no sockets but those of
the API server.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.cluster_names import ClusterNames
from pytest_kwait.simulator.network.egress_proxy import EgressProxy
from pytest_kwait.simulator.network.host_ports import HostPorts
from pytest_kwait.simulator.network.network_policies import get_network_policies
from pytest_kwait.simulator.network.relay import SocketEnd, relay_session
from pytest_kwait.simulator.network.service_proxy import ServiceProxy
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS, NODE_DNS_ADDRESS

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    import aiohttp

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.cluster_dns import DnsServer
    from pytest_kwait.simulator.network.filter_rules import FilterRule
    from pytest_kwait.simulator.network.relay import PodSockets

_log = logging.getLogger(__name__)

_DNS_PORT = 53


class PodNetwork:
    """The network of one cluster's programs.

    Args:
        sockets: makes sockets in the network, and adds addresses to it.
        find_network: returns the ports of a pod or node by its address; None for others.
        server: the host and port of the API server.
    """

    def __init__(
        self,
        cluster: Cluster,
        sockets: PodSockets,
        find_network: Callable[[str], Network | None],
        server: tuple[str, int],
    ) -> None:
        self.sockets = sockets
        self._cluster = cluster
        self._proxy = ServiceProxy(cluster, sockets, find_network, server)
        self._host_ports = HostPorts(cluster, self._proxy)
        self._egress = EgressProxy(cluster, sockets)
        self._dns: list[DnsServer] = []
        self._ports: dict[str, _SimulatedPorts] = {}
        self._starting = asyncio.ensure_future(self._serve_names())
        self._rules: list[FilterRule] = []
        self._filtering: asyncio.Task[None] | None = None

    async def _serve_names(self) -> None:
        # Loaded with the first program: no other cluster needs a DNS server.
        from pytest_kwait.simulator.network.cluster_dns import DnsServer

        for address, has_services in ((CLUSTER_DNS_ADDRESS, True), (NODE_DNS_ADDRESS, False)):
            server = DnsServer(
                self._cluster, ClusterNames(self._cluster, has_services=has_services)
            )
            self._dns.append(server)
            try:
                await server.serve_datagrams(await self.sockets.listen(address, _DNS_PORT, "udp"))
                await server.serve_streams(await self.sockets.listen(address, _DNS_PORT, "tcp"))
            except OSError as error:
                _log.warning("no DNS server at %s: %s", address, error)

    def follow_simulated(self, address: str, network: Network) -> None:
        """Let programs reach the ports of a simulated pod."""
        if address and address not in self._ports:
            self._ports[address] = _SimulatedPorts(self.sockets, address, network)

    def forget_simulated(self, address: str) -> None:
        """Close the ports of a simulated pod that has ended."""
        ports = self._ports.pop(address, None)
        if ports is not None:
            ports.close()

    def update_filter(self) -> asyncio.Task[None] | None:
        """Filter connections of programs by the network policies that there are now.

        Returns:
            a task that ends once the filter is in effect; None if it is.
        """
        rules = get_network_policies(self._cluster).list_filter_rules()
        if rules != self._rules:
            self._rules = rules
            if self._filtering is None or self._filtering.done():
                self._filtering = asyncio.ensure_future(self._send_rules())
        return None if self._filtering is None or self._filtering.done() else self._filtering

    async def _send_rules(self) -> None:
        sent = None
        while sent is not self._rules:
            sent = self._rules
            try:
                await self.sockets.filter_connections(sent)
            except OSError as error:
                policies = get_network_policies(self._cluster)
                policies.report_failure(error.strerror or str(error))

    async def connect_to(self, target: tuple[str, int], end: SocketEnd) -> bool:
        """Join a connection with one to an address and port of the network; False if it fails."""
        return await self._proxy.connect_to(target, end)

    async def close(self) -> None:
        """Stop serving."""
        self._egress.close()
        self._host_ports.close()
        self._proxy.close()
        for address in tuple(self._ports):
            self.forget_simulated(address)
        tasks = [task for task in (self._starting, self._filtering) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._dns:
            server.close()


class _SimulatedPorts:
    """The ports of a simulated pod on real sockets.

    Args:
        sockets: makes the sockets.
        address: the pod's address.
        network: the ports.
    """

    def __init__(self, sockets: PodSockets, address: str, network: Network) -> None:
        self._sockets = sockets
        self._address = address
        self._network = network
        self._servers: dict[int, asyncio.Server] = {}
        self._wanted: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        network.on_port_changed = self._on_port_changed
        for port in network.ports:
            self._on_port_changed(port, is_open=True)

    def _on_port_changed(self, port: int, *, is_open: bool) -> None:
        if is_open:
            self._wanted.add(port)
        else:
            self._wanted.discard(port)
        self._run(self._sync(port))

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sync(self, port: int) -> None:
        async with self._lock:
            server = self._servers.get(port)
            if port not in self._wanted:
                if server is not None:
                    self._servers.pop(port).close()
                return
            if server is not None:
                return
            try:
                await self._sockets.add_address(self._address)
                listening = await self._sockets.listen(self._address, port, "tcp")
            except OSError as error:
                _log.warning("no program reaches %s:%d: %s", self._address, port, error)
                return
            await self._serve(port, listening)

    async def _serve(self, port: int, listening: socket.socket) -> None:
        def on_connected(end: SocketEnd, _client: str) -> None:
            session = self._network.connect(port)
            if session is None:
                end.reset()
                return
            relay_session(session, end)

        loop = asyncio.get_running_loop()
        self._servers[port] = await loop.create_server(
            lambda: SocketEnd(on_connected=on_connected), sock=listening
        )

    def close(self) -> None:
        self._network.on_port_changed = None
        self._wanted.clear()
        for port in tuple(self._servers):
            self._servers.pop(port).close()
        self._run(self._sockets.remove_address(self._address))


class PodNetworks:
    """The network of a cluster's programs, once there is one."""

    def __init__(self) -> None:
        self.current: PodNetwork | None = None
        """None until the first program."""
        self._pods: dict[str, Network] = {}

    def start(self, network: PodNetwork) -> None:
        """Use a network from now on; simulated pods that run join it."""
        self.current = network
        for address, ports in self._pods.items():
            network.follow_simulated(address, ports)

    def add_simulated(self, address: str, ports: Network) -> None:
        """Add a simulated pod that has got its address."""
        self._pods[address] = ports
        if self.current is not None:
            self.current.update_filter()
            self.current.follow_simulated(address, ports)

    def remove_simulated(self, address: str) -> None:
        """Remove a simulated pod."""
        self._pods.pop(address, None)
        if self.current is not None:
            self.current.forget_simulated(address)


def get_pod_networks(cluster: Cluster) -> PodNetworks:
    """Return the holder of a cluster's network of programs."""
    return cluster.services.get(PodNetworks, PodNetworks)


def is_cluster_address(cluster: Cluster, host: str) -> bool:
    """Return whether `ADDRESS:PORT` is in a range of the cluster's services."""
    try:
        address = ip_address(host.rpartition(":")[0])
    except ValueError:
        return False
    return any(address in ip_network(cidr) for cidr in cluster.addresses.cidrs)


async def make_service_connector(cluster: Cluster) -> aiohttp.TCPConnector | None:
    """Return a connector for one request of the API server to a service.

    None if no program runs in the cluster: then no service can answer HTTPS.

    Raises:
        ConnectionRefusedError: programs share the machine's network, where the address of a service
            may be another machine's.
    """
    network = get_pod_networks(cluster).current
    if network is None:
        return None
    import aiohttp

    if not await network.sockets.is_isolated():
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no service is on the machine's network")
    made = await network.sockets.connect_socket("tcp")
    return aiohttp.TCPConnector(socket_factory=lambda _address: made, force_close=True, limit=1)
