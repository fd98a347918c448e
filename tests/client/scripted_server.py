"""A loopback server that answers each request as its test says, byte by byte if need be."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import ApiClient, Configuration

if TYPE_CHECKING:
    import ssl
    from typing import Self

Handler = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request, and the connection to answer it on."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    _socket: socket.socket = field(repr=False)
    _over: threading.Event = field(repr=False)
    upgraded: bool = False
    header_pairs: list[tuple[str, str]] = field(default_factory=list)
    """The headers as they came, of which names may be repeated."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the client has gone")
            data += piece
        return data

    def pause(self, seconds: float) -> None:
        """Say nothing for a while."""
        self._over.wait(seconds)

    def trickle(self, data: bytes) -> None:
        """Send a byte every 10 ms, until the client has gone."""
        for byte in data:
            if self._over.wait(0.01):
                return
            self.send(bytes([byte]))

    def relay(self, onward: socket.socket) -> None:
        """Pass everything that still comes from the client on, as a proxy does."""
        with contextlib.suppress(OSError):
            while data := self._socket.recv(65536):
                onward.sendall(data)
            onward.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Say nothing until the client has gone or the test is over."""
        self._socket.settimeout(None)
        self._socket.recv(1)

    def close(self) -> None:
        raise ConnectionError("as the script says")

    def answer(
        self,
        body: object = b"",
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def stream(self, *lines: object, end: bool = True) -> None:
        """Send chunks, each a line of JSON unless it is bytes; then the last chunk."""
        self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in lines:
            self.chunk(line if isinstance(line, bytes) else encoded(line))
        if end:
            self.send(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def upgrade(self, protocol: str | None = "v5.channel.k8s.io") -> None:
        """Switch to a WebSocket; the connection ends with the handler."""
        self.upgraded = True
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        lines = ["HTTP/1.1 101 Switching", "Upgrade: websocket", "Connection: Upgrade"]
        lines.append(f"Sec-WebSocket-Accept: {accept}")
        if protocol:
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    def send_message(self, channel: int, data: bytes) -> None:
        payload = bytes([channel]) + data
        size = len(payload)
        head = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
        self.send(b"\x82" + head + payload)

    def send_close(self) -> None:
        self.send(b"\x88\x02\x03\xe8")

    def receive_message(self) -> bytes:
        _, length = self.receive(2)
        size = length & 0x7F
        if size == 126:
            size = int.from_bytes(self.receive(2), "big")
        mask = self.receive(4)
        return bytes(b ^ mask[i % 4] for i, b in enumerate(self.receive(size)))


class ScriptedServer:
    """Answers the first request with the first handler, and so on; the last one stays.

    Args:
        handlers: what to do with each request.
        tls: speak TLS with this certificate.
    """

    def __init__(self, *handlers: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Exchange] = []
        self.connections = 0
        self._handlers = list(handlers)
        self._tls = tls
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def client(self, **settings: Any) -> ApiClient:
        """Return an official client of this server; `settings` are its configuration's."""
        configuration = Configuration()
        configuration.host = self.address
        configuration.proxy = None
        for name, value in settings.items():
            setattr(configuration, name, value)
        return ApiClient(configuration)

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets, threads = list(self._sockets), list(self._threads)
        for connected in sockets:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connected = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._sockets.append(connected)
            self._spawn(self._serve, connected, self.connections)

    def _serve(self, connected: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connected)
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
                stack.enter_context(connected)
                with self._lock:
                    self._sockets.append(connected)
            stream = stack.enter_context(connected.makefile("rb", 0))
            while head := stream.readline():
                method, target, _ = head.decode().split()
                pairs = []
                while (line := stream.readline().decode().strip()) != "":
                    name, _, value = line.partition(":")
                    pairs.append((name.lower(), value.strip()))
                headers = dict(pairs)
                body = stream.read(int(headers.get("content-length", 0)))
                exchange = Exchange(
                    method, target, headers, body or b"", number, connected, self._over
                )
                exchange.header_pairs = pairs
                with self._lock:
                    self.requests.append(exchange)
                    handler = self._handlers[min(len(self.requests), len(self._handlers)) - 1]
                handler(exchange)
                if exchange.upgraded:
                    return


def trickle_body(exchange: Exchange) -> None:
    """Answer with a body that does not end in time."""
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    exchange.trickle(b" " * 60_000)


def encoded(value: object) -> bytes:
    """Return a value as Go would write it on a line: JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def answer(body: object = b"", status: int = 200, **headers: str) -> Handler:
    """Return a handler that gives one answer; `Retry_After` is the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.answer(body, status, named)


def stream(*lines: object, end: bool = True) -> Handler:
    """Return a handler that streams lines and ends the answer, or holds it open."""

    def handle(exchange: Exchange) -> None:
        exchange.stream(*lines, end=end)
        if not end:
            exchange.hold()

    return handle
