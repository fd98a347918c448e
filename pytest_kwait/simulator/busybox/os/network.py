"""The network namespace of a pod: listening ports, and connections to other hosts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.busybox.os.streams import Pipe, ProcessSession

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from pytest_kwait.simulator.busybox.os.streams import Sink

_LOOPBACK_ADDRESSES = frozenset({"127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - a pod's own


class ExternalNetwork(Protocol):
    """The network outside a pod."""

    def resolve(self, name: str, server: str, source: str = "") -> list[str]:
        """Return the addresses that a DNS server has for a fully qualified name.

        Args:
            server: the address of the DNS server.
            source: the pod's address.
        """

    def connect(
        self, address: str, port: int, sink: Sink, source: str = ""
    ) -> ProcessSession | Connecting | str:
        """Connect from the pod's address with output to `sink`; return an error text on failure."""


class PortListener(Protocol):
    """Follows the ports of a pod or node."""

    def __call__(self, port: int, *, is_open: bool) -> None:
        """Handle that a port was opened or closed."""


class ProgramDialer(Protocol):
    """The ports of a pod's real programs."""

    async def connect(self, port: int, *, tls: bool = False, source: str = "") -> ProcessSession:
        """Connect to a port.

        Args:
            tls: whether to speak TLS, without a check of the certificate.
            source: the address that the program sees, where its pod has a network of its own.

        Raises:
            OSError: the connection or its TLS fails.
        """

    async def connect_inside(self, port: int) -> ProcessSession:
        """Connect to a port of the pod's loopback interface, or else of its address.

        Raises:
            OSError: the connection fails.
        """

    async def is_listening(self, port: int) -> bool:
        """Return whether connections to a port are accepted; True if that cannot be known."""

    async def make_socket(self, source: str) -> socket.socket:
        """Return a TCP socket that is not connected, whose peers see `source` where possible.

        Raises:
            OSError: it could not be made.
        """


class Connecting:
    """A connection to a real program that is being made.

    Args:
        connection: makes it.
        sink: takes what the program sends.
    """

    def __init__(self, connection: Awaitable[ProcessSession], sink: Sink) -> None:
        self.result: ProcessSession | str | None = None
        """The connection or an error text; None until either is known."""
        self._sink = sink
        self._task = asyncio.ensure_future(self._connect(connection))

    async def _connect(self, connection: Awaitable[ProcessSession]) -> None:
        try:
            session = await connection
        except OSError as error:
            self.result = error.strerror or str(error)
            return
        output = session.output

        def relay() -> None:
            for stream, data in output.drain():
                self._sink.write(stream, data)
            if output.code is not None:
                self._sink.end(output.code)

        output.on_output = relay
        self.result = session
        relay()

    def cancel(self) -> None:
        """Give up."""
        self._task.cancel()


class Network:
    """The ports of a pod or node."""

    __slots__ = ("_listeners", "address", "external", "on_port_changed", "programs")

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[Pipe, Sink | None], ProcessSession]] = {}
        self.address = ""
        """The pod's address."""
        self.external: ExternalNetwork | None = None
        self.programs: ProgramDialer | None = None
        """The ports of real programs; None if there are none."""
        self.on_port_changed: PortListener | None = None
        """Called after a port was opened or closed."""

    @property
    def ports(self) -> tuple[int, ...]:
        """The open ports."""
        return tuple(self._listeners)

    def listen(self, port: int, accept: Callable[[Pipe, Sink | None], ProcessSession]) -> bool:
        """Serve a port with `accept`; False if it is taken."""
        if port in self._listeners:
            return False
        self._listeners[port] = accept
        if self.on_port_changed is not None:
            self.on_port_changed(port, is_open=True)
        return True

    def release(self, port: int) -> None:
        """Free a port."""
        if self._listeners.pop(port, None) is not None and self.on_port_changed is not None:
            self.on_port_changed(port, is_open=False)

    def connect(self, port: int, sink: Sink | None = None) -> ProcessSession | None:
        """Connect to a port; None if the connection is refused."""
        accept = self._listeners.get(port)
        return None if accept is None else accept(Pipe(), sink)

    def dial(
        self, port: int, *, tls: bool = False, http2: bool = False, inside: bool = False
    ) -> ProcessSession | Awaitable[ProcessSession] | None:
        """Connect from outside: at once to a simulated program, or else to a real one.

        Args:
            tls: whether to speak TLS with a real program.
            http2: whether to speak HTTP/2, which no simulated program does: they are left out.
            inside: whether to connect within the pod, as port forwarding does.

        Returns:
            a session; what makes one, or raises OSError; None if the connection is refused.
        """
        session = None if http2 else self.connect(port)
        if session is not None or self.programs is None:
            return session
        if inside:
            return self.programs.connect_inside(port)
        return self.programs.connect(port, tls=tls)

    async def connect_stream(
        self, port: int, *, tls: bool = False, inside: bool = False
    ) -> ProcessSession | None:
        """Connect from outside, as `dial`; None if the connection is refused.

        Raises:
            OSError: the program's TLS fails.
        """
        connection = self.dial(port, tls=tls, inside=inside)
        if connection is None:
            return None
        if isinstance(connection, ProcessSession):
            if tls:
                connection.stop()
                raise OSError("no simulated program speaks TLS")
            return connection
        try:
            return await connection
        except (ConnectionRefusedError, TimeoutError):
            return None

    # -- view from inside the pod

    def resolve(self, name: str, server: str) -> list[str]:
        """Return the addresses that a DNS server has for a fully qualified name."""
        return self.external.resolve(name, server, self.address) if self.external else []

    def open_connection(
        self, port: int, sink: Sink, *, inside: bool = False, source: str = ""
    ) -> ProcessSession | Connecting | str:
        """Connect to a port of a simulated or else a real program; an error text on failure.

        Args:
            inside: whether to use the pod's loopback interface.
            source: the address that a real program sees.
        """
        session = self.connect(port, sink)
        if session is not None:
            return session
        if self.programs is None:
            return "Connection refused"
        programs = self.programs
        connection = (
            programs.connect_inside(port) if inside else programs.connect(port, source=source)
        )
        return Connecting(connection, sink)

    def connect_to(self, address: str, port: int, sink: Sink) -> ProcessSession | Connecting | str:
        """Connect to an address from inside the pod; return an error text on failure."""
        if address in _LOOPBACK_ADDRESSES or address == self.address:
            return self.open_connection(port, sink, inside=address != self.address)
        if self.external is None:
            return "Network is unreachable"
        return self.external.connect(address, port, sink, self.address)
