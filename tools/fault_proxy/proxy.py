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

    from tools.fault_proxy.exchange import Upstream, UpstreamResponse
    from tools.fault_proxy.faults import Fault

__all__ = ["Proxy"]

_BROKEN = (OSError, asyncio.IncompleteReadError, ValueError)
_PATIENCE = 10.0


class _Strike:
    """A fault at work on the requests of one proxy.

    Args:
        fault: what happens.
        left: how many requests it still meets; None for all.
    """

    def __init__(self, fault: Fault, left: int | None) -> None:
        self.fault = fault
        self.left = left

    def takes(self, request: Request) -> bool:
        """Say whether it meets this request, and count that."""
        if self.left == 0 or not self.fault.applies_to(request):
            return False
        if self.left is not None:
            self.left -= 1
        return True


class Proxy:
    """Passes requests on to an API server, each on its own, unless a fault is at work.

    Everything runs in the event loop of one thread; the public methods belong to others.

    Args:
        upstream: the API server.
        tls: what the proxy shows to its clients.
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
        self._strike: _Strike | None = None
        self._streams: dict[Exchange, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], socket.socket] = {}
        self._listening: socket.socket | None = None
        # Bound and never listening: keeps the port ours while nobody answers on it.
        self._keeper = _bound(0)
        self.port: int = self._keeper.getsockname()[1]

    @property
    def address(self) -> str:
        """The URL of the proxy."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """What has come since the last `forget`, whatever became of it."""
        with self._lock:
            return list(self._requests)

    @property
    def watches(self) -> int:
        """How many watches are open now."""
        with self._lock:
            return len(self._streams)

    def forget(self) -> None:
        """Count anew."""
        with self._lock:
            self._requests.clear()
            self._answered = self._opened = 0
            self._watched.clear()

    def wait_until_watched(self, streams: int, *, ever: bool = False) -> None:
        """Return once so many watches are open, or have `ever` been since the last `forget`.

        Where silence counts as dead soon, a slow machine may never have them all open at once: of
        different collections they suffice one after the other.
        """

        def opened() -> bool:
            if ever:
                return self._opened >= streams
            return max(len(self._streams), len(self._watched)) >= streams

        self._wait(opened, f"{streams} open watches")

    def wait_until_asked(self, requests: int) -> None:
        """Return once so many requests have come."""
        self._wait(lambda: len(self._requests) >= requests, f"{requests} requests")

    def wait_until_answered(self, requests: int) -> None:
        """Return once so many requests have had their right answers."""
        self._wait(lambda: self._answered >= requests, f"{requests} answers")

    def strike(self, fault: Fault, requests: int | None) -> None:
        """Let a fault meet the open watches, and what comes from now on.

        Args:
            fault: what happens.
            requests: how many requests it meets; None for all. A door stays as it is until
                `heal`.
        """
        self._do(self._begin(fault, requests))

    def heal(self) -> None:
        """Do no more harm, other than to what was struck already."""
        self._do(self._end())

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen(ConnectionBehavior.ACCEPT))
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop_listening())
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
        self._strike = _Strike(fault, requests)
        for relay in list(self._streams.values()):
            relay.cancel()
        if fault.door is not ConnectionBehavior.ACCEPT:
            await self._stop_listening()
            await self._listen(fault.door)

    async def _end(self) -> None:
        strike, self._strike = self._strike, None
        if strike is not None and strike.fault.door is not ConnectionBehavior.ACCEPT:
            await self._stop_listening()
            await self._listen(ConnectionBehavior.ACCEPT)

    async def _listen(self, door: ConnectionBehavior) -> None:
        if door is ConnectionBehavior.REFUSE:
            return
        listening = self._listening = _bound(self.port)
        listening.setblocking(False)
        listening.listen(100)
        self._loop.add_reader(listening, self._accept, listening, door)

    def _accept(self, listening: socket.socket, door: ConnectionBehavior) -> None:
        # By hand: both an asyncio.Server and `sock_accept` that are ended just now lose, unclosed,
        # what they have accepted.
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.setblocking(False)
        serve = self._serve if door is ConnectionBehavior.ACCEPT else self._slam
        task = asyncio.ensure_future(serve(connection), loop=self._loop)
        self._tasks[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # Of a task that was cancelled before it began nobody else closes it.
        self._tasks.pop(task).close()

    async def _slam(self, connection: socket.socket) -> None:
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

    async def _serve(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls
            )
        except OSError:
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            while request := await read_request(reader):
                self._note(request)
                exchange = Exchange(request, writer, self._upstream)
                try:
                    await self._while_listening(reader, self._answer(exchange))
                finally:
                    exchange.leave()
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
        """Run `work` until it is done or the client has gone."""
        answering = asyncio.ensure_future(work)
        # A client says nothing before it has its answer, so whatever comes is the end.
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
        strike = self._strike
        if strike is not None and strike.takes(exchange.request):
            await strike.fault.answers(exchange)
            return
        answer = await exchange.ask()
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
        elif self._strike is not None:
            await self._strike.fault.breaks(exchange)


async def _relay(answer: UpstreamResponse, exchange: Exchange) -> None:
    """Pass the events of a watch on, line by line."""
    begun = b""
    async for piece in answer.pieces():
        *lines, begun = (begun + piece).split(b"\n")
        if lines:
            await exchange.chunk(b"\n".join(lines) + b"\n")


def _bound(port: int) -> socket.socket:
    # asyncio turns Nagle's delays off only for what says that it is TCP.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
