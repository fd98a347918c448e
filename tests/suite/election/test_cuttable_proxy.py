from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.election.candidates import CuttableProxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that says what it hears, a connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while data := connection.recv(100):
                        connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def relay(echo: int) -> Iterator[CuttableProxy]:
    relay = CuttableProxy("127.0.0.1", echo)
    yield relay
    relay.close()


def connect(relay: CuttableProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), 60)


def test_data_is_forwarded_both_ways(relay: CuttableProxy) -> None:
    with connect(relay) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""


def test_cut_connection_delivers_all_data_afterwards(relay: CuttableProxy) -> None:
    with connect(relay) as before:
        before.sendall(b"one")
        assert before.recv(100) == b"one"
        relay.cut()
        before.sendall(b"two")
        with connect(relay) as meanwhile:
            meanwhile.sendall(b"three")
            for connection in (before, meanwhile):
                connection.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    connection.recv(100)
            relay.join()
            before.settimeout(60)
            assert before.recv(100) == b"two"
            before.close()
            meanwhile.settimeout(60)
            assert meanwhile.recv(100) == b"three"


def test_closing_the_proxy_closes_connections(relay: CuttableProxy) -> None:
    with connect(relay) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
        relay.cut()
        relay.close()
        assert connection.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(relay)


def test_unreachable_server_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay = CuttableProxy("127.0.0.1", port)
    with connect(relay) as connection:
        assert connection.recv(100) == b""
    relay.close()
