"""Connections of a kubelet to what listens in its cluster, and why there is none."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.streams import Session

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.objects import Obj

__all__ = ["Dial", "NamedPortError", "make_dialer", "resolve_port"]

Dial = Callable[[str, int], tuple[str, Session | None]]
"""A host and a port to Go's trouble with them, and the connection.

Neither of both: nobody answers, which only a time-out ends.
"""


class NamedPortError(Exception):
    """A port's name that no port of the container has; `str` is the kubelet's text."""


def resolve_port(port: int | str, container: Obj) -> int:
    """Return the number of a port that may be named.

    Raises:
        PortError: none of the container's ports has the name, and it is no number.

    Source: pkg/probe/util.go, `ResolveContainerPort`.
    """
    if isinstance(port, int):
        return port
    for one in container.get("ports") or ():
        if one.get("name") == port:
            return int(one["containerPort"])
    if port.isascii() and port.isdigit():
        return int(port)
    raise NamedPortError(f'strconv.Atoi: parsing "{port}": invalid syntax')


def make_dialer(worker: PodWorker) -> Dial:
    """Return what connects to addresses as the kubelet of a pod does.

    Names are those that a node knows: its own, and of other nodes. Services have none there.
    """

    def dial(name: str, port: int) -> tuple[str, Session | None]:
        host = _resolve_host(worker, name)
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        refused = f"dial tcp {where}: connect: connection refused"
        if host == worker.pod_ip and host:
            session = worker.network.connect(port)
        elif _is_loopback(host) or host == worker.node.address:
            session = worker.node.network.connect(port)
        elif not _is_address(host):
            return f"dial tcp: lookup {host}: no such host", None
        else:
            found = worker.node.find_network(host)
            if found is None:
                return "", None
            session = found.connect(port)
        return ("", session) if session is not None else (refused, None)

    return dial


def _resolve_host(worker: PodWorker, name: str) -> str:
    if name.lower() == "localhost":
        return "127.0.0.1"
    node = worker.node.peers.get(name.lower())
    return node.address if node is not None else name


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_loopback
