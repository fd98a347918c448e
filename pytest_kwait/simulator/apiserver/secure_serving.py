"""The listener: accepts connections, and starts TLS with a client's first bytes.

Until its first bytes a connection costs only a socket.

Source: k8s.io/apiserver pkg/server/secure_serving.go; Go's net/http server.go
(`tlsRecordHeaderLooksLikeHTTP`).
"""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.apiserver.http_server import HEADER_SECONDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_BACKLOG = 1024
_PAUSE = 0.1
"""Seconds until connections are accepted again after file descriptors ran out."""
_EXHAUSTION_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FAILURES_BEFORE_COLLECTION = 500
_PLAIN_HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_PLAIN_HTTP_RESPONSE = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class SecureListener:
    """Accepts connections.

    Args:
        protocol: makes the protocol of a connection.
        tls: the TLS context; None for plain HTTP.
        seconds: the time limit for the first bytes, and for the TLS handshake.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        seconds: float = HEADER_SECONDS,
    ) -> None:
        self._protocol = protocol
        self._tls = tls
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._silent_clients: dict[socket.socket, asyncio.TimerHandle] = {}
        self._failed = 0
        self._connecting: set[asyncio.Task[None]] = set()

    def open(self, host: str, port: int) -> int:
        """Listen and return the port; port 0 chooses a free one.

        Raises:
            OSError: the port is taken or the address is not local.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._loop.add_reader(listener, self._accept)
        bound: int = listener.getsockname()[1]
        return bound

    def close(self) -> None:
        """Stop accepting connections, and close the silent ones."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for client in list(self._silent_clients):
            self._drop(client)
        for task in self._connecting:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            if self._listener is None:
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTION_ERRORS:
                    raise
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE, self._resume_accepting)
                return
            client.setblocking(False)
            if self._tls is None:
                self._start_connection(client)
                continue
            self._silent_clients[client] = self._loop.call_later(self._seconds, self._drop, client)
            self._loop.add_reader(client, self._on_first_bytes, client)

    def _resume_accepting(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _on_first_bytes(self, client: socket.socket) -> None:
        """Serve a client that has sent its first bytes."""
        try:
            first = client.recv(5, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first or first in _PLAIN_HTTP_STARTS:
            if first:
                with suppress(OSError):
                    # Unread data would reset the connection before the response is read.
                    client.recv(65536)
                    client.send(_PLAIN_HTTP_RESPONSE)
            self._drop(client)
            return
        self._silent_clients.pop(client).cancel()
        self._loop.remove_reader(client)
        self._start_connection(client)

    def _drop(self, client: socket.socket) -> None:
        timer = self._silent_clients.pop(client, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(client)
        client.close()

    def _start_connection(self, client: socket.socket) -> None:
        task = self._loop.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: socket.socket) -> None:
        limit = self._seconds if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, client, ssl=self._tls, ssl_handshake_timeout=limit
            )
        except OSError:  # The client is gone, or its TLS version is unknown.
            self._failed += 1
            if self._failed >= _FAILURES_BEFORE_COLLECTION:
                # Failed handshakes leave large reference cycles.
                self._failed = 0
                self._loop.call_soon(gc.collect)
