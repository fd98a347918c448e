"""The server: HTTPS, or plain HTTP at the insecure port; one thread per connection.

A slow or silent client holds its own thread alone, the handshake included, and is left after a
while; the end of the server waits for nobody.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.command.config_errors import CommandError
from pytest_kwait.scheduler.command.endpoints import HTTPRequest
from pytest_kwait.scheduler.command.flags import PROGRAM

if TYPE_CHECKING:
    from pytest_kwait.scheduler.command.endpoints import Routes

__all__ = ["Server"]

_IDLE_TIMEOUT = 90.0
"""Seconds that a connection may wait for its next request."""
_READ_TIMEOUT = 32.0
"""Seconds that a client has for its handshake, and between the parts of a request."""

_log = logging.getLogger(__name__)


class Server:
    """A server that listens already when it is made; its requests are served once it is started.

    Args:
        address: the address to listen on; an unspecified one is all addresses of both families.
        port: the port; 0 for any that is free.
        endpoints: what is served.
        tls: the certificate to serve with; None for plain HTTP.

    Raises:
        ProgramError: the address is taken, or is none of this machine.
    """

    def __init__(
        self, address: str, port: int, endpoints: Routes, tls: ssl.SSLContext | None
    ) -> None:
        try:
            listener = _make_listener(address, port)
        except OSError as error:
            at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise CommandError(
                f"failed to create listener: failed to listen on {at}: listen tcp {at}: bind: {why}"
            ) from None
        self._server = _ThreadedServer(listener, endpoints, tls)
        self.port: int = listener.getsockname()[1]
        """The port it listens on."""
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(0.1,),
            name=f"kwait-scheduler-serving-{self.port}",
            daemon=True,
        )
        self._started = False

    def start(self) -> None:
        """Serve from now on."""
        self._started = True
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer; requests that are being answered are left to their threads."""
        if self._started:
            self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _READ_TIMEOUT
    wbufsize = 1 << 16  # an answer is one write, and often one packet
    server: _ThreadedServer

    def handle_one_request(self) -> None:
        """Wait longer for a request than for the rest of it."""
        self.connection.settimeout(_IDLE_TIMEOUT)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the headers, which must not take for ever."""
        self.connection.settimeout(_READ_TIMEOUT)
        return super().parse_request()

    def answer(self) -> None:
        """Answer the request; a body is read by nobody, so the connection ends after it."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        certificate = None
        if isinstance(self.connection, ssl.SSLSocket):
            certificate = self.connection.getpeercert() or None
        answer = self.server.endpoints.answer(
            HTTPRequest(
                self.command,
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                certificate,
            )
        )
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-cache, private")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815 # http.server finds them by these names

    def version_string(self) -> str:
        """Name the program, and nothing that it runs on."""
        return PROGRAM

    def log_message(self, format: str, *args: Any) -> None:
        """Log what is served as a detail."""
        _log.debug("%s " + format, self.client_address[0], *args)


class _ThreadedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listener: socket.socket, endpoints: Routes, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.endpoints = endpoints
        self._tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in its own thread: the handshake too."""
        request.settimeout(_READ_TIMEOUT)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note that a client has gone, is too slow, or does not speak TLS."""
        import sys

        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if isinstance(error, OSError):
            _log.debug("connection from %s: %s", client_address[0], error)
        else:
            _log.exception("connection from %s", client_address[0])


def _make_listener(address: str, port: int) -> socket.socket:
    ip = ipaddress.ip_address(address)
    if ip.is_unspecified and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
        )
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=128)
