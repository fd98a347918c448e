"""Services whose connections lead straight to endpoints, as by kube-proxy's rules.

The routes are a file that the server replaces and interceptors read, beside the table of addresses.
A service without one is served by the server's proxy.

Source: kube-proxy pkg/proxy/iptables/proxier.go, `syncProxyRules`.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from ipaddress import IPv4Address
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIX = ".services"


class RouteWriter:
    """Writes the routes of a cluster's services.

    Args:
        table: the path of the table of addresses.
    """

    def __init__(self, table: str) -> None:
        self._path = table + _SUFFIX
        self._versions = count(1)

    def write(self, routes: Mapping[tuple[str, int], Sequence[tuple[str, int]]]) -> None:
        """Replace all routes.

        Args:
            routes: addresses and ports of endpoints by those of services.
        """
        part = f"{self._path}.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump([[*service, targets] for service, targets in routes.items()], file)
        # Two files may be written in one tick of the kernel's clock.
        version = next(self._versions)
        os.utime(part, ns=(version, version))
        os.replace(part, self._path)


class ServiceRoutes:
    """Reads the routes of a cluster's services.

    Args:
        table: the path of the table of addresses.
    """

    def __init__(self, table: str) -> None:
        self._path = table + _SUFFIX
        self._version = 0
        self._routes: dict[tuple[IPv4Address, int], list[tuple[IPv4Address, int]]] = {}

    def choose(self, host: IPv4Address, port: int) -> tuple[IPv4Address, int] | None:
        """Return the address and port of an endpoint of a service; None without a route."""
        with suppress(FileNotFoundError):
            version = os.stat(self._path).st_mtime_ns
            if version != self._version:
                self._read()
                self._version = version
        targets = self._routes.get((host, port))
        return random.choice(targets) if targets else None  # noqa: S311 - as kube-proxy chooses

    def _read(self) -> None:
        with open(self._path, encoding="ascii") as file:
            rows = json.load(file)
        self._routes = {
            (IPv4Address(host), port): [(IPv4Address(to), number) for to, number in targets]
            for host, port, targets in rows
        }
