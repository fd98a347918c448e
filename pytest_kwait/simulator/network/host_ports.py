"""The host ports of pods, on the addresses of their nodes and the machine's loopback interface.

Source: containernetworking/plugins, meta/portmap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.cluster_network import HostPort, list_host_ports
from pytest_kwait.simulator.network.listeners import Listener, open_listener
from pytest_kwait.simulator.network.network_policies import get_network_policies
from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.relay import PodSockets, SocketEnd
    from pytest_kwait.simulator.network.service_proxy import ServiceProxy
    from pytest_kwait.simulator.objects import Obj


class HostPorts:
    """Serves the host ports of all pods of a cluster.

    Of pods on several nodes with one port on the loopback interface, the first is served there.

    Args:
        proxy: connects to pods.
    """

    def __init__(self, cluster: Cluster, proxy: ServiceProxy) -> None:
        self._cluster, self._proxy = cluster, proxy
        self._listeners: dict[HostPort, Listener[HostPort]] = {}
        self._pods: dict[HostPort, dict[str, tuple[str, tuple[str, int]]]] = {}
        self._ports: dict[str, dict[HostPort, tuple[str, int]]] = {}
        self._stop = cluster.subscribe("pods", self._on_pod)

    def close(self) -> None:
        """Stop serving."""
        self._stop()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _on_pod(self, change: str, new: Obj, _old: Obj | None) -> None:
        targets = {} if change == "DELETED" else dict(list_host_ports(new))
        uid = uid_of(new)
        before = self._ports.get(uid, {})
        if targets == before:
            return
        for port in before:
            if port in targets:
                continue
            pods = self._pods[port]
            del pods[uid]
            if not pods:
                del self._pods[port]
                self._listeners.pop(port).close()
        name = f"{namespace_of(new)}/{name_of(new)}"
        for port, target in targets.items():
            self._pods.setdefault(port, {})[uid] = (name, target)
            if port not in self._listeners:
                self._listeners[port] = open_listener(self, port)
        if targets:
            self._ports[uid] = targets
        else:
            self._ports.pop(uid, None)

    # -- of listeners

    @property
    def sockets(self) -> PodSockets:
        """The sockets of the pods' network."""
        return self._proxy.sockets

    def describe(self, key: HostPort) -> str:
        """Return the name of the pod that has a port."""
        name = next((name for name, _ in self._pods.get(key, {}).values()), "")
        return f"host port of pod {name}"

    def choose_endpoint(self, key: HostPort, client: str) -> tuple[str, int] | None:
        """Return the pod's address and port; None without a pod, or if policies deny it."""
        target = next((target for _, target in self._pods.get(key, {}).values()), None)
        policies = get_network_policies(self._cluster)
        is_allowed = target is not None and policies.is_allowed(client, *target, key.protocol)
        return target if is_allowed else None

    async def connect(self, key: HostPort, client: str, end: SocketEnd) -> bool:
        """Join a client's connection with one to the pod; False if there is none."""
        target = self.choose_endpoint(key, client)
        return target is not None and await self._proxy.connect_to(target, end)
