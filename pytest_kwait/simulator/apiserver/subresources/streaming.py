"""Streams to containers: `exec`, `attach` and `portforward`.

They use WebSocket channels or SPDY; `portforward` also SPDY tunnelled in a WebSocket.

Source: k8s.io/cri-streaming pkg/streaming/{remotecommand,portforward}, k8s.io/apiserver
pkg/util/proxy/{streamtranslator,streamtunnel}.go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
from aiohttp import WSMsgType

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiserver.subresources.connect import choose_container, find_kubelet
from pytest_kwait.simulator.apiserver.subresources.httpstream import (
    BASE64,
    CLOSE_CHANNEL,
    V4,
    V5,
    WebSocketChannels,
    open_websocket,
    plain_text_error,
    read_offered_protocols,
    wait_until_read,
)
from pytest_kwait.simulator.apiserver.subresources.spdy import (
    LINGER_SECONDS,
    SpdyConnection,
    open_spdy,
)
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.apiserver.subresources.spdy import (
        SpdyStream,
        UpgradedConnection,
    )
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import KubeletApi, Ports, Session
    from pytest_kwait.simulator.objects import Obj

_OLD = ("channel.k8s.io", "base64.channel.k8s.io")
_PROTOCOLS = (V5, V4, BASE64, *_OLD)
_V3 = "v3.channel.k8s.io"
_SPDY_PROTOCOLS = (V4, _V3, "v2.channel.k8s.io", "channel.k8s.io")
_STRUCTURED = (V5, V4, BASE64)
"""The protocols whose error channel carries a `Status`."""
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_STREAM_TYPES = ("stdin", "stdout", "stderr", "error", "resize")
"""The names of SPDY streams by their channel."""
_STREAM_CREATION_SECONDS = 30.0
_MAX_SIZE_BYTES = 4096
_PORT_FORWARD = "portforward.k8s.io"
_TUNNEL = f"SPDY/3.1+{_PORT_FORWARD}"
_PORT_DATA, _PORT_ERROR = range(2)
_MAX_PORT = 65535
_PORT_DIGITS = 5


async def serve_remote_command(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Serve `exec` and `attach`: input and output, then the exit status.

    Raises:
        StatusError: 400, the pod is unscheduled or the client speaks no WebSocket.
    """
    namespace = target.namespace or ""
    pod = cluster.get("pods", target.name, namespace)
    container = choose_container(pod, request.query.get("container", ""))
    kubelet = find_kubelet(cluster, pod)
    if "upgrade" not in request.header("Connection").lower():
        raise bad_request("Upgrade request required")
    streams = {name for name in ("stdin", "stdout", "stderr", "tty") if request.flag(name)}
    if not streams & {"stdin", "stdout", "stderr"}:
        return plain_text_error("you must specify at least 1 of stdin, stdout, stderr", 400)
    if target.subresource == "attach" and "stderr" in streams and _has_tty(pod, container):
        why = "rpc error: code = InvalidArgument desc = tty and stderr cannot both be true"
        return plain_text_error(why, 500)
    if "tty" in streams:
        # A terminal merges stdout and stderr.
        streams.discard("stderr")
    failure = ""
    session: Session | None = None
    try:
        session = _start(kubelet, request, target, container, streams)
    except LookupError as error:
        return plain_text_error(str(error.args[0]), 500)
    except StartError as error:
        failure = str(error)
    response: web.StreamResponse | None = None
    try:
        command = [value for name, value in request.queries if name == "command"]
        response = await _stream_remote_command(request, streams, command, session, failure)
    finally:
        # The client may have got no connection.
        if session is not None:
            session.stop()
    return response


async def _stream_remote_command(
    request: ApiRequest,
    streams: set[str],
    command: list[str],
    session: Session | None,
    failure: str,
) -> web.StreamResponse:
    """Connect a command with its client; return the response."""
    channels: _Channels
    if request.header("Upgrade").lower() == "websocket":
        opened = await open_websocket(request, _PROTOCOLS)
        if not isinstance(opened, tuple):
            return opened
        response: web.StreamResponse
        response, protocol = opened
        channels = WebSocketChannels(opened[0], protocol)
    else:
        upgraded = await open_spdy(request, _SPDY_PROTOCOLS)
        if not isinstance(upgraded, tuple):
            return upgraded
        connection, response, protocol = upgraded
        channels = _SpdyChannels(connection)
        expected = {"error", *streams}
        expected.discard("tty")
        if "tty" in streams and protocol in (V4, _V3):
            expected.add("resize")
        with suppress(ConnectionError):
            if not await channels.accept(expected):
                return response
    # A disconnected client ends the session.
    with suppress(ConnectionError):
        await _RemoteCommand(channels, protocol, streams, command).run(session, failure)
    return response


def _has_tty(pod: Obj, container: str) -> bool:
    return any(
        spec_container.get("tty", False)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for spec_container in pod["spec"].get(field, ())
        if spec_container["name"] == container
    )


def _start(
    kubelet: KubeletApi, request: ApiRequest, target: RequestInfo, container: str, streams: set[str]
) -> Session:
    namespace, stdin, tty = target.namespace or "", "stdin" in streams, "tty" in streams
    if target.subresource == "attach":
        return kubelet.attach(namespace, target.name, container, stdin=stdin)
    command = [value for name, value in request.queries if name == "command"]
    return kubelet.run(namespace, target.name, container, command, stdin=stdin, tty=tty)


def _resize(resize: Callable[[int, int], None], data: bytes) -> None:
    """Set the size of a terminal to a client's `TerminalSize`; an invalid one is ignored."""
    try:
        size = msgspec.json.decode(data)
        resize(int(size["Width"]), int(size["Height"]))
    except (msgspec.DecodeError, ValueError, TypeError, KeyError):
        return


class _Channels(Protocol):
    """The connection to the client of a command."""

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel.

        Raises:
            ConnectionError: the client is gone.
        """

    def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield channel and data of each message, until the client disconnects."""

    async def close(self) -> None:
        """Close the connection."""


class _SpdyChannels:
    """The SPDY streams of a command, by channel."""

    def __init__(self, connection: UpgradedConnection) -> None:
        self._socket = connection
        self._connection = SpdyConnection(connection.send, self._open)
        self._streams: dict[str, SpdyStream] = {}
        self._sizes = b""

    def _open(self, stream: SpdyStream) -> bool:
        name = stream.headers.get("streamtype", "")
        if name not in _STREAM_TYPES or name in self._streams:
            return False
        self._streams[name] = stream
        return True

    async def accept(self, expected: set[str]) -> bool:
        """Wait until the client has opened its streams; return whether it has.

        Raises:
            ConnectionError: the client is gone.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_STREAM_CREATION_SECONDS):
                while not expected <= self._streams.keys():
                    if not await self._receive():
                        break
        return expected <= self._streams.keys()

    async def _receive(self) -> bool:
        data = await self._socket.read()
        return bool(data) and await self._connection.receive(data)

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(_STREAM_TYPES[channel])
        if data and stream is not None:
            await stream.send(data)

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        stdin, resize = self._streams.get("stdin"), self._streams.get("resize")
        connected = True
        while connected:
            if stdin is not None:
                if data := stdin.take():
                    yield _STDIN, data
                if stdin.ended:
                    stdin = None
                    yield CLOSE_CHANNEL, bytes([_STDIN])
            if resize is not None:
                *sizes, rest = (self._sizes + resize.take()).split(b"\n")
                self._sizes = rest[:_MAX_SIZE_BYTES]
                for size in sizes:
                    yield _RESIZE, size
            connected = await self._receive()

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.end()
        # The client closes the connection once it has read everything.
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._receive():
                    for stream in self._streams.values():
                        stream.take()


class _RemoteCommand:
    """A command and its client."""

    def __init__(
        self, channels: _Channels, protocol: str, streams: set[str], command: list[str]
    ) -> None:
        self._channels = channels
        self._protocol = protocol
        self._streams = streams
        self._command = command

    async def run(self, session: Session | None, failure: str) -> None:
        """Stream input and output until the command ends.

        Raises:
            ConnectionError: the client is gone.
        """
        first = _ERROR
        for name, channel in (("stderr", _STDERR), ("stdout", _STDOUT)):
            first = channel if name in self._streams else first
        feeding: asyncio.Task[None] | None = None
        try:
            await self._channels.send(first, b"")
            if session is not None:
                feeding = asyncio.create_task(self._feed(session))
                while (piece := await session.output.take()) is not None:
                    stream, data = piece
                    if ("stdout" if stream == _STDOUT else "stderr") in self._streams:
                        await self._channels.send(stream, data)
                if session.output.failure:
                    await self._send_start_error(session.output.failure)
                else:
                    await self._send_exit_status(session.output.code or 0)
            else:
                await self._send_start_error(failure)
        finally:
            if session is not None:
                session.stop()
            if feeding is not None:
                feeding.cancel()
                with suppress(asyncio.CancelledError):
                    await feeding
        await self._channels.close()

    async def _feed(self, session: Session) -> None:
        """Pass the client's input on; a disconnect stops the command."""
        async for channel, data in self._channels.messages():
            if channel == _RESIZE and session.resize is not None:
                _resize(session.resize, data)
            stdin = session.stdin
            if stdin is None:
                continue
            if channel == _STDIN:
                stdin.send(data)
                await wait_until_read(session)
            elif channel == CLOSE_CHANNEL and data[:1] == bytes([_STDIN]):
                stdin.close()
        session.stop()

    async def _send_exit_status(self, code: int) -> None:
        if code == 0:
            if self._protocol in _STRUCTURED:
                await self._send_status({"metadata": {}, "status": "Success"})
            return
        why = f"command terminated with exit code {code}"
        if self._protocol != V5:
            why = f"error executing command [{' '.join(self._command)}], exit code {code}"
        text = f"command terminated with non-zero exit code: {why}"
        if self._protocol not in _STRUCTURED:
            await self._channels.send(_ERROR, text.encode())
            return
        await self._send_status(
            {
                "metadata": {},
                "status": "Failure",
                "message": text,
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
            }
        )

    async def _send_start_error(self, why: str) -> None:
        text = f"error executing command in container: {why}"
        if self._protocol not in (V4, BASE64):
            # The kubelet reports errors of the container runtime as its own.
            text = f"Internal error occurred: {text}"
        if self._protocol not in _STRUCTURED:
            await self._channels.send(_ERROR, text.encode())
            return
        await self._send_status(
            {
                "metadata": {},
                "status": "Failure",
                "message": f"Internal error occurred: {text}",
                "reason": "InternalError",
                "details": {"causes": [{"message": text}]},
                "code": 500,
            }
        )

    async def _send_status(self, status: Obj) -> None:
        await self._channels.send(_ERROR, msgspec.json.encode(status))


async def serve_port_forward(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Forward a client's streams to ports of a pod.

    Raises:
        StatusError: 400, the pod is unscheduled or the client speaks no WebSocket.
    """
    namespace = target.namespace or ""
    pod = cluster.get("pods", target.name, namespace)
    kubelet = find_kubelet(cluster, pod)
    if "upgrade" not in request.header("Connection").lower():
        raise bad_request("Upgrade request required")
    spdy = request.header("Upgrade").lower() != "websocket"
    tunnel = _TUNNEL in read_offered_protocols(request)
    ports: list[int] = []
    if not spdy and not tunnel:
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
    forwarder = _Forwarder(network, uid_of(pod).replace("-", "") * 2)
    if spdy:
        upgraded = await open_spdy(request, (_PORT_FORWARD,))
        if not isinstance(upgraded, tuple):
            return upgraded
        connection, response, _ = upgraded
        with suppress(ConnectionError):
            await _serve_stream_pairs(connection.read, connection.send, forwarder)
        return response
    opened = await open_websocket(request, (_TUNNEL,) if tunnel else (V4, BASE64))
    if not isinstance(opened, tuple):
        return opened
    socket, protocol = opened
    with suppress(ConnectionError):
        if tunnel:
            read = partial(_read_tunnel, socket)
            await _serve_stream_pairs(read, socket.send_bytes, forwarder)
        else:
            await _serve_channels(WebSocketChannels(socket, protocol), ports, forwarder)
        await socket.close()
    return socket


class _Forwarder:
    """Connects to the ports of one pod.

    Args:
        sandbox: the sandbox ID in error messages.
    """

    def __init__(self, network: Ports, sandbox: str) -> None:
        self._network = network
        self._sandbox = sandbox

    async def connect(self, port: int) -> Session | str:
        """Return the connection, or the error message."""
        session = await self._network.connect(port)
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
        for channel in (_PORT_DATA, _PORT_ERROR):
            await channels.send(2 * index + channel, port.to_bytes(2, "little"))
    for index, port in enumerate(ports):
        session = await forwarder.connect(port)
        if isinstance(session, str):
            await channels.send(2 * index + _PORT_ERROR, session.encode())
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


async def _read_tunnel(socket: web.WebSocketResponse) -> bytes:
    """Return the next bytes of a tunnel; none at its end."""
    data = b""
    while not data:
        message = await socket.receive()
        if message.type is not WSMsgType.BINARY:
            return b""
        data = message.data
    return data


async def _serve_stream_pairs(
    read: Callable[[], Awaitable[bytes]],
    send: Callable[[bytes], Awaitable[None]],
    forwarder: _Forwarder,
) -> None:
    """Serve SPDY streams: two of each forwarded connection, for its data and its error.

    Source: k8s.io/cri-streaming pkg/streaming/portforward/httpstream.go.
    """
    pumps: set[asyncio.Task[None]] = set()
    pairs: dict[str, dict[str, SpdyStream]] = {}

    def opened(stream: SpdyStream) -> bool:
        name, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        request = stream.headers.get("requestid", "")
        if not request:
            # Older clients open the streams of a connection one after the other.
            request = str(stream.number - (2 if name == "data" else 0))
        if name in pairs.get(request, ()) or name not in ("data", "error"):
            return False
        if not port.isdecimal() or len(port) > _PORT_DIGITS or not 0 < int(port) <= _MAX_PORT:
            return False
        pair = pairs.setdefault(request, {})
        pair[name] = stream
        if len(pair) == 2:
            del pairs[request]
            task = asyncio.create_task(_serve_stream_pair(pair["data"], pair["error"], forwarder))
            pumps.add(task)
            task.add_done_callback(pumps.discard)
        return True

    connection = SpdyConnection(send, opened)
    try:
        while (data := await read()) and await connection.receive(data):
            pass
    finally:
        for task in tuple(pumps):
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _serve_stream_pair(data: SpdyStream, errors: SpdyStream, forwarder: _Forwarder) -> None:
    session = await forwarder.connect(int(data.headers["port"]))
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
