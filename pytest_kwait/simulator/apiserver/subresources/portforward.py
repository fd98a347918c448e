"""`portforward` over WebSocket channels, or over SPDY tunnelled in a WebSocket.

Source: k8s.io/cri-streaming pkg/streaming/portforward, k8s.io/apiserver
pkg/util/proxy/streamtunnel.go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import WSMsgType

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiserver.subresources.connect import find_kubelet
from pytest_kwait.simulator.apiserver.subresources.httpstream import (
    BASE64,
    V4,
    SpdyConnection,
    WebSocketChannels,
    open_websocket,
    plain_text_error,
    read_offered_protocols,
    wait_until_read,
)
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.apiserver.subresources.httpstream import SpdyStream
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import Ports, Session

__all__ = ["serve_port_forward"]

_TUNNEL = "SPDY/3.1+portforward.k8s.io"
_DATA, _ERROR = range(2)
_MAX_PORT = 65535


async def serve_port_forward(
    api: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Forward a client's streams to ports of a pod.

    Raises:
        StatusError: 400, the pod is unscheduled or the client speaks no WebSocket.
    """
    namespace = target.namespace or ""
    pod = api.get("pods", target.name, namespace)
    kubelet = find_kubelet(api, pod)
    if request.header("Upgrade").lower() != "websocket":
        raise bad_request("Upgrade request required")
    tunnel = _TUNNEL in read_offered_protocols(request)
    ports: list[int] = []
    if not tunnel:
        # Admission has rejected texts that are not numbers.
        texts = [value for name, value in request.queries if name == "ports"]
        if not texts:
            return plain_text_error('query parameter "port" is required', 400)
        ports = [int(part) for text in texts for part in text.split(",")]
        for port in ports:
            if port < 1:
                return plain_text_error(f'port "{port}" must be > 0', 400)
            if port > _MAX_PORT:
                why = f'strconv.ParseUint: parsing "{port}": value out of range'
                return plain_text_error(f'unable to parse "{port}" as a port: {why}', 400)
    try:
        network = kubelet.network_of(namespace, target.name)
    except LookupError as error:
        return plain_text_error(str(error.args[0]), 500)
    opened = await open_websocket(request, (_TUNNEL,) if tunnel else (V4, BASE64))
    if not isinstance(opened, tuple):
        return opened
    socket, protocol = opened
    forwarder = _Forwarder(network, uid_of(pod).replace("-", "") * 2)
    with suppress(ConnectionError):
        if tunnel:
            await _serve_tunnel(socket, forwarder)
        else:
            await _serve_channels(WebSocketChannels(socket, protocol), ports, forwarder)
        await socket.close()
    return socket


class _Forwarder:
    """Connects to the ports of one pod.

    Args:
        network: the ports.
        sandbox: the sandbox ID in error messages.
    """

    def __init__(self, network: Ports, sandbox: str) -> None:
        self._network = network
        self._sandbox = sandbox

    def connect(self, port: int) -> Session | str:
        """Return the connection, or the error message."""
        session = self._network.connect(port)
        if session is not None:
            return session
        refused = f"connect: connection refused IPv6 dial tcp6 [::1]:{port}: {'connect: '}"
        return (
            f"error forwarding port {port} to pod {self._sandbox}, uid : failed to execute "
            f'portforward in network namespace "/var/run/netns/{self._sandbox[:16]}": failed to '
            f'connect to localhost:{port} inside namespace "{self._sandbox}", IPv4: dial tcp4 '
            f"127.0.0.1:{port}: {refused}connection refused "
        )


async def _serve_channels(
    channels: WebSocketChannels, ports: list[int], forwarder: _Forwarder
) -> None:
    """Serve two channels per port: data and error."""
    sessions: dict[int, Session] = {}
    pumps: list[asyncio.Task[None]] = []
    for index, port in enumerate(ports):
        for channel in (_DATA, _ERROR):
            await channels.send(2 * index + channel, port.to_bytes(2, "little"))
    for index, port in enumerate(ports):
        session = forwarder.connect(port)
        if isinstance(session, str):
            await channels.send(2 * index + _ERROR, session.encode())
            continue
        sessions[2 * index] = session
        send = _channel_sender(channels, 2 * index)
        pumps.append(asyncio.create_task(_pump(session, send)))
    feeding = asyncio.create_task(_feed_sessions(channels, sessions))
    try:
        if pumps:
            done = asyncio.gather(*pumps)
            await asyncio.wait((done, feeding), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for session in sessions.values():
            session.stop()
        for task in (feeding, *pumps):
            task.cancel()
        await asyncio.gather(feeding, *pumps, return_exceptions=True)


def _channel_sender(
    channels: WebSocketChannels, channel: int
) -> Callable[[bytes], Awaitable[None]]:
    return lambda data: channels.send(channel, data)


async def _pump(session: Session, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send the pod's output until it closes the connection."""
    while (piece := await session.output.take()) is not None:
        stream, data = piece
        if stream == 1:
            await send(data)


async def _feed_sessions(channels: WebSocketChannels, sessions: dict[int, Session]) -> None:
    async for channel, data in channels.messages():
        session = sessions.get(channel)
        if session is not None and session.stdin is not None:
            session.stdin.send(data)
            await wait_until_read(session)


async def _serve_tunnel(socket: web.WebSocketResponse, forwarder: _Forwarder) -> None:
    """Serve SPDY frames carried in the socket's messages."""
    pumps: set[asyncio.Task[None]] = set()
    pairs: dict[str, dict[str, SpdyStream]] = {}

    def opened(stream: SpdyStream) -> None:
        pair = pairs.setdefault(stream.headers.get("requestid", ""), {})
        pair[stream.headers.get("streamtype", "")] = stream
        if {"data", "error"} <= pair.keys():
            del pairs[stream.headers.get("requestid", "")]
            task = asyncio.create_task(_serve_stream_pair(pair["data"], pair["error"], forwarder))
            pumps.add(task)
            task.add_done_callback(pumps.discard)

    connection = SpdyConnection(socket.send_bytes, opened)
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY or not await connection.receive(message.data):
                return
    finally:
        for task in tuple(pumps):
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _serve_stream_pair(data: SpdyStream, errors: SpdyStream, forwarder: _Forwarder) -> None:
    port = data.headers.get("port", "")
    session = forwarder.connect(int(port) if port.isdigit() else 0)
    try:
        if isinstance(session, str):
            await errors.send(session.encode())
            return
        data.connect_session(session)
        await _pump(session, data.send)
    finally:
        if not isinstance(session, str):
            session.stop()
        with suppress(ConnectionError):
            await data.end()
            await errors.end()
