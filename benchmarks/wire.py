"""HTTP over TLS with little overhead of Python, to measure the server alone."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LIMIT = 16 * 1024 * 1024


class Server:
    """A server and the credentials for it.

    Args:
        url: its base URL.
        tls: the TLS context.
        token: a bearer token; empty to use the client certificate.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 443
        self.tls = tls
        self._head = f"Host: {parts.netloc}\r\n"
        if token:
            self._head += f"Authorization: Bearer {token}\r\n"

    @classmethod
    def of(cls, kubeconfig: Path) -> Server:
        """Return the server of a kubeconfig's first cluster and user."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
        if "client-certificate" in user or "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(_text(user, "client-certificate") + _text(user, "client-key"))
                file.flush()
                tls.load_cert_chain(file.name)
        return cls(cluster["server"], tls, user.get("token", ""))

    def request(self, method: str, path: str, body: object = None, media: str = "") -> bytes:
        """Return the bytes of a request."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = f"Content-Type: {media or 'application/json'}\r\nContent-Length: {len(data)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind if data else ''}\r\n"
        return head.encode() + data

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield an open connection."""
        reader, writer = await asyncio.open_connection(
            self.host, self.port, ssl=self.tls, limit=_LIMIT
        )
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()


class Connection:
    """One connection.

    Args:
        reader: the incoming stream.
        writer: the outgoing stream.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, request: bytes) -> Any:
        """Send a request and return the response's JSON."""
        self.writer.write(request)
        head = await self.head()
        if b"transfer-encoding: chunked" in head:
            body = b""
            while part := await self.chunk():
                body += part
        else:
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await self.reader.readexactly(length)
        assert head.startswith((b"http/1.1 200", b"http/1.1 201")), head + body
        return json.loads(body)

    async def head(self) -> bytes:
        """Return the head of a response, in lower case."""
        return (await self.reader.readuntil(b"\r\n\r\n")).lower()

    async def chunk(self) -> bytes:
        """Return the next chunk; empty for the last."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


class _Requester(asyncio.Protocol):
    """Repeats a request after each response."""

    def __init__(self, request: bytes) -> None:
        self.answers = 0
        self.request = request
        self._size = 0
        self._come = b""
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if not self._size:
            self._come += data
            head, found, _ = self._come.partition(b"\r\n\r\n")
            if not found:
                return
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            self._size = len(head) + 4 + int(length)  # all responses have this size
            self._count = len(self._come)
        else:
            self._count += len(data)
        if self._count >= self._size:
            self._count -= self._size
            self.answers += 1
            self.transport.write(self.request)


async def requests_per_second(
    server: Server, request: bytes, connections: int, seconds: float
) -> float:
    """Return the number of responses per second over so many connections."""
    loop = asyncio.get_running_loop()
    requesters = [_Requester(request) for _ in range(connections)]
    for requester in requesters:
        await loop.create_connection(
            lambda requester=requester: requester,  # type: ignore[misc] # bound now
            server.host,
            server.port,
            ssl=server.tls,
        )
    start, before = SYSTEM_CLOCK.monotonic(), sum(requester.answers for requester in requesters)
    over = asyncio.Event()
    loop.call_later(seconds, over.set)
    await over.wait()
    took, after = (
        SYSTEM_CLOCK.monotonic() - start,
        sum(requester.answers for requester in requesters),
    )
    for requester in requesters:
        requester.transport.abort()
    return (after - before) / took


def _text(section: dict[str, str], name: str) -> str:
    """Return a value of a kubeconfig, or the contents of the file it names."""
    data = section.get(f"{name}-data")
    if data is not None:
        return base64.b64decode(data).decode()
    return Path(section[name]).read_text()
