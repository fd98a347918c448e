"""`exec` and `attach` over WebSocket.

Source: k8s.io/cri-streaming pkg/streaming/remotecommand, k8s.io/apiserver
pkg/util/proxy/streamtranslator.go.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiserver.subresources.connect import (
    choose_container,
    find_kubelet,
)
from pytest_kwait.simulator.apiserver.subresources.httpstream import (
    BASE64,
    CLOSE_CHANNEL,
    V4,
    V5,
    WebSocketChannels,
    open_websocket,
    plain_text_error,
    wait_until_read,
)
from pytest_kwait.simulator.kubelet_api import StartError

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import KubeletApi, Session
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_remote_command"]

_OLD = ("channel.k8s.io", "base64.channel.k8s.io")
_PROTOCOLS = (V5, V4, BASE64, *_OLD)
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)


async def serve_remote_command(
    api: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Serve `exec` and `attach`: input and output, then the exit status.

    Raises:
        StatusError: 400, the pod is unscheduled or the client speaks no WebSocket.
    """
    namespace = target.namespace or ""
    pod = api.get("pods", target.name, namespace)
    container = choose_container(pod, request.query.get("container", ""))
    kubelet = find_kubelet(api, pod)
    if request.header("Upgrade").lower() != "websocket":
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
    opened = None
    try:
        opened = await open_websocket(request, _PROTOCOLS)
    finally:
        if session is not None and not isinstance(opened, tuple):
            session.stop()
    if not isinstance(opened, tuple):
        return opened
    socket, protocol = opened
    command = [value for name, value in request.queries if name == "command"]
    remote_command = _RemoteCommand(WebSocketChannels(socket, protocol), protocol, streams, command)
    # A disconnected client ends the session.
    with suppress(ConnectionError):
        await remote_command.run(session, failure)
    return socket


def _has_tty(pod: Obj, container: str) -> bool:
    return any(
        one.get("tty", False)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for one in pod["spec"].get(field, ())
        if one["name"] == container
    )


def _start(
    kubelet: KubeletApi, request: ApiRequest, target: RequestInfo, container: str, streams: set[str]
) -> Session:
    namespace, stdin, tty = target.namespace or "", "stdin" in streams, "tty" in streams
    if target.subresource == "attach":
        return kubelet.attach(namespace, target.name, container, stdin=stdin)
    command = [value for name, value in request.queries if name == "command"]
    return kubelet.run(namespace, target.name, container, command, stdin=stdin, tty=tty)


class _RemoteCommand:
    """A command and its client."""

    def __init__(
        self, channels: WebSocketChannels, protocol: str, streams: set[str], command: list[str]
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
            stdin = session.stdin
            if stdin is None:
                continue
            if channel == _STDIN:
                stdin.send(data)
                await wait_until_read(session)
            elif channel == CLOSE_CHANNEL and self._protocol == V5 and data[:1] == bytes([_STDIN]):
                stdin.close()
        session.stop()

    async def _send_exit_status(self, code: int) -> None:
        if code == 0:
            if self._protocol in (V4, V5, BASE64):
                await self._send_status({"metadata": {}, "status": "Success"})
            return
        why = f"command terminated with exit code {code}"
        if self._protocol != V5:
            why = f"error executing command [{' '.join(self._command)}], exit code {code}"
        text = f"command terminated with non-zero exit code: {why}"
        if self._protocol not in (V4, V5, BASE64):
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
        if self._protocol == V5:
            # The kubelet reports errors of the container runtime as its own.
            text = f"Internal error occurred: {text}"
        if self._protocol not in (V4, V5, BASE64):
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
