"""Multiplexed streams: WebSocket channels, and SPDY/3.1 with client-opened streams.

The first byte or digit of a WebSocket message is its channel. SPDY has no flow control here, as in
github.com/moby/spdystream.

Source: k8s.io/streaming pkg/httpstream/wsstream, k8s.io/cri-streaming pkg/streaming/remotecommand;
the SPDY protocol, draft 3.1.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.kubelet_api import Session

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
BASE64 = "v4.base64.channel.k8s.io"
CLOSE_CHANNEL = 255
"""The channel of version 5 on which a client closes another one."""

_MAX_MESSAGE_BYTES = 32 << 20
_MAX_UNREAD_BYTES = 4 << 20
_UNREAD_POLL_SECONDS = 0.02
_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_MAX_FRAME_BYTES = 8 << 20
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


async def wait_until_read(session: Session | None) -> None:
    """Wait while a session has more unread input than it may buffer."""
    if session is None or session.stdin is None:
        return
    while len(session.stdin) > _MAX_UNREAD_BYTES and session.output.code is None:
        await async_sleep(_UNREAD_POLL_SECONDS)


def read_offered_protocols(request: ApiRequest) -> list[str]:
    """Return the client's protocols in its order."""
    names = request.http.headers.getall("Sec-WebSocket-Protocol", ())
    return [part.strip() for text in names for part in text.split(",") if part.strip()]


def plain_text_error(text: str, status: int) -> web.Response:
    """Return an error in the kubelet's form."""
    return web.Response(text=text, status=status, content_type="text/plain")


async def open_websocket(
    request: ApiRequest, known: Iterable[str]
) -> tuple[web.WebSocketResponse, str] | web.Response:
    """Open a WebSocket; return it and its protocol, or the error response.

    A client that offers no protocols uses the oldest one; its name is empty.

    Raises:
        StatusError: 400, the client requests no WebSocket.
    """
    if request.header("Upgrade").lower() != "websocket":
        raise bad_request("Upgrade request required")
    offered, protocols = read_offered_protocols(request), tuple(known)
    protocol = next((offer for offer in offered if offer in protocols), "")
    if offered and not protocol:
        return web.Response(status=403)
    socket = web.WebSocketResponse(
        protocols=(protocol,) if protocol else (), max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
    await socket.prepare(request.http)
    return socket, protocol


class WebSocketChannels:
    """The streams of one socket."""

    def __init__(self, socket: web.WebSocketResponse, protocol: str) -> None:
        self._socket = socket
        self._text = "base64" in protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel.

        Raises:
            ConnectionError: the client is gone.
        """
        if self._text:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield channel and data of each message, until the client disconnects."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                # Clients send bytes as text in any protocol.
                data = message.data.encode()
            elif message.type is WSMsgType.BINARY:
                data = message.data
            else:
                continue
            if not data:
                continue
            if not self._text:
                yield data[0], data[1:]
                continue
            try:
                yield data[0] - ord("0"), base64.b64decode(data[1:])
            except binascii.Error:
                return

    async def close(self) -> None:
        """Close the socket."""
        await self._socket.close()


def header_dictionary() -> bytes:
    """Return the initial compression dictionary of headers."""
    words = [*_WORDS, "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie",
             "keep-alive", "origin"]  # fmt: skip
    parts = [struct.pack(">I", len(word)) + word.encode() for word in words]
    return b"".join(parts) + (_CODES + _REST).encode()


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
        self._early = bytearray()
        self._ended = False
        self._over = False
        self.session: Session | None = None
        """The connection to the pod, once there is one."""

    def connect_session(self, session: Session) -> None:
        """Connect the stream with a session; pass the data received so far."""
        self.session = session
        early, self._early = bytes(self._early), bytearray()
        if early:
            self._pass_input(early)
        if self._ended:
            self.end_input()

    def _pass_input(self, data: bytes) -> None:
        if self.session is not None and self.session.stdin is not None:
            self.session.stdin.send(data)

    def receive(self, data: bytes) -> None:
        """Pass data from the client to the session."""
        if self.session is None:
            self._early += data
        else:
            self._pass_input(data)

    def end_input(self) -> None:
        """Close the session's input."""
        self._ended = True
        if self.session is not None and self.session.stdin is not None:
            self.session.stdin.close()

    def reset(self) -> None:
        """Stop the session: the client reset the stream."""
        self._over = True
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
        opened: called with each stream that the client opens.
    """

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        opened: Callable[[SpdyStream], None],
    ) -> None:
        self._send = send
        self._opened = opened
        self._buffer = bytearray()
        self._streams: dict[int, SpdyStream] = {}
        dictionary = header_dictionary()
        self._inflate = zlib.decompressobj(zdict=dictionary)
        self._deflate = zlib.compressobj(zdict=dictionary)

    async def receive(self, data: bytes) -> bool:
        """Process bytes from the client; return False when the connection ends.

        Raises:
            ConnectionError: the client is gone.
        """
        self._buffer += data
        while len(self._buffer) >= 8:
            first, flags_length = struct.unpack_from(">II", self._buffer)
            flags, length = flags_length >> 24, flags_length & 0xFFFFFF
            if length > _MAX_FRAME_BYTES:
                return False
            if len(self._buffer) < 8 + length:
                return True
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if first >> 31:
                if first >> 16 & 0x7FFF != _VERSION:
                    return False
                if not await self._control(first & 0xFFFF, flags, body):
                    return False
            else:
                await self._data(first & 0x7FFFFFFF, flags, body)
        return True

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        """Send a data frame.

        Raises:
            ConnectionError: the client is gone.
        """
        await self._send(struct.pack(">II", number, flags << 24 | len(data)) + data)
        if flags & _FIN:
            self._streams.pop(number, None)

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if body:
            stream.receive(body)
        if flags & _FIN:
            stream.end_input()
        await wait_until_read(stream.session)

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
            headers = _parse_headers(self._inflate.decompress(body[10:], _MAX_FRAME_BYTES))
        except (zlib.error, struct.error):
            return False
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_REPLY, struct.pack(">I", number) + block)
        stream = self._streams[number] = SpdyStream(self, number, headers)
        if flags & _FIN:
            stream.end_input()
        self._opened(stream)
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
