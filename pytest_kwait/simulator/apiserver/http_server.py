"""HTTP/1.1 connections, with the limits of Go's server.

Limits of a connection: time and size of a request's head, idle time, malformed HTTP.

Source: Go's net/http server.go.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

if TYPE_CHECKING:
    from aiohttp.web_protocol import _RequestHandler

HEADER_SECONDS = 32.0
"""The time limit for a request's head; the first request's starts with the connection."""

_IDLE_SECONDS = 90.0
_LINGER_SECONDS = 5.0
"""Seconds that the rest of a rejected body is read, so that the client sees the response."""
_MAX_HEAD_BYTES = 1024 * 1024
_MAX_HEADERS = 10_000
_MAX_ACCEPT_BYTES = 64 * 1024
"""Bytes of the header Accept; upstream has no limit of its own."""
_HOST = re.compile(r"[-A-Za-z0-9!$%&'()*+,.:;=\[\]_~@]*")
_INCOMPLETE_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


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


def find_malformed_request(http: web.BaseRequest) -> str:
    """Return the error for a malformed request; empty if it is well-formed.

    Source: Go's net/http server.go, `readRequest`, and net/url, `unescape`.
    """
    major, minor = http.version
    if (major, minor) < (1, 0):
        return "400 Bad Request"
    if major != 1:
        return "505 HTTP Version Not Supported: unsupported protocol version"
    if _HOST.fullmatch(http.headers.get("Host", "")) is None:
        return "400 Bad Request: malformed Host header"
    if len(http.headers.get("Accept", "")) > _MAX_ACCEPT_BYTES:
        return "431 Request Header Fields Too Large"
    if "%" in http.raw_path and _INCOMPLETE_ESCAPE.search(http.raw_path.partition("?")[0]):
        return "400 Bad Request"
    return ""
