"""The listening socket, TLS detection, and the limits of each connection.

TLS starts with a client's first bytes; until then a connection costs only a socket. Limits: time
and size of a request's head, idle time, malformed HTTP.

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

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp.web_protocol import _RequestHandler

__all__ = ["HEADER_SECONDS", "HttpServer", "Listener"]

HEADER_SECONDS = 32.0
"""The time limit for a request's head; the first request's starts with the connection."""

_IDLE_SECONDS = 90.0
_LINGER_SECONDS = 5.0
"""How long the rest of a rejected body is read, so that the client sees the response."""
_MAX_HEAD_BYTES = 1024 * 1024
_MAX_HEADERS = 10_000


class HttpServer(web.Server):
    """The connections of one server.

    Args:
        handler: answers a request.
        header_seconds: the time limit for a request's head.
    """

    def __init__(self, handler: _RequestHandler, header_seconds: float = HEADER_SECONDS) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._header_seconds = header_seconds

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(self, asyncio.get_running_loop(), self._header_seconds)


class _Connection(web.RequestHandler):
    """One HTTP connection."""

    __slots__ = ("_head", "_head_timer", "_seconds")

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # none is what None means
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            # A real server knows no compressed request bodies.
            auto_decompress=False,
            max_line_size=_MAX_HEAD_BYTES,
            max_field_size=_MAX_HEAD_BYTES,
            max_headers=_MAX_HEADERS,
        )
        self._seconds = seconds
        self._head = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first request's head."""
        super().connection_made(transport)
        self._head_timer = self._loop.call_later(self._seconds, self._on_head_timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timers."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the size of a request's head."""
        if not data or self._is_in_body():
            super().data_received(data)
            return
        requests = self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._head = 0
            self._stop_head_timer()
            return
        self._head += len(data)
        if self._head > _MAX_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(self._seconds, self._on_head_timeout)

    def _is_in_body(self) -> bool:
        """Return whether the data belongs to a request's body or to a stream."""
        if self._payload_parser is not None:
            return True
        if self._messages:
            return not self._messages[-1][1].is_eof()
        if self._current_request is not None:
            return not self._current_request.content.is_eof()
        return self._waiter is None  # The request is about to be handled.

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._current_request is None:
            self.force_close()

    def _refuse(self, status: str) -> None:
        """Answer a malformed request and close the connection."""
        if self.transport is not None:
            self.transport.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Connection: close\r\n\r\n{status}".encode()
            )
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer malformed HTTP; log errors of the server itself."""
        if isinstance(exc, ConnectionError):
            return web.Response(status=status)  # The client is gone.
        if status != 400:
            return super().handle_error(request, status, exc, message)
        many = isinstance(exc, LineTooLong) or "Too many headers" in str(exc)
        self._refuse("431 Request Header Fields Too Large" if many else "400 Bad Request")
        return web.Response(status=status)


_BACKLOG = 1024
_PAUSE = 0.1
"""Seconds until connections are accepted again after file descriptors ran out."""
_EXHAUSTION_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FAILURES_BEFORE_COLLECTION = 500
_PLAIN_HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_PLAIN_HTTP_RESPONSE = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class Listener:
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
