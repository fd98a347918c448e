"""The listening socket: who comes in, and who is told at the door that this is no plain HTTP.

A connection costs a socket until its client says something; only then is TLS spoken.

Source: Go's net/http server.go (`tlsRecordHeaderLooksLikeHTTP`).
"""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.apiserver.connections import HEADER_SECONDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

__all__ = ["Listener"]

_BACKLOG = 1024
_PAUSE = 0.1
"""Seconds until connections are accepted again after the process ran out of them."""
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
        tls: what to speak; None for plain HTTP.
        seconds: until a client must have begun, and until TLS must be agreed on.
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
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._failed = 0
        self._connecting: set[asyncio.Task[None]] = set()

    def open(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one where `port` is 0.

        Raises:
            OSError: the port is taken, or the address is none of this machine's.
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
        """Let nobody in any more; those who have not said anything are sent away."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for client in list(self._silent):
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
                self._loop.call_later(_PAUSE, self._again)
                return
            client.setblocking(False)
            if self._tls is None:
                self._start_connection(client)
                continue
            self._silent[client] = self._loop.call_later(self._seconds, self._drop, client)
            self._loop.add_reader(client, self._heard, client)

    def _again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _heard(self, client: socket.socket) -> None:
        """The client has begun to speak."""
        try:
            said = client.recv(5, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            said = b""
        if not said or said in _PLAIN_HTTP_STARTS:
            if said:
                with suppress(OSError):
                    client.recv(65536)  # what is left unread would cut the answer off
                    client.send(_PLAIN_HTTP_RESPONSE)
            self._drop(client)
            return
        self._silent.pop(client).cancel()
        self._loop.remove_reader(client)
        self._start_connection(client)

    def _drop(self, client: socket.socket) -> None:
        timer = self._silent.pop(client, None)
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
        except OSError:  # the client went, or spoke no TLS that we know
            self._failed += 1
            if self._failed >= _FAILURES_BEFORE_COLLECTION:
                # What is left of them refers to itself in circles, and is large.
                self._failed = 0
                self._loop.call_soon(gc.collect)
