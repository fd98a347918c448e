"""Sockets of the server that speak the addresses of the cluster, where programs are intercepted."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    UNSPECIFIED,
    Address,
    allow_any_port,
    is_loopback,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import AddressTable

_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_BACKLOG = 1024


class ClusterSocket(socket.socket):
    """A socket of the machine's loopback interface that shows the cluster's addresses.

    Args:
        table: the cluster's addresses.
        kind: of the socket.
        owner: the pod whose loopback interface 127.0.0.1 is; 0.0.0.0 for that of all nodes.
        fileno: the descriptor of an existing socket; None to make one.
    """

    def __init__(
        self,
        table: AddressTable,
        kind: socket.SocketKind,
        owner: IPv4Address = UNSPECIFIED,
        fileno: int | None = None,
    ) -> None:
        super().__init__(socket.AF_INET, kind, 0, fileno)
        self._table, self._owner = table, owner

    def bind(self, address: Any) -> None:
        """Bind to an address of the cluster; without a port, connections have any one."""
        host, port = address
        made = str(self._table.add(self._find(host)))
        if not port:
            allow_any_port(self)
        super().bind((made, self._table.to_machine_port(port)))

    def connect(self, address: Any) -> None:
        """Connect to an address of the cluster."""
        super().connect(self._to_machine(address))

    def sendto(self, data: Any, *flags_and_address: Any) -> int:
        """Send a datagram to an address of the cluster."""
        *flags, address = flags_and_address
        return super().sendto(data, sum(flags), self._to_machine(address))

    def recvfrom(self, *arguments: Any) -> tuple[bytes, Any]:
        """Receive a datagram, with the sender's address."""
        data, address = super().recvfrom(*arguments)
        return data, self._to_cluster(address)

    def accept(self) -> tuple[ClusterSocket, Any]:
        """Accept a connection; returns it with the peer's address."""
        accepted, address = super().accept()
        made = ClusterSocket(self._table, socket.SOCK_STREAM, self._owner, accepted.detach())
        return made, self._to_cluster(address)

    def getpeername(self) -> Any:
        """Return the peer's address."""
        return self._to_cluster(super().getpeername())

    def getsockname(self) -> Any:
        """Return the own address."""
        return self._to_cluster(super().getsockname())

    def _find(self, host: str) -> Address:
        address = IPv4Address(host)
        if is_loopback(address):
            return Address(address, self._owner)
        return Address(address)

    def _to_machine(self, address: Any) -> tuple[str, int]:
        host, port = address
        wanted = self._find(host)
        made = self._table.find(wanted)
        if made is None:
            if is_loopback(wanted.host):
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            made = self._table.add(wanted)
        return str(made), self._table.to_machine_port(port)

    def _to_cluster(self, address: Any) -> tuple[str, int]:
        host, port = address
        found = self._table.find_address(IPv4Address(host))
        if found is None:
            return host, port
        shown = found.host
        if found.owner not in (UNSPECIFIED, self._owner):
            shown = found.owner
        return str(shown), self._table.from_machine_port(port)


def make_cluster_socket(
    table: AddressTable, kind: Literal["tcp", "udp"], *, source: str, owner: str
) -> ClusterSocket:
    """Return a socket that is not connected, and does not block.

    Args:
        table: the cluster's addresses.
        kind: of the socket.
        source: the address that peers see.
        owner: the pod whose loopback interface 127.0.0.1 is; 0.0.0.0 for that of all nodes.

    Raises:
        OSError: it could not be made.
    """
    made = ClusterSocket(table, _KINDS[kind], IPv4Address(owner))
    try:
        made.setblocking(False)
        made.bind((source, 0))
    except OSError:
        made.close()
        raise
    return made


def listen(
    table: AddressTable,
    address: tuple[str, int],
    kind: Literal["tcp", "udp"],
    networks: Iterable[str],
) -> ClusterSocket:
    """Return a bound socket that does not block; a TCP one listens.

    Args:
        table: the cluster's addresses.
        address: where it is bound: of the networks, of the loopback interface of all nodes, or one
            that is in the table.
        kind: of the socket.
        networks: the networks of pods, services and nodes.

    Raises:
        OSError: the port is taken, or the address is none of the cluster.
    """
    host = IPv4Address(address[0])
    is_known = is_loopback(host) or table.find(Address(host)) is not None
    if not is_known and all(host not in IPv4Network(one, strict=False) for one in networks):
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    made = ClusterSocket(table, _KINDS[kind])
    try:
        made.setblocking(False)
        if kind == "tcp":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        if kind == "tcp":
            made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
