"""A proxied request to the API server and its response."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from kubernetes.client import ApiClient


@dataclass(frozen=True)
class Upstream:
    """An API server and the credentials for it.

    Args:
        host: its host.
        port: its port.
        tls: trusts it, and has the user's certificate; None for plain HTTP.
        user: the user of a kubeconfig: certificate and token, as far as there are any.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    user: dict[str, str]

    @classmethod
    def of(cls, client: ApiClient) -> Upstream:
        """Return the API server of a client."""
        settings = client.configuration
        address = urlsplit(settings.host)
        user: dict[str, str] = {}
        tls = None
        if address.scheme == "https":
            tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
            if settings.cert_file:
                tls.load_cert_chain(settings.cert_file, settings.key_file)
                user |= {
                    "client-certificate": settings.cert_file,
                    "client-key": settings.key_file,
                }
        for setting in settings.auth_settings().values():
            if setting["key"] == "authorization":
                user["token"] = setting["value"].removeprefix("Bearer ")
        return cls(str(address.hostname), address.port or 443, tls, user)

    def kubeconfig(self, file: Path, address: str, authority: bytes) -> Path:
        """Write a kubeconfig of the same user for another address.

        The proxy presents the user's certificate upstream, since TLS ends there.

        Args:
            file: the file to write.
            address: the URL of the other server.
            authority: its certificate authority, as PEM.
        """
        cluster = {
            "server": address,
            "certificate-authority-data": base64.b64encode(authority).decode(),
        }
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "same", "user": self.user}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "same"}}],
            "current-context": "proxy",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(content))  # JSON is YAML
        return file


_PATH = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<rest>.+))?)?"
)


@dataclass(frozen=True)
class Request:
    """A request as received.

    Args:
        method: the HTTP method.
        target: path and query.
        headers: by name in lower case.
        body: the raw body.
        at: the time of arrival in monotonic seconds.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @cached_property
    def is_watch(self) -> bool:
        """Return whether it is a watch."""
        values = parse_qs(urlsplit(self.target).query).get("watch", ["0"])
        return values[0] in {"1", "true"}

    @property
    def label(self) -> str:
        """Verb and resource: `list pods`, `watch jobs`, `get nodes/proxy/pods`."""
        found = _PATH.fullmatch(urlsplit(self.target).path)
        if found is None:
            return f"{self.method.lower()} {urlsplit(self.target).path}"
        verb = self.method.lower()
        if verb == "get" and found["name"] is None:
            verb = "watch" if self.is_watch else "list"
        return f"{verb} {found['resource']}{'/' + found['rest'] if found['rest'] else ''}"


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""An open connection to the API server."""


@dataclass(frozen=True)
class UpstreamResponse:
    """The API server's response; the body of a watch is still to be read."""

    status: str
    headers: Mapping[str, str]
    _reader: asyncio.StreamReader
    _keep: Callable[[], None] = lambda: None

    async def body(self) -> bytes:
        """Return the whole body."""
        body = b"".join([piece async for piece in self.pieces()])
        # Without a length the end of the connection is that of the body.
        has_end = {"content-length", "transfer-encoding"} & self.headers.keys()
        if has_end and self.headers.get("connection", "").lower() != "close":
            self._keep()
        return body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        if "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
        elif self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self._reader.readline(), 16):
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            await self._reader.readline()
        else:
            while data := await self._reader.read(65536):
                yield data


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request of a connection, None at its end."""
    first = (await reader.readline()).decode().split()
    if not first:
        return None
    at = SYSTEM_CLOCK.monotonic()
    headers = await _headers(reader)
    length = int(headers.get("content-length", 0))
    body = await reader.readexactly(length) if length else b""
    return Request(first[0], first[1], headers, body, at)


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


class Exchange:
    """A request and its connection, to answer correctly or with a fault.

    Args:
        request: the request.
        writer: the connection to the client.
        upstream: gives the correct response.
        idle: open connections to the API server, for reads; None opens one for each request.
    """

    def __init__(
        self,
        request: Request,
        writer: asyncio.StreamWriter,
        upstream: Upstream,
        idle: list[Connection] | None = None,
    ) -> None:
        self.request = request
        self._writer = writer
        self._upstream = upstream
        # Only a read may be sent again, over another connection, if the server has closed this one.
        is_read = request.method == "GET" and not request.is_watch
        self._idle = idle if is_read and "upgrade" not in request.headers else None

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: str, headers: Mapping[str, str]) -> None:
        """Send status line and headers."""
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def answer(
        self, status: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response."""
        given = {"Content-Type": "application/json", **(headers or {})}
        await self.head(status, {**given, "Content-Length": str(len(body))})
        await self.send(body)

    async def refuse(
        self, code: int, reason: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a Status object, as the API server does for an error."""
        await self.answer(f"{code} {reason}", status_body(code, reason), headers)

    async def begin_stream(self) -> None:
        """Send the head of a watch."""
        await self.head(
            "200 OK", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        )

    async def chunk(self, data: bytes) -> None:
        """Send a part of a watch."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """End a watch as the server does at its timeout."""
        await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection: the client finds it reset."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """End the connection: the client finds no more bytes."""
        self._writer.close()

    async def stall(self) -> None:
        """Send nothing more until the client closes the connection."""
        await asyncio.Event().wait()

    async def forward(self) -> UpstreamResponse:
        """Return the API server's response.

        Raises:
            OSError: the server cannot be reached.
        """
        while self._idle:
            try:
                return await self._forward(self._idle.pop())
            except (OSError, EOFError):
                self.close_upstream()
        upstream = self._upstream
        return await self._forward(
            await asyncio.open_connection(upstream.host, upstream.port, ssl=upstream.tls)
        )

    async def _forward(self, connection: Connection) -> UpstreamResponse:
        """Send the request over a connection.

        Raises:
            EOFError: the server has closed the connection.
        """
        reader, writer = self._onward = connection
        upstream, request = self._upstream, self.request
        kept = {
            name: value
            for name, value in request.headers.items()
            if name not in {"connection", "host", "accept-encoding"}
        }
        kept["host"] = f"{upstream.host}:{upstream.port}"
        if self._idle is None:
            kept["connection"] = "close"
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in kept.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + request.body)
        await writer.drain()
        first = await reader.readline()
        if not first:
            raise EOFError("the API server has closed the connection")
        status = first.decode().strip().partition(" ")[2]
        return UpstreamResponse(status, await _headers(reader), reader, self._keep)

    _onward: Connection | None = None

    def _keep(self) -> None:
        """Keep the connection, over which the whole response has come, for another request."""
        if self._idle is not None and self._onward is not None:
            self._idle.append(self._onward)
            self._onward = None

    def close_upstream(self) -> None:
        """Close the connection to the API server, unless it is kept."""
        if self._onward is not None:
            _, writer = self._onward
            writer.transport.abort()
            self._onward = None


def status_body(code: int, reason: str) -> bytes:
    """Return a Status object as JSON."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"the proxy says {code}",
        "reason": reason,
        "code": code,
    }
    return json.dumps(status, separators=(",", ":")).encode()
