"""Sockets of the server that speak the addresses of the cluster."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.network.loopback_blocks import hold_block
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    LOCALHOST,
    Address,
    AddressTable,
    create_table,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.cluster_socket import (
    listen,
    make_cluster_socket,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NETWORKS = ("10.244.0.1/14", "10.0.0.0/16")
NO_POD = "0.0.0.0"
GATEWAY, POD, SERVICE = "10.244.0.1", "10.244.0.5", "10.0.0.9"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[AddressTable]:
    """Return the table of a block that no other test has."""
    holder, block = hold_block(0)
    create_table(str(tmp_path / "addresses"), block)
    made = AddressTable(str(tmp_path / "addresses"))
    yield made
    made.close()
    holder.close()


def test_connection_shows_the_addresses_of_the_cluster(table: AddressTable) -> None:
    with (
        listen(table, (SERVICE, 8080), "tcp", NETWORKS) as server,
        make_cluster_socket(table, "tcp", source=POD, owner=POD) as client,
    ):
        server.setblocking(True)
        client.setblocking(True)
        client.connect((SERVICE, 8080))
        accepted, peer = server.accept()
        with accepted:
            assert peer == accepted.getpeername() == client.getsockname()
            assert peer[0] == POD
            assert client.getpeername() == accepted.getsockname() == (SERVICE, 8080)


def test_low_port_needs_no_rights(table: AddressTable) -> None:
    with listen(table, (SERVICE, 80), "tcp", NETWORKS) as server:
        assert server.getsockname() == (SERVICE, 80)


def test_datagrams_show_the_addresses_of_the_cluster(table: AddressTable) -> None:
    with (
        listen(table, (SERVICE, 53), "udp", NETWORKS) as server,
        make_cluster_socket(table, "udp", source=POD, owner=POD) as client,
    ):
        server.setblocking(True)
        assert client.sendto(b"name", (SERVICE, 53)) == 4
        data, peer = server.recvfrom(100)
        assert (data, peer[0]) == (b"name", POD)
        assert server.sendto(b"address", 0, peer) == 7


def test_event_loop_sees_the_addresses_of_the_cluster(table: AddressTable) -> None:
    async def run() -> None:
        peers = []

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peers.append(writer.get_extra_info("peername"))
            writer.close()

        server = await asyncio.start_server(
            accept,
            sock=listen(table, (SERVICE, 8080), "tcp", NETWORKS),
        )
        made = make_cluster_socket(table, "tcp", source=GATEWAY, owner=NO_POD)
        await asyncio.get_running_loop().sock_connect(made, (SERVICE, 8080))
        reader, writer = await asyncio.open_connection(sock=made)
        assert await reader.read() == b""
        writer.close()
        server.close()
        await server.wait_closed()
        assert [host for host, _ in peers] == [GATEWAY]

    asyncio.run(run())


def test_loopback_interface_is_of_the_pod(table: AddressTable) -> None:
    with make_cluster_socket(table, "tcp", source="127.0.0.1", owner=POD) as client:
        assert client.getsockname()[0] == "127.0.0.1"
        assert table.find(Address(LOCALHOST, IPv4Address(POD))) is not None
        client.setblocking(True)
        with pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", 8080))
    with (
        make_cluster_socket(table, "tcp", source=GATEWAY, owner=NO_POD) as client,
        pytest.raises(ConnectionRefusedError),
    ):
        client.connect(("127.0.0.1", 8080))


def test_taken_port_is_refused(table: AddressTable) -> None:
    with (
        listen(table, (SERVICE, 8080), "tcp", NETWORKS),
        pytest.raises(OSError, match="Address already in use"),
    ):
        listen(table, (SERVICE, 8080), "tcp", NETWORKS)


def test_address_of_no_network_is_served_once_it_is_added(table: AddressTable) -> None:
    with pytest.raises(OSError, match="Cannot assign requested address"):
        listen(table, ("203.0.113.7", 443), "tcp", NETWORKS)
    table.add(Address(IPv4Address("203.0.113.7")))
    with listen(table, ("203.0.113.7", 443), "tcp", NETWORKS) as server:
        assert server.getsockname() == ("203.0.113.7", 443)
