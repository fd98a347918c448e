"""SPDY/3.1 connections whose streams the client opens.

There is no flow control, as in github.com/moby/spdystream.

Source: k8s.io/streaming pkg/httpstream/spdy; the SPDY protocol, draft 3.1.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING, cast

from aiohttp import web

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiserver.subresources.httpstream import (
    MAX_UNREAD_BYTES,
    plain_text_error,
    wait_until_read,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp._websocket.reader import WebSocketReader

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.kubelet_api import Session

LINGER_SECONDS = 5.0
"""The time in which a client closes a connection after the end of its streams."""

_UPGRADE = "SPDY/3.1"
_VERSIONS_HEADER = "X-Stream-Protocol-Version"
_ACCEPTED_HEADER = "X-Accepted-Stream-Protocol-Versions"
_READ_BYTES = 1 << 16
_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_CANCEL = 5
_MAX_CONTROL_BYTES = 1 << 16
_MAX_HEADER_BYTES = 1 << 16
_MAX_STREAMS = 4096

_WORDS = """
    options head post put delete trace accept accept-charset accept-encoding accept-language
    accept-ranges age allow authorization cache-control connection content-base content-encoding
    content-language content-length content-location content-md5 content-range content-type date
    etag expect expires from host if-match if-modified-since if-none-match if-range
    if-unmodified-since last-modified location max-forwards pragma proxy-authenticate
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
    user-agent vary via warning www-authenticate method get status
""".split()  # noqa: SIM905 - a list of this length reads better as text
_CODES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service Unavailable"
)
_REST = (
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, "
    "Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def header_dictionary() -> bytes:
    """Return the initial compression dictionary of headers."""
    words = [*_WORDS, "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie",
             "keep-alive", "origin"]  # fmt: skip
    parts = [struct.pack(">I", len(word)) + word.encode() for word in words]
    return b"".join(parts) + (_CODES + _REST).encode()


class UpgradedConnection:
    """The bytes of a connection after its upgrade.

    Args:
        response: the response that has announced it.
    """

    def __init__(self, response: web.StreamResponse, http: web.BaseRequest) -> None:
        self._response = response
        self._transport = http.transport
        self._received = bytearray()
        self._ended = False
        self._changed = asyncio.Event()
        http.protocol.set_parser(cast("WebSocketReader", self))

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes of the client, as aiohttp's parsers do."""
        self._received += data
        self._changed.set()
        # aiohttp would pause its parser of requests, which is not used any more.
        if len(self._received) > _READ_BYTES and self._transport is not None:
            self._transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        """Take the end of the connection."""
        self._ended = True
        self._changed.set()

    async def read(self) -> bytes:
        """Return the next bytes of the client; none at the end."""
        while not self._received and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._received)
        self._received.clear()
        if self._transport is not None:
            self._transport.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes to the client.

        Raises:
            ConnectionError: the client is gone.
        """
        await self._response.write(data)


async def open_spdy(
    request: ApiRequest, known: Sequence[str]
) -> tuple[UpgradedConnection, web.StreamResponse, str] | web.Response:
    """Upgrade a request; return its connection, response and protocol, or the error response.

    Raises:
        StatusError: 400, the client requests no upgrade.

    Source: k8s.io/streaming pkg/httpstream/httpstream.go, `Handshake`.
    """
    headers = request.http.headers
    if "upgrade" not in request.header("Connection").lower():
        raise bad_request("Upgrade request required")
    texts = headers.getall(_VERSIONS_HEADER, ())
    offered = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if not offered:
        return plain_text_error(f"unable to upgrade: {_VERSIONS_HEADER} is required\n", 400)
    protocol = next((offer for offer in offered if offer in known), "")
    if not protocol:
        client, server = " ".join(offered), " ".join(known)
        why = f"client supports [{client}], server accepts [{server}]"
        refusal = plain_text_error(f"unable to upgrade: unable to negotiate protocol: {why}\n", 403)
        for each in known:
            refusal.headers.add(_ACCEPTED_HEADER, each)
        return refusal
    if _UPGRADE.lower() not in request.header("Upgrade").lower():
        return plain_text_error("unable to upgrade: missing upgrade headers in request\n", 400)
    response = web.StreamResponse(
        status=101,
        headers={"Connection": "Upgrade", "Upgrade": _UPGRADE, _VERSIONS_HEADER: protocol},
    )
    response.force_close()
    await response.prepare(request.http)
    return UpgradedConnection(response, request.http), response, protocol


class SpdyStream:
    """One SPDY stream.

    Args:
        number: its ID.
        headers: the headers that opened it, names in lower case.
    """

    def __init__(self, connection: SpdyConnection, number: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.number = number
        self.headers = headers
        self.unread = bytearray()
        """The data that no session has."""
        self.ended = False
        """True after the client's last data."""
        self._over = False
        self.session: Session | None = None
        """The connection to the pod, once there is one."""

    def connect_session(self, session: Session) -> None:
        """Connect the stream with a session; pass the data received so far."""
        self.session = session
        if session.stdin is not None:
            session.stdin.send(self.take())
            if self.ended:
                session.stdin.close()

    def take(self) -> bytes:
        """Return the unread data, which is read then."""
        data = bytes(self.unread)
        self.unread.clear()
        return data

    def receive(self, data: bytes) -> None:
        """Pass data from the client to the session."""
        if self.session is None:
            self.unread += data
        elif self.session.stdin is not None:
            self.session.stdin.send(data)

    def end_input(self) -> None:
        """Close the session's input."""
        self.ended = True
        if self.session is not None and self.session.stdin is not None:
            self.session.stdin.close()

    def reset(self) -> None:
        """Stop the session: the client reset the stream."""
        self.ended = self._over = True
        if self.session is not None:
            self.session.stop()

    async def send(self, data: bytes) -> None:
        """Send data to the client.

        Raises:
            ConnectionError: the client is gone.
        """
        if not self._over:
            await self._connection.send_data(self.number, data, 0)

    async def end(self) -> None:
        """Close the stream's output; no-op if it is closed.

        Raises:
            ConnectionError: the client is gone.
        """
        if not self._over:
            self._over = True
            await self._connection.send_data(self.number, b"", _FIN)


class SpdyConnection:
    """The server's side of one connection.

    Args:
        send: sends bytes to the client.
        opened: called with each stream that the client opens; returns whether it is accepted.
    """

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        opened: Callable[[SpdyStream], bool],
    ) -> None:
        self._send = send
        self._opened = opened
        self._buffer = bytearray()
        self._data_frame = (0, 0)
        self._data_left = 0
        self._streams: dict[int, SpdyStream] = {}
        dictionary = header_dictionary()
        self._inflate = zlib.decompressobj(zdict=dictionary)
        self._deflate = zlib.compressobj(zdict=dictionary)

    async def receive(self, data: bytes) -> bool:
        """Process bytes from the client; return False when the connection ends.

        A data frame's content is passed on as it comes.

        Raises:
            ConnectionError: the client is gone.
        """
        self._buffer += data
        while self._buffer:
            if self._data_left:
                if not await self._receive_data():
                    return False
                continue
            if len(self._buffer) < 8:
                break
            first, flags_length = struct.unpack_from(">II", self._buffer)
            flags, length = flags_length >> 24, flags_length & 0xFFFFFF
            if not first >> 31:
                del self._buffer[:8]
                self._data_frame, self._data_left = (first, flags), length
                if not length and flags & _FIN:
                    self._end_input(first)
                continue
            if first >> 16 & 0x7FFF != _VERSION or length > _MAX_CONTROL_BYTES:
                return False
            if len(self._buffer) < 8 + length:
                break
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if not await self._control(first & 0xFFFF, flags, body):
                return False
        return True

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        """Send a data frame.

        Raises:
            ConnectionError: the client is gone.
        """
        await self._send(struct.pack(">II", number, flags << 24 | len(data)) + data)
        if flags & _FIN:
            self._streams.pop(number, None)

    async def _receive_data(self) -> bool:
        """Pass on what there is of a data frame; return False if too much is unread."""
        number, flags = self._data_frame
        part = bytes(self._buffer[: self._data_left])
        del self._buffer[: len(part)]
        self._data_left -= len(part)
        stream = self._streams.get(number)
        if stream is None:
            return True
        stream.receive(part)
        if not self._data_left and flags & _FIN:
            stream.end_input()
        await wait_until_read(stream.session)
        return sum(len(each.unread) for each in self._streams.values()) <= MAX_UNREAD_BYTES

    def _end_input(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.end_input()

    async def _control(self, kind: int, flags: int, body: bytes) -> bool:
        if kind == _SYN_STREAM:
            return await self._open(flags, body)
        if kind == _PING and len(body) == 4:
            await self._send_control(_PING, body)
        elif kind == _RST_STREAM and len(body) == 8:
            stream = self._streams.pop(struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF, None)
            if stream is not None:
                stream.reset()
        return kind != _GOAWAY

    async def _open(self, flags: int, body: bytes) -> bool:
        if len(body) < 10 or len(self._streams) >= _MAX_STREAMS:
            return False
        number = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
        try:
            block = self._inflate.decompress(body[10:], _MAX_HEADER_BYTES)
            headers = _parse_headers(block)
        except (zlib.error, struct.error):
            return False
        if self._inflate.unconsumed_tail or number in self._streams:
            return False
        stream = SpdyStream(self, number, headers)
        if flags & _FIN:
            stream.end_input()
        if not self._opened(stream):
            await self._send_control(_RST_STREAM, struct.pack(">II", number, _CANCEL))
            return True
        self._streams[number] = stream
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_REPLY, struct.pack(">I", number) + block)
        return True

    async def _send_control(self, kind: int, body: bytes) -> None:
        head = struct.pack(">HHI", 0x8000 | _VERSION, kind, len(body))
        await self._send(head + body)


def _parse_headers(block: bytes) -> dict[str, str]:
    """Parse a header block; the first value of each header.

    Raises:
        struct.error: the block is truncated.
    """
    headers: dict[str, str] = {}
    (count,) = struct.unpack_from(">I", block)
    at = 4
    for _ in range(count):
        texts = []
        for _ in range(2):
            (length,) = struct.unpack_from(">I", block, at)
            texts.append(block[at + 4 : at + 4 + length].decode(errors="replace"))
            at += 4 + length
        headers[texts[0].lower()] = texts[1].partition("\0")[0]
    return headers
