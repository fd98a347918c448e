"""Lookup of bound sockets."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.bound_sockets import BoundSockets

if TYPE_CHECKING:
    from collections.abc import Iterator

# Addresses of this process alone: any program may have a socket at 127.0.0.1.
HOST = IPv4Address("127.255.0.0") + os.getpid() % 0xFFF0 + 1
OTHER = HOST + 1


@pytest.fixture(params=["lookup", "lists"])
def bound(request: pytest.FixtureRequest) -> Iterator[BoundSockets]:
    """Return what looks, with and without the kernel's lookup."""
    made = BoundSockets()
    if request.param == "lists":
        made.close()
    yield made
    made.close()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, str(HOST)), (socket.AF_INET6, f"::ffff:{HOST}")],
    ids=["inet", "inet6"],
)
def test_socket_is_found_at_its_own_address(
    bound: BoundSockets, family: socket.AddressFamily, host: str, kind: socket.SocketKind
) -> None:
    with socket.socket(family, kind) as made:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((host, 0))
        port = made.getsockname()[1]
        if kind == socket.SOCK_STREAM:
            assert not bound.has(HOST, port)
            made.listen(1)
        assert bound.has(HOST, port)
        assert not bound.has(OTHER, port)
    assert not bound.has(HOST, port)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")],
    ids=["inet", "inet6"],
)
def test_socket_of_all_addresses_is_the_machine_s(
    bound: BoundSockets, family: socket.AddressFamily, host: str, kind: socket.SocketKind
) -> None:
    with socket.socket(family, kind) as made:
        made.bind((host, 0))
        if kind == socket.SOCK_STREAM:
            made.listen(1)
        assert not bound.has(HOST, made.getsockname()[1])
