"""The proxy of egress: connections of pods to allowed targets go on from the machine.

Events of the pods name what is not allowed and what cannot be reached.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.network.listeners import LOOPBACK, Listener, open_listener
from pytest_kwait.simulator.network.relay import SessionSocket, SocketEnd
from pytest_kwait.simulator.objects import namespace_of, uid_of
from pytest_kwait.simulator.protocol.egress import MACHINE_NAME, is_host_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.network.relay import PodSockets
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.egress import EgressTarget

_log = logging.getLogger(__name__)

_POD = ("v1", "Pod")
_CONNECT_SECONDS = 5.0
# Source: RFC 8305, "Connection Attempt Delay".
_NEXT_ADDRESS_SECONDS = 0.25
_MACHINE_ADDRESSES = (LOOPBACK, "::1")
_MAX_NAMES_OF_POD = 8
# The last labels of names that are completed by search domains: `db.shop.svc`.
_CLUSTER_LABELS = ("svc", "pod", "localhost")
_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


class _EgressKey(NamedTuple):
    """The address and port of a target in pods."""

    address: str
    port: int
    protocol: str = "TCP"
    is_external: bool = True


class EgressProxy:
    """Serves the addresses of all targets that a cluster's pods may reach.

    Args:
        sockets: makes sockets in the network of the pods.
    """

    def __init__(self, cluster: Cluster, sockets: PodSockets) -> None:
        self._cluster = cluster
        self._sockets = sockets
        self._listeners: dict[_EgressKey, Listener[_EgressKey]] = {}
        self._stop = cluster.egress.subscribe(self._sync)
        self._sync()

    def close(self) -> None:
        """Stop serving."""
        self._stop()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _sync(self) -> None:
        targets = self._cluster.egress
        target_keys = dict.fromkeys(
            _EgressKey(targets.get_address(target), target.port) for target in targets
        )
        for key in [key for key in self._listeners if key not in target_keys]:
            self._listeners.pop(key).close()
        for key in target_keys:
            if key not in self._listeners:
                self._listeners[key] = open_listener(self, key)

    # -- of listeners

    @property
    def sockets(self) -> PodSockets:
        """The sockets of the pods' network."""
        return self._sockets

    def describe(self, key: _EgressKey) -> str:
        """Return the name of the target that a listener serves."""
        return f"egress to {self._cluster.egress.find_target(key.address, key.port)}"

    def choose_endpoint(self, key: _EgressKey, client: str) -> tuple[str, int] | None:
        """Return None: there is no egress of datagrams."""
        del key, client
        return None

    async def connect(self, key: _EgressKey, client: str, end: SocketEnd) -> bool:
        """Join a client's connection with one of the machine; False if there is none."""
        target = self._cluster.egress.find_target(key.address, key.port)
        if target is None:
            return False
        try:
            server_end = await _connect_or_report(
                self._cluster, target, client, lambda: SocketEnd(end)
            )
        except OSError:
            return False
        end.join(server_end)
        return True


async def open_egress_session(
    cluster: Cluster, target: EgressTarget, client: str
) -> ProcessSession:
    """Connect a simulated program to a target.

    Args:
        client: the address of the program's pod.

    Raises:
        ConnectionRefusedError: the target cannot be reached.
    """
    return (await _connect_or_report(cluster, target, client, SessionSocket)).session


async def _connect_or_report(
    cluster: Cluster, target: EgressTarget, client: str, make: Callable[[], _Protocol]
) -> _Protocol:
    """Connect the machine to a target; a failure is an event of the client's pod.

    Raises:
        ConnectionRefusedError: the target cannot be reached.
    """
    hosts = _MACHINE_ADDRESSES if target.host == MACHINE_NAME else (target.host,)
    reason = ""
    for host in hosts:
        try:
            return await _connect(host, target.port, make)
        except OSError as error:
            reason = reason or _describe_error(error)
    get_egress_reporter(cluster).report_failure(target, reason, client)
    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


async def _connect(host: str, port: int, make: Callable[[], _Protocol]) -> _Protocol:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_SECONDS):
        _, made = await loop.create_connection(
            make, host, port, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS
        )
        return made


def _describe_error(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {_CONNECT_SECONDS:g}s"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


class EgressReporter:
    """Records what a pod could not reach outside of the cluster, as events of the pod.

    A name is reported once, and no more than a few of one pod. Pods with `hostNetwork`, whose
    address is their node's, have no such events.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "kwait-network")
        self._reported: dict[str, set[str]] = {}
        cluster.subscribe("pods", self._on_pod)

    def _on_pod(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._reported.pop(uid_of(new), None)

    def report_name(self, name: str, client: str) -> None:
        """Report a name that does not exist in the cluster, if it is one of a host elsewhere.

        Args:
            name: the name, in lower case; empty for none.
            client: the address of the pod that asked for it.
        """
        if "." not in name or not is_host_name(name):
            return
        pod = self._find_pod(client)
        if pod is None or self._is_of_cluster(name, pod):
            return
        reported = self._reported.setdefault(uid_of(pod), set())
        if name in reported or len(reported) >= _MAX_NAMES_OF_POD:
            return
        reported.add(name)
        message = f"{name} is outside of the cluster: allow it by --kwait-egress={name}:PORT"
        if name == MACHINE_NAME:
            message = f"{name} is this machine: allow a port of it by --kwait-egress=localhost:PORT"
        self._recorder.event(pod, _POD, WARNING, "EgressNotAllowed", message)

    def _is_of_cluster(self, name: str, pod: Obj) -> bool:
        """Return whether a name was meant for the cluster, or made of a search domain.

        The resolver of a program asks for `db.shop` itself too, after `db.shop.svc.cluster.local`.
        """
        namespace, last = namespace_of(pod), name.rpartition(".")[2]
        if (
            last in _CLUSTER_LABELS
            or self._cluster.find("namespaces", last) is not None
            or self._cluster.find("services", last, namespace) is not None
        ):
            return True
        searches = (pod["spec"].get("dnsConfig") or {}).get("searches") or ()
        return any(
            name.endswith(f".{domain}") and "." in name.removesuffix(f".{domain}")
            for domain in searches
        )

    def report_failure(self, target: EgressTarget, reason: str, client: str) -> None:
        """Report that the machine cannot reach an allowed target.

        Args:
            client: the address of the pod that connected.
        """
        message = f"{target} cannot be reached from this machine: {reason}"
        pod = self._find_pod(client)
        if pod is None:
            _log.warning("egress: %s", message)
        else:
            self._recorder.event(pod, _POD, WARNING, "EgressFailed", message)

    def _find_pod(self, address: str) -> Obj | None:
        """Return the pod that runs at an address of its own."""
        for kubelet in self._cluster.kubelets.values():
            for own_address, pod in kubelet.list_addresses():
                if own_address == address:
                    return pod
        return None


def get_egress_reporter(cluster: Cluster) -> EgressReporter:
    """Return the reporter of a cluster."""
    return cluster.services.get(EgressReporter, lambda: EgressReporter(cluster))
