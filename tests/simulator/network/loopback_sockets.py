"""The pods' network on the loopback interface: each address and port has a port of its own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import async_sleep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.network.filter_rules import FilterRule

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


class _Translated(socket.socket):
    """A socket that connects to addresses of the pods' network."""

    places: dict[tuple[str, int, str], tuple[str, int]]

    def connect(self, address: Any) -> None:
        kind = "tcp" if self.type == socket.SOCK_STREAM else "udp"
        super().connect(self.places.get((*address, kind), ("127.0.0.1", 1)))


class LoopbackSockets:
    """Sockets of addresses that the machine does not have."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, int, str], tuple[str, int]] = {}
        self.added: set[str] = set()
        self.routes: dict[tuple[str, int], list[tuple[str, int]]] = {}
        self.filters: list[list[FilterRule]] = []
        self.filter_refusal = ""
        self.isolated = True

    async def route_services(self, routes: Any) -> None:
        """Record the routes of services."""
        self.routes = dict(routes)

    async def filter_connections(self, rules: Sequence[FilterRule]) -> None:
        """Record the rules of connections, or refuse them."""
        self.filters.append(list(rules))
        await async_sleep(0)
        if self.filter_refusal:
            raise OSError(95, self.filter_refusal)

    async def add_address(self, address: str) -> None:
        """Record an added address."""
        self.added.add(address)

    async def remove_address(self, address: str) -> None:
        """Forget an added address."""
        self.added.discard(address)

    async def listen(self, address: str, port: int, kind: str) -> socket.socket:
        """Return a socket on a free port."""
        if (address, port, kind) in self.places:
            raise OSError(98, "Address already in use")
        bound = socket.socket(socket.AF_INET, KINDS[kind])
        bound.setblocking(False)
        bound.bind(("127.0.0.1", 0))
        if kind == "tcp":
            bound.listen()
        self.places[address, port, kind] = bound.getsockname()
        return bound

    async def is_isolated(self) -> bool:
        return self.isolated

    async def connect_socket(self, kind: str) -> socket.socket:
        """Return a socket whose targets are translated."""
        made = _Translated(socket.AF_INET, KINDS[kind])
        made.setblocking(False)
        made.places = self.places
        return made
