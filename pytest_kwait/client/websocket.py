"""WebSockets with channels: the first byte of a message names its channel."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from websocket import (
    ABNF,
    WebSocket,
    WebSocketBadStatusException,
    WebSocketConnectionClosedException,
    WebSocketException,
)

from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.errors import excerpt, make_connection_error, make_response_error
from pytest_kwait.client.transport import TRANSPORT_ERRORS
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.client.deadlines import Guard
    from pytest_kwait.client.transport import Transport
    from pytest_kwait.errors import KwaitError

V4 = "v4.channel.k8s.io"
V5 = "v5.channel.k8s.io"
"""The protocol version that can close one direction of a channel, such as stdin."""

_CLOSE_CHANNEL = 255
_WEBSOCKET_ERRORS = (*TRANSPORT_ERRORS, WebSocketException)


class ChannelWebSocket:
    """A WebSocket with channels, over the same kind of connection as all other requests.

    It is used by one thread; its guard may end it from any. The official client's own WebSocket is
    not used: it has no limit while it connects, and TLS settings other than those of its requests.

    Args:
        path: the subresource, for example of `exec`.
        query: its parameters.
        protocols: the offered protocols, in order of preference.
        guard: the limit of the whole conversation.

    Raises:
        ApiError: refused, or not reached.
        DeadlineExceeded: not answered in time.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: Mapping[str, Any],
        protocols: Sequence[str],
        guard: Guard,
    ) -> None:
        self._transport = transport
        self._path = path
        self._guard = guard
        self._socket = WebSocket(skip_utf8_validation=True)
        try:
            headers = [*transport.headers(guard).items(), *transport.further_headers]
            self._connection = transport.dial(path, guard)
            self._socket.connect(  # type: ignore[no-untyped-call]  # websocket-client types it so
                transport.url(path, query).replace("http", "ws", 1),
                socket=self._connection.sock,
                header=[f"{name}: {value}" for name, value in headers],
                subprotocols=list(protocols),
                suppress_origin=True,
                redirect_limit=0,
            )
        except WebSocketBadStatusException as error:
            self.close()
            raise make_response_error(
                "GET",
                path,
                error.status_code,
                error.resp_headers or {},
                _bytes(error.resp_body),
                transport.clock,
            ) from error
        except _WEBSOCKET_ERRORS as error:
            self.close()
            raise self.failure(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def protocol(self) -> str:
        """The protocol chosen by the server."""
        return str(self._socket.subprotocol or "")

    def fileno(self) -> int:
        """Return the descriptor to poll for input; see `pending`."""
        return self._connection.sock.fileno()

    @property
    def pending(self) -> bool:
        """Return whether buffered input is available."""
        connected = self._connection.sock
        return isinstance(connected, ssl.SSLSocket) and connected.pending() > 0

    def receive(self) -> tuple[int, bytes] | None:
        """Return channel and content of the next message; None at the end.

        Raises:
            ApiError: the connection broke.
            DeadlineExceeded: the deadline has passed.
        """
        while True:
            try:
                opcode, data = self._socket.recv_data()
            except WebSocketConnectionClosedException as error:
                if self._guard.cause is not None or self._transport.availability.find_end():
                    raise self.failure(error) from error
                return None
            except _WEBSOCKET_ERRORS as error:
                raise self.failure(error) from error
            if opcode == ABNF.OPCODE_CLOSE:
                return None
            message = _bytes(data)
            if message:
                return message[0], message[1:]

    def send(self, channel: int, data: bytes) -> None:
        """Send `data` on a channel.

        Raises:
            ApiError: the connection broke.
            DeadlineExceeded: the deadline has passed.
        """
        try:
            self._socket.send_binary(bytes([channel]) + data)
        except _WEBSOCKET_ERRORS as error:
            raise self.failure(error) from error

    def finish(self, channel: int) -> None:
        """Signal the end of the input on a channel; requires protocol `V5`."""
        self.send(_CLOSE_CHANNEL, bytes([channel]))

    def failure(self, error: Exception | None) -> KwaitError:
        """Return the error of an ended connection."""
        if isinstance(error, WebSocketException):
            problem = self._transport.availability.find_end()
            if problem:
                return ClusterEnded(problem, reason="ClusterEnded")
            if self._guard.cause is None and not self._guard.expired:
                return make_connection_error("GET", self._path, error, self._transport.address)
            error = None
        return self._transport.failure("GET", self._path, self._guard, error)

    def refusal(self, message: bytes) -> ApiError:
        """Return the error in a message of the other side."""
        return ApiError(excerpt(message), reason="PortForwardFailed", method="GET", path=self._path)

    def close(self) -> None:
        """Close the connection without waiting for the other side."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
        self._guard.release()


def _bytes(data: bytes | str | None) -> bytes:
    if data is None:
        return b""
    return data.encode() if isinstance(data, str) else data
