"""A TLS proxy on loopback that counts requests and injects faults."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK
from tools.fault_proxy.exchange import Exchange, Request, read_request
from tools.fault_proxy.faults import ConnectionBehavior

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine
    from typing import Any, Self

    from tools.fault_proxy.exchange import Connection, Upstream, UpstreamResponse
    from tools.fault_proxy.faults import Fault

_BROKEN = (OSError, EOFError, ValueError)
_PATIENCE = 10.0


class _ActiveFault:
    """A fault and the number of requests it still applies to.

    Args:
        fault: what happens.
        remaining: the number of requests it still applies to; None for all.
    """

    def __init__(self, fault: Fault, remaining: int | None) -> None:
        self.fault = fault
        self.remaining = remaining

    def consume(self, request: Request) -> bool:
        """Return whether it applies to this request, and count the request."""
        if self.remaining == 0 or not self.fault.applies_to(request):
            return False
        if self.remaining is not None:
            self.remaining -= 1
        return True


class _Protocol(asyncio.StreamReaderProtocol):
    """The protocol of a stream, with its transport once the handshake is over."""

    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        super().connection_made(transport)


class Proxy:
    """Forwards requests to an API server, each on its own connection, unless a fault is active.

    Everything runs in the event loop of one thread; public methods are for other threads.

    Args:
        upstream: the API server.
        tls: the context for the proxy's clients.
    """

    def __init__(self, upstream: Upstream, tls: ssl.SSLContext) -> None:
        self._upstream = upstream
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="faults-proxy", daemon=True)
        self._lock = threading.Condition()
        self._requests: list[Request] = []
        self._answered = 0
        self._opened = 0
        self._watched: set[str] = set()
        self._active_fault: _ActiveFault | None = None
        self._streams: dict[Exchange, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], socket.socket] = {}
        self._idle: list[Connection] = []
        self._listening: socket.socket | None = None
        # Bound but not listening: reserves the port and refuses connections.
        self._keeper = _bound(0)
        self.port: int = self._keeper.getsockname()[1]

    @property
    def address(self) -> str:
        """The URL of the proxy."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """The requests since the last `reset_counts`."""
        with self._lock:
            return list(self._requests)

    @property
    def watches(self) -> int:
        """The number of open watches."""
        with self._lock:
            return len(self._streams)

    def reset_counts(self) -> None:
        """Reset all counts."""
        with self._lock:
            self._requests.clear()
            self._answered = self._opened = 0
            self._watched.clear()

    def wait_until_watched(self, streams: int, *, ever: bool = False) -> None:
        """Return once so many watches are open, or have `ever` been since the last `reset_counts`.

        With a short inactivity timeout a slow machine may never have all of them open at once;
        `ever` counts watches of different collections one after the other.
        """

        def opened() -> bool:
            if ever:
                return self._opened >= streams
            return max(len(self._streams), len(self._watched)) >= streams

        self._wait(opened, f"{streams} open watches")

    def wait_until_received(self, requests: int) -> None:
        """Return once so many requests have arrived."""
        self._wait(lambda: len(self._requests) >= requests, f"{requests} requests")

    def wait_until_answered(self, requests: int) -> None:
        """Return once so many requests have got the API server's response."""
        self._wait(lambda: self._answered >= requests, f"{requests} answers")

    def inject(self, fault: Fault, requests: int | None) -> None:
        """Apply a fault to open watches and further requests.

        Args:
            fault: the fault.
            requests: the number of requests it applies to; None for all. The treatment of new
                connections lasts until `end_fault`.
        """
        self._do(self._begin(fault, requests))

    def end_fault(self) -> None:
        """End the fault; requests it was applied to stay failed."""
        self._do(self._end())

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen(ConnectionBehavior.ACCEPT))
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop_listening())
        self._do(self._close_idle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._keeper.close()
        assert not self._thread.is_alive()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        with self._lock:
            if not self._lock.wait_for(done, _PATIENCE):
                seen = [request.label for request in self._requests]
                raise AssertionError(f"the proxy waits for {what}; it has seen {seen}")

    async def _begin(self, fault: Fault, requests: int | None) -> None:
        self._active_fault = _ActiveFault(fault, requests)
        for relay in list(self._streams.values()):
            relay.cancel()
        if fault.connections is not ConnectionBehavior.ACCEPT:
            await self._stop_listening()
            await self._listen(fault.connections)

    async def _end(self) -> None:
        active, self._active_fault = self._active_fault, None
        if active is not None and active.fault.connections is not ConnectionBehavior.ACCEPT:
            await self._stop_listening()
            await self._listen(ConnectionBehavior.ACCEPT)

    async def _listen(self, connections: ConnectionBehavior) -> None:
        if connections is ConnectionBehavior.REFUSE:
            return
        listening = self._listening = _bound(self.port)
        listening.setblocking(False)
        listening.listen(100)
        self._loop.add_reader(listening, self._accept, listening, connections)

    def _accept(self, listening: socket.socket, connections: ConnectionBehavior) -> None:
        # Not `asyncio.Server` or `sock_accept`: when ended, they leak connections just accepted.
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.setblocking(False)
        serve = self._serve if connections is ConnectionBehavior.ACCEPT else self._close_connection
        task = asyncio.ensure_future(serve(connection), loop=self._loop)
        self._tasks[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A task that was cancelled before it began does not close it.
        self._tasks.pop(task).close()

    async def _close_connection(self, connection: socket.socket) -> None:
        self._note(Request("knock", "/", {}, b"", SYSTEM_CLOCK.monotonic()))
        await self._loop.sock_recv(connection, 65536)

    async def _stop_listening(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            self._loop.remove_reader(listening)
            listening.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close_idle(self) -> None:
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    async def _serve(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = _Protocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls
            )
        except OSError:
            return
        except asyncio.CancelledError:
            # asyncio would wait for the client's end of TLS, on a socket that is closed by then.
            if protocol.transport is not None:
                protocol.transport.abort()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            while request := await read_request(reader):
                self._note(request)
                exchange = Exchange(request, writer, self._upstream, self._idle)
                try:
                    await self._while_listening(reader, self._answer(exchange))
                finally:
                    exchange.close_upstream()
        except _BROKEN:
            return
        finally:
            writer.transport.abort()

    def _note(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)
            self._lock.notify_all()

    async def _while_listening(
        self, reader: asyncio.StreamReader, work: Coroutine[Any, Any, None]
    ) -> None:
        """Run `work` until it is done or the client disconnects."""
        answering = asyncio.ensure_future(work)
        # A client sends nothing before it has its response, so any data or EOF ends the work.
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ConnectionResetError("the client has gone")
            await answering
        finally:
            for task in (answering, gone):
                task.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)

    async def _answer(self, exchange: Exchange) -> None:
        active = self._active_fault
        if active is not None and active.consume(exchange.request):
            await active.fault.answers(exchange)
            return
        answer = await exchange.forward()
        if not exchange.request.is_watch or answer.status != "200 OK":
            body = await answer.body()
            kept = ("content-type", "retry-after", "warning")
            headers = {name: answer.headers[name] for name in kept if name in answer.headers}
            await exchange.answer(answer.status, body, headers)
            with self._lock:
                self._answered += 1
                self._lock.notify_all()
            return
        await exchange.begin_stream()
        relay = asyncio.ensure_future(_relay(answer, exchange))
        with self._lock:
            self._streams[exchange] = relay
            self._opened += 1
            self._watched.add(exchange.request.label)
            self._lock.notify_all()
        try:
            await asyncio.wait({relay})
        finally:
            relay.cancel()
            with self._lock:
                del self._streams[exchange]
        if not relay.cancelled():
            await relay
            await exchange.end_stream()
        elif self._active_fault is not None:
            await self._active_fault.fault.breaks(exchange)


async def _relay(answer: UpstreamResponse, exchange: Exchange) -> None:
    """Forward the events of a watch, line by line."""
    begun = b""
    async for piece in answer.pieces():
        *lines, begun = (begun + piece).split(b"\n")
        if lines:
            await exchange.chunk(b"\n".join(lines) + b"\n")


def _bound(port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets that declare TCP.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
