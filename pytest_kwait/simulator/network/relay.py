"""Relays between connections: bytes in both directions, with back-pressure and half-close.

One end is a socket; the other one is a socket, or a session with a simulated program. Simulated
programs use sockets as sessions.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, ProcessSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pytest_kwait.simulator.network.filter_rules import FilterRule

Routes: TypeAlias = "Mapping[tuple[str, int], Sequence[tuple[str, int]]]"
"""Addresses and ports of endpoints by those of services."""

_SPARE_SOCKETS = 8


class PodSockets(Protocol):
    """Makes sockets in the network of the cluster's pods."""

    async def is_isolated(self) -> bool:
        """Return whether the network is one of its own, not the machine's."""

    async def listen(self, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        """Return a bound socket, listening if it is a TCP one.

        Args:
            address: one of services or nodes, or one that was added.
            kind: `tcp` or `udp`.

        Raises:
            OSError: the port is taken, or the address is none of the network.
        """

    async def route_services(self, routes: Routes) -> None:
        """Let connections to services lead straight to endpoints, if the network can do that.

        Args:
            routes: all routes from now on.
        """

    async def filter_connections(self, rules: Sequence[FilterRule]) -> None:
        """Drop new connections of programs as rules say.

        Args:
            rules: all rules from now on.

        Raises:
            OSError: the network cannot do that; `strerror` says why.
        """

    async def add_address(self, address: str) -> None:
        """Add an address to the network."""

    async def remove_address(self, address: str) -> None:
        """Remove an address that was added."""

    async def connect_socket(self, kind: Literal["tcp", "udp"]) -> socket.socket:
        """Return a socket that is not connected, and does not block."""


class SpareSockets:
    """Sockets that are made ahead: connections do not wait for the process that makes them.

    Args:
        make: makes one.
    """

    def __init__(self, make: Callable[[], Awaitable[socket.socket]]) -> None:
        self._make = make
        self._spare: list[socket.socket] = []
        self._refill: asyncio.Task[None] | None = None
        self._is_closed = False

    async def take(self) -> socket.socket:
        """Return a socket that is not connected.

        Raises:
            OSError: it could not be made.
        """
        if self._refill is None or self._refill.done():
            self._refill = asyncio.ensure_future(self._fill())
        return self._spare.pop() if self._spare else await self._make()

    async def _fill(self) -> None:
        while len(self._spare) < _SPARE_SOCKETS:
            try:
                made = await self._make()
            except OSError:
                # The next call reports why.
                return
            if self._is_closed:
                made.close()
                return
            self._spare.append(made)

    def close(self) -> None:
        """Close what was made."""
        self._is_closed = True
        if self._refill is not None:
            self._refill.cancel()
        for spare in self._spare:
            spare.close()
        self._spare.clear()


class RelayEnd(Protocol):
    """One end of a relay, as the other end uses it."""

    has_ended: bool
    """True once this end sends no more."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def send_eof(self) -> None:
        """Tell that no more bytes follow."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read on."""

    def close(self) -> None:
        """Close the connection after the bytes that were sent."""


def _end(end: RelayEnd, other: RelayEnd) -> None:
    """Handle that `end` sends no more; close both once both have ended."""
    end.has_ended = True
    if other.has_ended:
        end.close()
        other.close()
    else:
        other.send_eof()


class SocketEnd(asyncio.Protocol):
    """An end that is a socket.

    Args:
        other: the other end; None until `join`, before which nothing is read.
        on_connected: called once with the address of the peer.
        on_closed: called at the end.
    """

    def __init__(
        self,
        other: RelayEnd | None = None,
        on_connected: Callable[[SocketEnd, str], None] | None = None,
        on_closed: Callable[[SocketEnd], None] | None = None,
    ) -> None:
        self.has_ended = False
        self._other = other
        self._on_connected = on_connected
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None

    def join(self, other: RelayEnd) -> None:
        """Begin to relay."""
        self._other = other
        if self._transport is None or self._transport.is_closing():
            other.close()
        else:
            self._transport.resume_reading()

    # -- asyncio's view

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the connection."""
        self._transport = cast("asyncio.Transport", transport)
        if self._other is None:
            self._transport.pause_reading()
        if self._on_connected is not None:
            peer = transport.get_extra_info("peername")
            self._on_connected(self, str(peer[0]) if peer else "")

    def data_received(self, data: bytes) -> None:
        """Relay bytes."""
        if self._other is not None:
            self._other.send(data)

    def eof_received(self) -> bool:
        """Relay the end of the peer's bytes; this direction stays open."""
        if self._other is not None:
            _end(self, self._other)
        return self._transport is not None and not self._transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end; reset it if this one was."""
        self.has_ended = True
        if self._other is not None:
            if exc is not None and isinstance(self._other, SocketEnd):
                self._other.reset()
            else:
                self._other.close()
        if self._on_closed is not None:
            self._on_closed(self)

    def pause_writing(self) -> None:
        """Pause the other end while this one takes no more."""
        if self._other is not None:
            self._other.pause()

    def resume_writing(self) -> None:
        """Let the other end read on."""
        if self._other is not None:
            self._other.resume()

    # -- the other end's view

    def send(self, data: bytes) -> None:
        """Send bytes to the peer."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def send_eof(self) -> None:
        """Half-close the connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def pause(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection after the bytes that were sent."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close the connection at once: the peer sees a reset."""
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            if raw is not None and not self._transport.is_closing():
                # Linger of zero seconds: close() sends RST.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self._transport.abort()


class SessionEnd:
    """An end that is a session with a simulated program."""

    def __init__(self, session: ProcessSession, other: RelayEnd) -> None:
        self.has_ended = False
        self._session: ProcessSession | None = session
        self._other = other
        self._is_paused = False
        session.output.on_output = self._on_output

    def start(self) -> None:
        """Relay what the program has written so far."""
        self._on_output()

    def _on_output(self) -> None:
        session = self._session
        if session is None or self._is_paused:
            return
        for stream, data in session.output.drain():
            if stream == 1:
                self._other.send(data)
        if session.output.code is not None and not self.has_ended:
            # The program is gone: it reads nothing more either.
            self.has_ended = True
            self._other.send_eof()
            self._other.close()

    def send(self, data: bytes) -> None:
        """Send bytes to the program."""
        if self._session is not None and self._session.stdin is not None:
            self._session.stdin.send(data)

    def send_eof(self) -> None:
        """End the program's input."""
        if self._session is not None and self._session.stdin is not None:
            self._session.stdin.close()

    def pause(self) -> None:
        """Take no more output."""
        self._is_paused = True

    def resume(self) -> None:
        """Take output again."""
        self._is_paused = False
        self._on_output()

    def close(self) -> None:
        """Disconnect from the program."""
        session, self._session = self._session, None
        if session is not None:
            session.output.on_output = None
            session.stop()


def relay_session(session: ProcessSession, other: SocketEnd) -> None:
    """Relay between a session with a program and an end that waits for its partner."""
    end = SessionEnd(session, other)
    other.join(end)
    end.start()


async def open_relay(connected: socket.socket, other: SocketEnd) -> SocketEnd:
    """Relay between a connected socket and an end that waits for its partner."""
    loop = asyncio.get_running_loop()
    _, end = await loop.create_connection(lambda: SocketEnd(other), sock=connected)
    other.join(end)
    return end


class SessionSocket(asyncio.Protocol):
    """A socket as a session: its input and output are those of a process."""

    def __init__(self) -> None:
        self.output = OutputBuffer()
        self._transport: asyncio.Transport | None = None

    @property
    def session(self) -> ProcessSession:
        """The session."""
        return ProcessSession(self, self.output, self.stop)

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass data on; a slow reader stops the transport."""
        self.output.write(1, data)
        if self.output.must_wait(self._resume) and self._transport is not None:
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """End the output; TLS cannot keep the other direction open."""
        self.output.end(0)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End the output."""
        self.output.end(0 if error is None else 1)

    # -- input

    def send(self, data: bytes) -> None:
        """Send data."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End the input."""
        transport = self._transport
        if transport is not None and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()

    def __len__(self) -> int:
        """Return the number of bytes that were not sent yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def stop(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
