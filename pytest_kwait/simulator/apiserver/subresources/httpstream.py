"""Channels of a WebSocket.

The first byte or digit of a message is its channel.

Source: k8s.io/streaming pkg/httpstream/wsstream, k8s.io/cri-streaming pkg/streaming/remotecommand.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.kubelet_api import Session

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
BASE64 = "v4.base64.channel.k8s.io"
CLOSE_CHANNEL = 255
"""The channel of version 5 on which a client closes another one."""

MAX_UNREAD_BYTES = 4 << 20
"""The input that a client may send ahead of its reader."""

_MAX_MESSAGE_BYTES = 32 << 20
_UNREAD_POLL_SECONDS = 0.02


async def wait_until_read(session: Session | None) -> None:
    """Wait while a session has more unread input than it may buffer."""
    if session is None or session.stdin is None:
        return
    while len(session.stdin) > MAX_UNREAD_BYTES and session.output.code is None:
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
        self._closes = protocol == V5

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
                if data[0] != CLOSE_CHANNEL or self._closes:
                    yield data[0], data[1:]
                continue
            try:
                yield data[0] - ord("0"), base64.b64decode(data[1:])
            except binascii.Error:
                return

    async def close(self) -> None:
        """Close the socket."""
        await self._socket.close()
