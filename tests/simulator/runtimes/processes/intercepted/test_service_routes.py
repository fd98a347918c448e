from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.service_routes import (
    RouteWriter,
    ServiceRoutes,
)

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = IPv4Address("10.0.0.1")
ENDPOINTS = [("10.244.0.5", 8080), ("10.244.0.6", 8081)]


def test_last_routes_are_read(tmp_path: Path) -> None:
    writer = RouteWriter(str(tmp_path / "addresses"))
    routes = ServiceRoutes(str(tmp_path / "addresses"))
    assert routes.choose(SERVICE, 80) is None
    for number in range(8080, 8090):
        writer.write({(str(SERVICE), 80): [("10.244.0.5", number)]})
        assert routes.choose(SERVICE, 80) == (IPv4Address("10.244.0.5"), number)
    assert routes.choose(SERVICE, 81) is None
    writer.write({})
    assert routes.choose(SERVICE, 80) is None


def test_each_endpoint_is_chosen(tmp_path: Path) -> None:
    RouteWriter(str(tmp_path / "addresses")).write({(str(SERVICE), 80): ENDPOINTS})
    routes = ServiceRoutes(str(tmp_path / "addresses"))
    chosen = {routes.choose(SERVICE, 80) for _ in range(200)}
    assert chosen == {(IPv4Address(host), port) for host, port in ENDPOINTS}
