"""Forward local ports on the loopback address to pods."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from typing import TYPE_CHECKING

from pytest_kwait.client.deadlines import Cause
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.websocket import V4, ChannelWebSocket
from pytest_kwait.errors import ApiError
from pytest_kwait.wait import DeadlineExceeded
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from typing import Self

    from pytest_kwait.client.deadlines import Guard
    from pytest_kwait.client.transport import Transport
    from pytest_kwait.clock import Deadline

_LOOPBACK = "127.0.0.1"
_DATA, _ERROR = range(2)
_PIECE = 8192
_MOST_BUFFERED = 1 << 20
_LINGER = 1.0
# Maximum seconds of one `select` call, which the system limits to some weeks.
_LONGEST_SELECT = 3600.0
_log = logging.getLogger("pytest_kwait.client")


class PortForward:
    """A local port forwarded to a pod; a context manager that closes it.

    Each local connection opens one to the pod. If the pod refuses it, for example because no
    process listens on the port, the local connection is closed and the error is kept in `errors`.

    Args:
        transport: the transport of the server.
        namespace: the pod's namespace.
        pod: its name.
        remote_port: the port in the pod.
        local_port: the local port; 0 for any free one.
        deadline: when everything is closed.

    Raises:
        OSError: the local port is taken.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        pod: str,
        remote_port: int,
        *,
        local_port: int = 0,
        deadline: Deadline,
    ) -> None:
        self.errors: list[str] = []
        self._transport = transport
        self._path = PODS.path(namespace, pod, "portforward")
        self._remote_port = remote_port
        self._deadline = deadline
        self._lock = threading.Lock()
        self._guards: set[Guard] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._listener = socket.create_server((_LOOPBACK, local_port))
        self.port: int = self._listener.getsockname()[1]
        # Closing a listening socket wakes no thread; a byte on this pair does.
        self._wake, self._woken = socket.socketpair()
        self._acceptor = Worker(f"kwait-forward-{self.port}", self._accept)
        self._acceptor.start()

    @property
    def local_port(self) -> int:
        """The local port, also as `port`."""
        return self.port

    @property
    def address(self) -> tuple[str, int]:
        """The local address, for `socket.create_connection`."""
        return _LOOPBACK, self.port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and close all connections; idempotent and callable from any thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            guards, threads = list(self._guards), list(self._threads)
        self._wake.send(b"x")
        for guard in guards:
            guard.cut(Cause.CLOSED)
        self._acceptor.join()
        for thread in threads:
            thread.join()
        self._wake.close()
        self._woken.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._closed and not self._deadline.expired:
                remaining = min(self._deadline.remaining, _LONGEST_SELECT)
                ready = {key.fileobj for key, _ in selector.select(remaining)}
                if self._listener in ready:
                    self._begin(self._listener.accept()[0])

    def _begin(self, local: socket.socket) -> None:
        try:
            guard = self._transport.guard("GET", self._path, self._deadline)
        except DeadlineExceeded:
            local.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(local, guard), name="kwait-forwarded", daemon=True
        )
        with self._lock:
            self._guards.add(guard)
            self._threads.add(thread)
            closed = self._closed
        if closed:
            guard.cut(Cause.CLOSED)
        thread.start()

    def _serve(self, local: socket.socket, guard: Guard) -> None:
        with local:
            try:
                query = {"ports": self._remote_port}
                channels = ChannelWebSocket(self._transport, self._path, query, (V4,), guard)
                try:
                    _Pump(local, channels).run()
                finally:
                    channels.close()
            except (ApiError, DeadlineExceeded, OSError) as error:
                # An OSError comes from the local side, which reset its connection. The error is
                # stored before the local connection is closed, for clients that read it then.
                if guard.cause is not Cause.CLOSED:
                    self.errors.append(str(error))
                    _log.info("port %d of %s: %s", self._remote_port, self._path, error)
            finally:
                guard.release()
                with self._lock:
                    self._guards.discard(guard)
                    self._threads.discard(threading.current_thread())


def probe_port(
    transport: Transport, namespace: str, pod: str, port: int, *, quiet: float, deadline: Deadline
) -> str:
    """Return why a port of a pod takes no TCP connection; empty if it does.

    The kubelet reports that a connection was refused, but not that it was made: one that is neither
    refused nor ended counts as made once it has been open for a while.

    Args:
        transport: the transport of the server.
        namespace: the pod's namespace.
        pod: its name.
        port: the port in the pod.
        quiet: the seconds that a connection without data must stay open.
        deadline: when the probe ends.

    Raises:
        ApiError: the server refuses, or the connection to it broke.
        DeadlineExceeded: the deadline has passed.
    """
    path = PODS.path(namespace, pod, "portforward")
    guard = transport.guard("GET", path, deadline)
    try:
        channels = ChannelWebSocket(transport, path, {"ports": port}, (V4,), guard)
        try:
            return _read_refusal(channels, quiet)
        finally:
            channels.close()
    finally:
        guard.release()


def _read_refusal(channels: ChannelWebSocket, quiet: float) -> str:
    greeted: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(channels.fileno(), selectors.EVENT_READ)
        while True:
            # The kubelet connects once it has repeated the port on both channels.
            is_over = len(greeted) == 2 and not channels.pending and not selector.select(quiet)
            message = None if is_over else channels.receive()
            if message is None:
                return "" if len(greeted) == 2 else "the connection ended before it was made"
            channel, data = message
            if channel in greeted:
                return data.decode(errors="replace").strip() if channel == _ERROR else ""
            greeted.add(channel)


class _Pump:
    """Moves bytes between a local connection and the two channels of a forwarded port.

    It runs on one thread and uses each side only when it is ready: a slow reader on one side must
    not block the other.
    """

    def __init__(self, local: socket.socket, channels: ChannelWebSocket) -> None:
        self._local = local
        self._channels = channels
        self._incoming = bytearray()
        self._outgoing = b""
        self._greeted: set[int] = set()
        self._sending = True
        self._receiving = True

    def run(self) -> None:
        """Move bytes until the pod's end is reached and everything from it is delivered.

        Raises:
            ApiError: the pod refused the connection, or the connection to it broke.
            DeadlineExceeded: the deadline has passed.
        """
        self._local.setblocking(False)
        with selectors.DefaultSelector() as selector:
            while self._receiving or self._incoming:
                if not self._step(selector):
                    return

    def _step(self, selector: selectors.BaseSelector) -> bool:
        remote, local = self._channels.fileno(), self._local.fileno()
        reading = self._receiving and len(self._incoming) < _MOST_BUFFERED
        pending = reading and self._channels.pending
        _register(selector, remote, read=reading, write=bool(self._outgoing))
        _register(
            selector,
            local,
            read=self._sending and not self._outgoing,
            write=bool(self._incoming),
        )
        # The protocol cannot signal the end of the input to the pod. The local side may be gone, or
        # may be waiting for the answer: continue as long as data arrives.
        timeout = 0.0 if pending else None if self._sending else _LINGER
        ready = {key.fd: events for key, events in selector.select(timeout)}
        if pending or (reading and ready.get(remote, 0) & selectors.EVENT_READ):
            self._receive()
        elif not ready:
            return False
        if self._outgoing and ready.get(remote, 0) & selectors.EVENT_WRITE:
            self._channels.send(_DATA, self._outgoing)
            self._outgoing = b""
        if self._incoming and ready.get(local, 0) & selectors.EVENT_WRITE:
            del self._incoming[: self._local.send(self._incoming)]
        if ready.get(local, 0) & selectors.EVENT_READ and not self._outgoing:
            self._outgoing = self._local.recv(_PIECE)
            self._sending = bool(self._outgoing)
        return True

    def _receive(self) -> None:
        message = self._channels.receive()
        if message is None:
            self._receiving = False
            return
        channel, data = message
        if channel not in self._greeted:
            # The first message of each channel repeats the port.
            self._greeted.add(channel)
        elif channel == _ERROR:
            raise self._channels.refusal(data)
        else:
            self._incoming += data


def _register(
    selector: selectors.BaseSelector, descriptor: int, *, read: bool, write: bool
) -> None:
    events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
    known = descriptor in selector.get_map()
    if events and known:
        selector.modify(descriptor, events)
    elif events:
        selector.register(descriptor, events)
    elif known:
        selector.unregister(descriptor)
