from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from http.client import HTTPSConnection
from typing import Any

import trustme

from tools.fault_proxy.exchange import Upstream
from tools.fault_proxy.faults import FAULTS, ConnectionBehavior
from tools.fault_proxy.proxy import Proxy

_UNUSED: Any = None
"""No client of these tests sends a request to forward."""


def shake_hands(connection: socket.socket, context: ssl.SSLContext) -> None:
    """Complete a TLS handshake, and read nothing after it."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            connection.sendall(sent.read())
            if not received.write(connection.recv(65536)):
                received.write_eof()
        else:
            connection.sendall(sent.read())
            return


def test_listening_ends_while_clients_are_in_their_handshake() -> None:
    authority = trustme.CA()
    served, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusted)
    (refused,) = (each for each in FAULTS if each.connections is ConnectionBehavior.REFUSE)
    over = threading.Event()

    def connect_again_and_again(port: int) -> None:
        with ExitStack() as stack:
            while not over.is_set():
                with suppress(OSError):
                    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                    stack.enter_context(connection)
                    shake_hands(connection, trusted)

    with Proxy(_UNUSED, served) as proxy:
        clients = [
            threading.Thread(target=connect_again_and_again, args=(proxy.port,)) for _ in range(4)
        ]
        for client in clients:
            client.start()
        try:
            for _ in range(60):
                proxy.inject(refused, 1)
                proxy.end_fault()
        finally:
            over.set()
            for client in clients:
                client.join()


def test_reads_share_a_connection_to_the_server_until_it_closes_it() -> None:
    authority = trustme.CA()
    served, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusted)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    accepted = 0

    def serve(listening: socket.socket) -> None:
        nonlocal accepted
        for requests in (2, 1):
            connection, _ = listening.accept()
            accepted += 1
            with connection:
                for _ in range(requests):
                    while b"\r\n\r\n" not in connection.recv(65536):
                        pass
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        upstream = Upstream("127.0.0.1", listening.getsockname()[1], None, {})
        with Proxy(upstream, served) as proxy:
            client = HTTPSConnection("127.0.0.1", proxy.port, context=trusted, timeout=10)
            for _ in range(3):
                client.request("GET", "/api/v1/pods")
                assert client.getresponse().read() == b"{}"
            client.close()
        server.join()

    assert accepted == 2
