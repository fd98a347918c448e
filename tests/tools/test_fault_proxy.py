from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from typing import Any

import trustme

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
