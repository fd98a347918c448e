"""The proxy of services: connections and datagrams to their addresses reach their endpoints.

Node ports are served on the machine's loopback interface too.

An address of a service accepts connections while an endpoint does; else they are refused. Of pods
that is known before a client connects. A client is identified by its pod's address, for session
affinity and local traffic.

Source: kube-proxy, pkg/proxy/iptables/proxier.go, `syncProxyRules`; pkg/proxy/userspace of
Kubernetes 1.25, for what a proxy of connections does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.network.cluster_names import is_kubernetes_service, list_endpoints
from pytest_kwait.simulator.network.cluster_network import ClusterNetwork
from pytest_kwait.simulator.network.listeners import LOOPBACK, Listener, open_listener
from pytest_kwait.simulator.network.network_policies import get_network_policies
from pytest_kwait.simulator.network.relay import SpareSockets, open_relay, relay_session
from pytest_kwait.simulator.network.service_endpoints import is_source_allowed, list_targets
from pytest_kwait.simulator.objects import labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.relay import PodSockets, SocketEnd
    from pytest_kwait.simulator.objects import Obj

_log = logging.getLogger(__name__)

_SLICES = "endpointslices.discovery.k8s.io"
_SERVICE_NAME_LABEL = "kubernetes.io/service-name"
# Real seconds between two looks for the port of a pod that is ready without a listening program.
_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.8


class _ServiceKey(NamedTuple):
    """One address of one port of a service."""

    namespace: str
    name: str
    address: str
    port: int
    protocol: str
    port_name: str
    is_internal: bool
    is_external: bool


class ServiceProxy:
    """Serves the addresses of all services of a cluster.

    Args:
        sockets: makes sockets in the network of the pods.
        find_network: returns the simulated ports of a pod or node by its address; None for others.
        server: the host and port of the API server.
    """

    def __init__(
        self,
        cluster: Cluster,
        sockets: PodSockets,
        find_network: Callable[[str], Network | None],
        server: tuple[str, int],
    ) -> None:
        self._cluster = cluster
        self._sockets = sockets
        self._find_network = find_network
        self._server = server
        self._listeners: dict[_ServiceKey, Listener[_ServiceKey]] = {}
        self._clients: dict[str, ClusterNetwork] = {}
        self._is_closed = False
        self._spare = SpareSockets(lambda: sockets.connect_socket("tcp"))
        self._changed: dict[tuple[str, str], None] = {}
        self._opening: dict[tuple[str, str], list[asyncio.Task[None]]] = {}
        self._routes: dict[tuple[str, int], list[tuple[str, int]]] = {}
        self._routing: asyncio.Task[None] | None = None
        self._stops = [
            cluster.subscribe("services", self._on_service),
            cluster.subscribe(_SLICES, self._on_slice),
            cluster.subscribe("nodes", self._on_node),
            cluster.subscribe("pods", self._on_pod),
        ]

    def close(self) -> None:
        """Stop serving."""
        self._is_closed = True
        for stop in self._stops:
            stop()
        for key in tuple(self._opening):
            self._cancel_opening(key)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._spare.close()
        if self._routing is not None:
            self._routing.cancel()

    # -- changes

    def _on_service(self, _change: str, new: Obj, _old: Obj | None) -> None:
        self._schedule(namespace_of(new), name_of(new))

    def _on_slice(self, _change: str, new: Obj, _old: Obj | None) -> None:
        name = labels_of(new).get(_SERVICE_NAME_LABEL)
        if name:
            self._schedule(namespace_of(new), name)

    def _on_node(self, change: str, _new: Obj, _old: Obj | None) -> None:
        if change != "MODIFIED":
            for service in self._cluster.list("services"):
                self._schedule(namespace_of(service), name_of(service))

    def _on_pod(self, change: str, new: Obj, _old: Obj | None) -> None:
        if change == "DELETED":
            self._clients.pop((new.get("status") or {}).get("podIP", ""), None)

    def _schedule(self, namespace: str, name: str) -> None:
        if not self._changed:
            self._cluster.clock.call_later(0, self._sync_changed)
        self._changed[namespace, name] = None

    def _sync_changed(self) -> None:
        changed, self._changed = self._changed, {}
        if not self._is_closed:
            for key in changed:
                self._sync(key)
            self._update_routes()

    def _sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        service = self._cluster.find("services", name, namespace)
        service_keys = {} if service is None else dict.fromkeys(self._list_keys(service))
        for stale_key in [
            listener
            for listener in self._listeners
            if listener[:2] == key and listener not in service_keys
        ]:
            self._listeners.pop(stale_key).close()
        self._cancel_opening(key)
        missing: dict[tuple[str, str], list[_ServiceKey]] = {}
        for service_key in service_keys:
            if service_key in self._listeners:
                continue
            port = (service_key.port_name, service_key.protocol)
            missing.setdefault(port, []).append(service_key)
        if missing:
            self._opening[key] = [
                asyncio.ensure_future(self._open_when_reachable(keys)) for keys in missing.values()
            ]

    def _cancel_opening(self, key: tuple[str, str]) -> None:
        for task in self._opening.pop(key, ()):
            task.cancel()

    async def _open_when_reachable(self, keys: list[_ServiceKey]) -> None:
        """Open the listeners of one port of a service once an endpoint accepts connections."""
        pause = _FIRST_PAUSE
        while not await self._is_reachable(keys[0]):
            await async_sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        for key in keys:
            self._listeners[key] = open_listener(self, key)
        self._update_routes()

    async def _is_reachable(self, key: _ServiceKey) -> bool:
        """Return whether an endpoint accepts connections, or is none of a pod here."""
        service = self._cluster.find("services", key.name, key.namespace)
        if key.protocol != "TCP" or service is None or is_kubernetes_service(service):
            return True
        for address, number in self._list_targets(key, service):
            network = self._find_network(address)
            if network is None or number in network.ports:
                return True
            if network.programs is not None and await network.programs.is_listening(number):
                return True
        return False

    def _list_targets(self, key: _ServiceKey, service: Obj) -> list[tuple[str, int]]:
        return [
            (endpoint["addresses"][0], port["port"])
            for endpoint, slice_ in list_endpoints(self._cluster, service)
            if _is_usable(endpoint)
            for port in slice_.get("ports") or ()
            if (port.get("name") or "", port.get("protocol", "TCP"))
            == (key.port_name, key.protocol)
            and port.get("port")
        ]

    async def _close_unreachable(self, key: _ServiceKey) -> None:
        """Close the listeners of a service's port if no endpoint accepts connections any more."""
        if await self._is_reachable(key):
            return
        for listener in tuple(self._listeners):
            if listener[:2] == key[:2] and (listener.port_name, listener.protocol) == (
                key.port_name, key.protocol,
            ):  # fmt: skip
                self._listeners.pop(listener).close()
        self._update_routes()
        self._schedule(key.namespace, key.name)

    def _list_keys(self, service: Obj) -> Iterator[_ServiceKey]:
        """Yield the addresses and ports of a service that lead to an endpoint."""
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return
        served = {
            (port.get("name") or "", port.get("protocol", "TCP"))
            for endpoint, slice_ in list_endpoints(self._cluster, service)
            if _is_usable(endpoint)
            for port in slice_.get("ports") or ()
        }
        internal = [
            cluster_ip
            for cluster_ip in spec.get("clusterIPs") or ()
            if cluster_ip != "None" and ":" not in cluster_ip
        ]
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        external = [
            *(spec.get("externalIPs") or ()),
            *(ingress["ip"] for ingress in balancer.get("ingress") or () if ingress.get("ip")),
        ]
        nodes = [
            node_address["address"]
            for node in self._cluster.list("nodes")
            for node_address in (node.get("status") or {}).get("addresses") or ()
            if node_address["type"] == "InternalIP"
        ]
        for port in spec.get("ports") or ():
            name, protocol = port.get("name") or "", port.get("protocol", "TCP")
            if (name, protocol) not in served or protocol not in ("TCP", "UDP"):
                continue
            for addresses, number, is_internal, is_external in (
                (internal, port["port"], True, False),
                (external, port["port"], False, True),
                ([*nodes, LOOPBACK], port.get("nodePort"), False, False),
            ):
                for address in addresses if number else ():
                    yield _ServiceKey(
                        namespace_of(service), name_of(service), address, number, protocol, name,
                        is_internal, is_external,
                    )  # fmt: skip

    def _update_routes(self) -> None:
        """Show the network which connections need no proxy."""
        if self._routing is None or self._routing.done():
            self._routing = asyncio.ensure_future(self._send_routes())

    async def _send_routes(self) -> None:
        while True:
            keys = [key for key in self._listeners if key.is_internal]
            routes = {(key.address, key.port): self._list_route(key) for key in keys}
            routes = {service: targets for service, targets in routes.items() if targets}
            if routes == self._routes:
                return
            self._routes = routes
            try:
                await self._sockets.route_services(routes)
            except OSError as error:  # the programs have ended
                _log.debug("no routes: %s", error)
                return

    def _list_route(self, key: _ServiceKey) -> list[tuple[str, int]]:
        """Return the targets of connections that need no proxy; empty if they need one.

        Session affinity, local traffic and connections to the API server need one.
        """
        service = self._cluster.find("services", key.name, key.namespace)
        if key.protocol != "TCP" or service is None or is_kubernetes_service(service):
            return []
        spec = service["spec"]
        if spec.get("sessionAffinity") == "ClientIP" or (
            spec.get("internalTrafficPolicy") == "Local"
        ):
            return []
        port = {"name": key.port_name, "protocol": key.protocol}
        return list_targets(self._cluster, service, port)

    # -- connections

    @property
    def sockets(self) -> PodSockets:
        """The sockets of the pods' network."""
        return self._sockets

    def choose_endpoint(self, key: _ServiceKey, client: str) -> tuple[str, int] | None:
        """Return the address and port of an endpoint for a client; None without one."""
        service = self._cluster.find("services", key.name, key.namespace)
        if service is None:
            return None
        for port in service["spec"].get("ports") or ():
            if (port.get("name") or "") == key.port_name and (
                port.get("protocol", "TCP") == key.protocol
            ):
                break
        else:
            return None
        target = self._server
        if not is_kubernetes_service(service):
            if not is_source_allowed(service, key.address, client):
                return None
            network = self._get_client(client)
            found = network.choose_endpoint(service, port, is_internal=key.is_internal)
            if isinstance(found, str):
                return None
            target = found
        policies = get_network_policies(self._cluster)
        return target if policies.is_allowed(client, *target, key.protocol) else None

    def _get_client(self, address: str) -> ClusterNetwork:
        network = self._clients.get(address)
        if network is None:
            network = ClusterNetwork(self._cluster, self._find_network, self._find_node_of(address))
            self._clients[address] = network
        return network

    def _find_node_of(self, client: str) -> str:
        """Return the name of the node that a client's pod runs on; empty for no pod."""
        for pod in self._cluster.list("pods"):
            if (pod.get("status") or {}).get("podIP") == client:
                return str(pod["spec"].get("nodeName") or "")
        return ""

    def describe(self, key: _ServiceKey) -> str:
        """Return the name of the service that a listener serves."""
        return f"service {key.namespace}/{key.name}"

    async def connect(self, key: _ServiceKey, client: str, end: SocketEnd) -> bool:
        """Join a client's connection with one to an endpoint; False if there is none.

        Behind a cluster IP the endpoint sees the address of the client's pod; traffic to other
        addresses of a service, and of a pod to itself, is masqueraded.
        """
        target = self.choose_endpoint(key, client)
        if target is None:
            return False
        is_seen = key.is_internal and client != target[0] and bool(self._get_client(client).node)
        is_joined = await self.connect_to(target, end, source=client if is_seen else "")
        if not is_joined:
            await self._close_unreachable(key)
        return is_joined

    async def connect_to(
        self, target: tuple[str, int], end: SocketEnd, *, source: str = ""
    ) -> bool:
        """Join a connection with one to an address of the network, or to the API server.

        Args:
            target: the address and port.
            end: the connection.
            source: the address that a program sees, where its pod has a network of its own; empty
                for that of the proxy.
        """
        address, port = target
        network = self._find_network(address)
        session = network.connect(port) if network is not None else None
        if session is not None:
            relay_session(session, end)
            return True
        loop = asyncio.get_running_loop()
        try:
            if target == self._server:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                connected = socket.socket(family, socket.SOCK_STREAM)
                connected.setblocking(False)
            elif not await self._sockets.is_isolated():
                return False  # the machine's network may have that address, too
            elif source and network is not None and network.programs is not None:
                connected = await network.programs.make_socket(source)
            else:
                connected = await self._spare.take()
        except OSError as error:
            _log.debug("%s:%d: %s", address, port, error)
            return False
        try:
            await loop.sock_connect(connected, target)
        except OSError as error:
            connected.close()
            _log.debug("%s:%d: %s", address, port, error)
            return False
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await open_relay(connected, end)
        return True


def _is_usable(endpoint: Obj) -> bool:
    """Return whether an endpoint is ready, or serves while it terminates."""
    conditions = endpoint.get("conditions") or {}
    ready = conditions.get("ready") is not False
    return ready or bool(conditions.get("serving") and conditions.get("terminating"))
