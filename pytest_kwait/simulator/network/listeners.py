"""Listeners: addresses and ports of the cluster whose traffic goes on to another place.

A listener accepts connections or datagrams and asks a backend where they go. The service proxy,
the host ports of pods and load balancers are backends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar, cast

from pytest_kwait.simulator.network.loopback_blocks import is_loopback
from pytest_kwait.simulator.network.relay import SocketEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.network.relay import PodSockets

_log = logging.getLogger(__name__)

# Seconds until an idle flow of datagrams is forgotten; source: conntrack's time for one that has
# seen answers, nf_conntrack_udp_timeout_stream.
_FLOW_SECONDS = 120.0
_MAX_QUEUED_DATAGRAMS = 64
LOOPBACK = "127.0.0.1"
"""The loopback address of the machine, and of pods with `hostNetwork`."""


class ListenerKey(Protocol):
    """What a listener serves."""

    @property
    def address(self) -> str:
        """The address."""

    @property
    def port(self) -> int:
        """The port."""

    @property
    def protocol(self) -> str:
        """`TCP` or `UDP`."""

    @property
    def is_external(self) -> bool:
        """Whether the address must be added to the network first."""


_Key = TypeVar("_Key", bound=ListenerKey)
_ContraKey = TypeVar("_ContraKey", bound=ListenerKey, contravariant=True)


class Backend(Protocol[_ContraKey]):
    """Knows where the traffic of listeners goes."""

    @property
    def sockets(self) -> PodSockets:
        """The sockets of the pods' network."""

    def describe(self, key: _ContraKey) -> str:
        """Return the name of what a listener serves, for messages."""

    def choose_endpoint(self, key: _ContraKey, client: str) -> tuple[str, int] | None:
        """Return the address and port for a client; None without one."""

    async def connect(self, key: _ContraKey, client: str, end: SocketEnd) -> bool:
        """Join a client's connection with one to an endpoint; False if there is none."""


def open_listener(
    backend: Backend[_Key], key: _Key, bound: socket.socket | None = None
) -> Listener[_Key]:
    """Return a listener, which serves from the time its socket is made.

    Args:
        bound: a socket that has been made for it; None to make one.
    """
    kind = _UdpListener if key.protocol == "UDP" else _TcpListener
    return kind(backend, key, bound)


def bind_on_machine(address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
    """Return a socket of the machine's loopback interface that does not block; a TCP one listens.

    Raises:
        OSError: the port is taken, perhaps by another cluster, or only privileged programs may use
            it.
    """
    bound = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    )
    try:
        bound.setblocking(False)
        if kind == "tcp":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
        if kind == "tcp":
            bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


class Listener(ABC, Generic[_Key]):
    """One address and port.

    Args:
        backend: knows where the traffic goes.
        key: what is served.
        bound: a socket that has been made for it; None to make one.
    """

    kind: Literal["tcp", "udp"]

    def __init__(
        self, backend: Backend[_Key], key: _Key, bound: socket.socket | None = None
    ) -> None:
        self._backend = backend
        self._key = key
        self._is_closed = False
        self._bound = bound
        self._task = asyncio.ensure_future(self._open() if bound is None else self._serve_bound())

    async def _open(self) -> None:
        key, sockets = self._key, self._backend.sockets
        try:
            if key.address == LOOPBACK:
                bound = bind_on_machine(LOOPBACK, key.port, self.kind)
            else:
                if key.is_external:
                    if is_loopback(key.address) and not await sockets.is_isolated():
                        return  # the load balancer itself listens there
                    await sockets.add_address(key.address)
                bound = await sockets.listen(key.address, key.port, self.kind)
        except OSError as error:
            _log.warning(
                "%s cannot be reached at %s:%d: %s",
                self._backend.describe(key), key.address, key.port, error,
            )  # fmt: skip
        else:
            await self._serve_or_close(bound)
        if key.address == LOOPBACK:
            await self._open_for_nodes()

    async def _open_for_nodes(self) -> None:
        """Serve the loopback interface of pods with `hostNetwork`, unless one of them does."""
        try:
            bound = await self._backend.sockets.listen(LOOPBACK, self._key.port, self.kind)
        except OSError as error:
            _log.debug("%s on nodes: %s", self._backend.describe(self._key), error)
        else:
            await self._serve_or_close(bound)

    async def _serve_bound(self) -> None:
        """Serve the socket that was given, unless this was closed before."""
        bound, self._bound = self._bound, None
        if bound is not None:
            await self._serve_or_close(bound)

    async def _serve_or_close(self, bound: socket.socket) -> None:
        await self._serve(bound)
        # It may have been closed before the socket was there.
        if self._is_closed:
            self.close()

    @abstractmethod
    async def _serve(self, bound: socket.socket) -> None:
        """Serve a bound socket."""

    def close(self) -> None:
        """Stop serving; connections that exist go on."""
        self._is_closed = True
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.close()


class _TcpListener(Listener[_Key]):
    """Relays connections."""

    kind = "tcp"

    def __init__(
        self, backend: Backend[_Key], key: _Key, bound: socket.socket | None = None
    ) -> None:
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__(backend, key, bound)

    async def _serve(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: SocketEnd(on_connected=self._on_connected), sock=bound
        )
        self._servers.append(server)

    def _on_connected(self, end: SocketEnd, client: str) -> None:
        task = asyncio.ensure_future(self._connect(end, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, end: SocketEnd, client: str) -> None:
        if not await self._backend.connect(self._key, client, end):
            end.reset()

    def close(self) -> None:
        super().close()
        for server in self._servers:
            server.close()


class _UdpListener(Listener[_Key]):
    """Relays datagrams: one flow for each address and port of a client."""

    kind = "udp"

    def __init__(
        self, backend: Backend[_Key], key: _Key, bound: socket.socket | None = None
    ) -> None:
        self._sockets: list[_Datagrams] = []
        super().__init__(backend, key, bound)

    async def _serve(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        _, datagrams = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._choose_endpoint, lambda: self._backend.sockets), sock=bound
        )
        self._sockets.append(datagrams)

    def _choose_endpoint(self, client: str) -> tuple[str, int] | None:
        return self._backend.choose_endpoint(self._key, client)

    def close(self) -> None:
        super().close()
        for datagrams in self._sockets:
            datagrams.close()


class _Datagrams(asyncio.DatagramProtocol):
    """The flows of one socket.

    Args:
        choose_endpoint: returns the address and port for a client; None without one.
        get_sockets: returns what makes sockets to endpoints.
    """

    _transport: asyncio.DatagramTransport | None = None

    def __init__(
        self,
        choose_endpoint: Callable[[str], tuple[str, int] | None],
        get_sockets: Callable[[], PodSockets],
    ) -> None:
        self._choose_endpoint = choose_endpoint
        self._get_sockets = get_sockets
        self._flows: dict[tuple[str, int], _Flow] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Send a datagram on."""
        flow = self._flows.get(addr)
        if flow is None:
            target = self._choose_endpoint(addr[0])
            if target is None or self._transport is None:
                return
            flow = _Flow(self._get_sockets(), target, self._transport, addr, self._flows)
            self._flows[addr] = flow
        flow.send(data)

    def close(self) -> None:
        """End all flows."""
        if self._transport is not None:
            self._transport.close()
        for flow in tuple(self._flows.values()):
            flow.close()


class _Flow(asyncio.DatagramProtocol):
    """The datagrams of one client to one endpoint, and the answers.

    Args:
        sockets: makes the socket.
        target: the endpoint.
        back: sends answers.
        client: where they go.
        flows: all flows of the listener by client; this one removes itself.
    """

    def __init__(
        self,
        sockets: PodSockets,
        target: tuple[str, int],
        back: asyncio.DatagramTransport,
        client: tuple[str, int],
        flows: dict[tuple[str, int], _Flow],
    ) -> None:
        self._back = back
        self._client = client
        self._flows = flows
        self._queued: list[bytes] = []
        self._transport: asyncio.DatagramTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_FLOW_SECONDS, self.close)
        self._task = asyncio.ensure_future(self._open(sockets, target))

    async def _open(self, sockets: PodSockets, target: tuple[str, int]) -> None:
        made = await sockets.connect_socket("udp")
        try:
            made.connect(target)
            self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, sock=made)
        except OSError as error:
            _log.debug("%s:%d: %s", *target, error)
            made.close()
            self.close()
            return
        if self._flows.get(self._client) is not self:
            self._transport.close()
        queued, self._queued = self._queued, []
        for data in queued:
            self._transport.sendto(data)

    def send(self, data: bytes) -> None:
        """Send a datagram to the endpoint."""
        self._touch()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._queued) < _MAX_QUEUED_DATAGRAMS:
            self._queued.append(data)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Send an answer back."""
        del addr
        self._touch()
        if not self._back.is_closing():
            self._back.sendto(data, self._client)

    def error_received(self, exc: Exception) -> None:
        """Forget the flow: the endpoint refuses datagrams, so that the next one finds another."""
        del exc
        self.close()

    def _touch(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(_FLOW_SECONDS, self.close)

    def close(self) -> None:
        self._timer.cancel()
        if self._flows.get(self._client) is self:
            del self._flows[self._client]
        if self._transport is not None:
            self._transport.close()
