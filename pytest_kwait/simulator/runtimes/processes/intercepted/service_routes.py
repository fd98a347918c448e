"""Services whose connections lead straight to endpoints, as by kube-proxy's rules.

A service without a route is served by the server's proxy.

Source: kube-proxy pkg/proxy/iptables/proxier.go, `syncProxyRules`.
"""

from __future__ import annotations

import random
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.shared_file import (
    SharedFileReader,
    SharedFileWriter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIX = ".services"


class RouteWriter:
    """Writes the routes of a cluster's services.

    Args:
        table: the path of the table of addresses.
    """

    def __init__(self, table: str) -> None:
        self._file = SharedFileWriter(table + _SUFFIX)

    def write(self, routes: Mapping[tuple[str, int], Sequence[tuple[str, int]]]) -> None:
        """Replace all routes.

        Args:
            routes: addresses and ports of endpoints by those of services.
        """
        self._file.write([[*service, targets] for service, targets in routes.items()])


class ServiceRoutes:
    """Reads the routes of a cluster's services.

    Args:
        table: the path of the table of addresses.
    """

    def __init__(self, table: str) -> None:
        self._file = SharedFileReader(table + _SUFFIX)
        self._routes: dict[tuple[IPv4Address, int], list[tuple[IPv4Address, int]]] = {}

    def choose(self, host: IPv4Address, port: int) -> tuple[IPv4Address, int] | None:
        """Return the address and port of an endpoint of a service; None without a route."""
        rows = self._file.read_changed()
        if rows is not None:
            self._routes = {
                (IPv4Address(service), number): [(IPv4Address(to), at) for to, at in targets]
                for service, number, targets in rows
            }
        targets = self._routes.get((host, port))
        return random.choice(targets) if targets else None  # noqa: S311 - as kube-proxy chooses
