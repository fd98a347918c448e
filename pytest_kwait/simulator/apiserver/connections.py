"""Connections: how long a client may be silent, how much it may send, what malformed HTTP gets.

Source: k8s.io/apiserver pkg/server/secure_serving.go; Go's net/http server.go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

if TYPE_CHECKING:
    from aiohttp.web_protocol import _RequestHandler

__all__ = ["HEADER_SECONDS", "HttpServer"]

HEADER_SECONDS = 32.0
"""Until a request's head must have come, its first byte counting from the connection's start."""

_IDLE_SECONDS = 90.0
_LINGER_SECONDS = 5.0
"""How long what is left of a refused body is still read, so that its answer is seen."""
_MAX_HEAD_BYTES = 1024 * 1024
_MAX_HEADERS = 10_000


class HttpServer(web.Server):
    """All connections of one server.

    Args:
        handler: answers a request.
        header_seconds: until a request's head must have come.
    """

    def __init__(self, handler: _RequestHandler, header_seconds: float = HEADER_SECONDS) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._header_seconds = header_seconds

    def __call__(self) -> web.RequestHandler:
        """A new connection's protocol."""
        return _Connection(self, asyncio.get_running_loop(), self._header_seconds)


class _Connection(web.RequestHandler):
    """One connection.

    Args:
        server: which it belongs to.
        loop: where it lives.
        seconds: until a request's head must have come.
    """

    __slots__ = ("_head", "_late", "_seconds")

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # none is what None means
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            # A body that is compressed is no more known to a real server.
            auto_decompress=False,
            max_line_size=_MAX_HEAD_BYTES,
            max_field_size=_MAX_HEAD_BYTES,
            max_headers=_MAX_HEADERS,
        )
        self._seconds = seconds
        self._head = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time that the first request has."""
        super().connection_made(transport)
        self._late = self._loop.call_later(self._seconds, self._too_late)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of what is waited for."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes until it is a request's whole head."""
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
        elif self._late is None:
            self._late = self._loop.call_later(self._seconds, self._too_late)

    def _is_in_body(self) -> bool:
        """Whether what comes now belongs to a request whose head has come, or to a stream."""
        if self._payload_parser is not None:
            return True
        if self._messages:
            return not self._messages[-1][1].is_eof()
        if self._current_request is not None:
            return not self._current_request.content.is_eof()
        return self._waiter is None  # it is about to be handled

    def _stop_head_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if self._current_request is None:
            self.force_close()

    def _refuse(self, status: str) -> None:
        """Answer what is no request, and close."""
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
        """The answer to what is no HTTP; what fails of our own making is logged as it is."""
        if isinstance(exc, ConnectionError):
            return web.Response(status=status)  # nobody is there to read it
        if status != 400:
            return super().handle_error(request, status, exc, message)
        many = isinstance(exc, LineTooLong) or "Too many headers" in str(exc)
        self._refuse("431 Request Header Fields Too Large" if many else "400 Bad Request")
        return web.Response(status=status)
