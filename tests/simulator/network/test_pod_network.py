"""Requests of the API server to services, through the network of programs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.admission.webhooks.webhook_client import connection_error_text
from pytest_kwait.simulator.network.pod_network import get_pod_networks, make_service_connector

if TYPE_CHECKING:
    from tests.simulator.cluster import Cluster


@pytest.mark.parametrize("is_isolated", [True, False])
def test_no_service_is_looked_for_on_the_machines_network(
    cluster: Cluster, is_isolated: bool
) -> None:
    made: list[str] = []

    class Sockets:
        async def is_isolated(self) -> bool:
            return is_isolated

        async def connect_socket(self, kind: str) -> None:
            made.append(kind)

    network: Any = SimpleNamespace(sockets=Sockets())
    get_pod_networks(cluster.api).current = network

    async def connect() -> None:
        connector = await make_service_connector(cluster.api)
        assert connector is not None
        await connector.close()

    if is_isolated:
        asyncio.run(connect())
        assert made == ["tcp"]
        return
    with pytest.raises(ConnectionRefusedError) as caught:
        asyncio.run(connect())
    assert made == []
    assert connection_error_text(caught.value, "https://10.0.0.12:443/check") == (
        "dial tcp 10.0.0.12:443: connect: connection refused"
    )
