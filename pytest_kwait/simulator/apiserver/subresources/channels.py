"""Several streams over one WebSocket: a byte or a digit of channel in front of each message.

Source: k8s.io/streaming pkg/httpstream/wsstream, k8s.io/cri-streaming pkg/streaming/remotecommand.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from pytest_kwait.simulator.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pytest_kwait.simulator.apiserver.request import ApiRequest

__all__ = [
    "BASE64",
    "CLOSE_CHANNEL",
    "V4",
    "V5",
    "WebSocketChannels",
    "open_websocket",
    "plain_text_error",
    "read_offered_protocols",
]

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
BASE64 = "v4.base64.channel.k8s.io"
CLOSE_CHANNEL = 255
"""The channel of version 5 on which a client names another one that it will not use any more."""

_MAX_MESSAGE_BYTES = 32 << 20


def read_offered_protocols(request: ApiRequest) -> list[str]:
    """The protocols that a client speaks, in its order; none where it does not say."""
    names = request.http.headers.getall("Sec-WebSocket-Protocol", ())
    return [part.strip() for text in names for part in text.split(",") if part.strip()]


def plain_text_error(text: str, status: int) -> web.Response:
    """A refusal in the kubelet's own form."""
    return web.Response(text=text, status=status, content_type="text/plain")


async def open_websocket(
    request: ApiRequest, known: Iterable[str]
) -> tuple[web.WebSocketResponse, str] | web.Response:
    """The socket and the protocol that is spoken on it, or the refusal.

    A client that names no protocol speaks the oldest one, whose name is empty.

    Raises:
        StatusError: 400, the client wants no WebSocket.
    """
    if request.header("Upgrade").lower() != "websocket":
        raise bad_request("Upgrade request required")
    wanted, protocols = read_offered_protocols(request), tuple(known)
    protocol = next((one for one in wanted if one in protocols), "")
    if wanted and not protocol:
        return web.Response(status=403)
    socket = web.WebSocketResponse(
        protocols=(protocol,) if protocol else (), max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
    await socket.prepare(request.http)
    return socket, protocol


class WebSocketChannels:
    """The streams of one socket.

    Args:
        socket: the socket.
        protocol: what is spoken on it.
    """

    def __init__(self, socket: web.WebSocketResponse, protocol: str) -> None:
        self._socket = socket
        self._text = "base64" in protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Send a piece of a stream.

        Raises:
            ConnectionError: the client has gone.
        """
        if self._text:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def received(self) -> AsyncIterator[tuple[int, bytes]]:
        """What the client sends, until it goes; what is no piece of a stream is passed over."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                # Clients send bytes as text, whatever the protocol says.
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
        """Say good-bye."""
        await self._socket.close()
