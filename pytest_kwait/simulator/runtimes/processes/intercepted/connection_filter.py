"""The filter of new connections of intercepted programs.

Connections that no rule allows go to a place where nothing answers: a socket that listens and
accepts no more, and one for datagrams that nothing reads. Programs see dropped packets so.

Source: man 2 listen; net/ipv4/tcp_input.c, `tcp_conn_request`.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.network.filter_rules import ConnectionFilter, FilterRule, PortRange
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import Address
from pytest_kwait.simulator.runtimes.processes.intercepted.shared_file import (
    SharedFileReader,
    SharedFileWriter,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import AddressTable

_SUFFIX = ".filter"
_SILENT = Address(IPv4Address(3))
"""What has the address at which nothing answers."""


class Place(NamedTuple):
    """An address and port of the machine."""

    host: IPv4Address
    port: int


class FilterWriter:
    """Writes the rules of a cluster.

    Args:
        path: the path of the table of addresses.
        table: that table.
    """

    def __init__(self, path: str, table: AddressTable) -> None:
        self._file = SharedFileWriter(path + _SUFFIX)
        host = str(table.add(_SILENT))
        self._sockets = [
            socket.socket(socket.AF_INET, kind)
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_STREAM)
        ]
        listening, datagrams, waiting = self._sockets
        listening.bind((host, 0))
        datagrams.bind((host, 0))
        # One connection fills the queue of those that wait to be accepted.
        listening.listen(0)
        waiting.connect(listening.getsockname())
        self._places = (listening.getsockname(), datagrams.getsockname())

    def write(self, rules: Sequence[FilterRule]) -> None:
        """Replace all rules."""
        self._file.write([self._places, rules])

    def close(self) -> None:
        """Close the sockets at which nothing answers."""
        for made in self._sockets:
            made.close()


class ProgramFilter:
    """Reads the rules for the programs of one pod.

    Args:
        path: the path of the table of addresses.
        source: the pod's address.
    """

    def __init__(self, path: str, source: IPv4Address) -> None:
        self._file = SharedFileReader(path + _SUFFIX)
        self._source = str(source)
        self._filter = ConnectionFilter(())
        self._silent: dict[str, Place] = {}

    def __bool__(self) -> bool:
        """Return whether there are rules."""
        content = self._file.read_changed()
        if content is not None:
            places, rows = content
            self._silent = {
                protocol: Place(IPv4Address(host), port)
                for protocol, (host, port) in zip(("TCP", "UDP"), places, strict=True)
            }
            self._filter = ConnectionFilter(
                FilterRule(source, destination, PortRange(*ports), is_allowed)
                for source, destination, ports, is_allowed in rows
                if source == self._source
            )
        return bool(self._filter)

    def find_silent(self, host: IPv4Address, port: int, protocol: str) -> Place | None:
        """Return where packets go that are not allowed; None for those that are.

        Args:
            protocol: `TCP` or `UDP`.
        """
        if not self or self._filter.is_allowed(self._source, host, port, protocol):
            return None
        return self._silent[protocol]
