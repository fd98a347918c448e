"""HTTP over TLS as close to the socket as Python gets: what is measured is the server."""

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

__all__ = ["Server", "requests_per_second"]

_LIMIT = 16 * 1024 * 1024


class Server:
    """A server and who we are to it.

    Args:
        url: where it is.
        tls: how to speak to it.
        token: who we are, unless the certificate says so.
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
        """The server of a kubeconfig's first cluster and user."""
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
        """A request's bytes."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = f"Content-Type: {media or 'application/json'}\r\nContent-Length: {len(data)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind if data else ''}\r\n"
        return head.encode() + data

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """An open connection."""
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
        reader: what comes.
        writer: what goes.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, request: bytes) -> Any:
        """Send a request and return its answer's JSON."""
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
        """An answer's head, in small letters."""
        return (await self.reader.readuntil(b"\r\n\r\n")).lower()

    async def chunk(self) -> bytes:
        """The next chunk; empty for the last."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


class _Asker(asyncio.Protocol):
    """Asks the same again as soon as it is answered."""

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
            self._size = len(head) + 4 + int(length)  # all answers are of this size
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
    """How often `server` answers `request` over so many connections."""
    loop = asyncio.get_running_loop()
    askers = [_Asker(request) for _ in range(connections)]
    for asker in askers:
        await loop.create_connection(
            lambda asker=asker: asker,  # type: ignore[misc] # bound now
            server.host,
            server.port,
            ssl=server.tls,
        )
    start, before = SYSTEM_CLOCK.monotonic(), sum(asker.answers for asker in askers)
    over = asyncio.Event()
    loop.call_later(seconds, over.set)
    await over.wait()
    took, after = SYSTEM_CLOCK.monotonic() - start, sum(asker.answers for asker in askers)
    for asker in askers:
        asker.transport.abort()
    return (after - before) / took


def _text(section: dict[str, str], name: str) -> str:
    """What a kubeconfig holds, or names a file of."""
    data = section.get(f"{name}-data")
    if data is not None:
        return base64.b64decode(data).decode()
    return Path(section[name]).read_text()
