"""Container logs: PodLogOptions and the selected lines.

Source: k8s.io/api core/v1 PodLogOptions; k8s.io/kubernetes pkg/apis/core/validation/validation.go,
pkg/registry/core/pod/strategy.go (LogLocation), pkg/registry/core/pod/rest/log.go.
"""

from __future__ import annotations

import asyncio
import base64
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from pytest_kwait.apimachinery.field_errors import forbidden_field, invalid_value
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import bad_request, invalid, method_not_allowed
from pytest_kwait.simulator.apiserver.subresources.connect import choose_container, find_kubelet
from pytest_kwait.simulator.apiserver.subresources.httpstream import open_websocket
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import LogLine
    from pytest_kwait.simulator.objects import Obj

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_BASE64_BINARY = "base64.binary.k8s.io"
_WEBSOCKET_PROTOCOLS = ("binary.k8s.io", _BASE64_BINARY)
_MAX_MESSAGE_BYTES = 2048
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The parameters of a log request.

    Args:
        container: its name; empty for the only one.
        follow: whether to stream new lines.
        previous: whether to read the previous instance.
        timestamps: whether to prefix lines with their time.
        since_seconds: the maximum age of lines.
        since: the minimum time of lines, seconds since the epoch.
        tail: the number of last lines.
        limit: the maximum of bytes.
    """

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    since_seconds: int | None
    since: float | None
    tail: int | None
    limit: int | None


def read_log_options(request: ApiRequest, pod: str) -> LogOptions:
    """Parse the options in the query.

    Raises:
        StatusError: 400 for unparsable options, 422 for invalid ones.
    """
    options = LogOptions(
        container=request.query.get("container", ""),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        since_seconds=request.integer("sinceSeconds"),
        since=_parse_time(request.query.get("sinceTime", "")),
        tail=request.integer("tailLines"),
        limit=request.integer("limitBytes"),
    )
    errors = []
    if options.tail is not None and options.tail < 0:
        why = "must be greater than or equal to 0"
        errors.append(invalid_value("tailLines", options.tail, why))
    if options.limit is not None and options.limit < 1:
        errors.append(invalid_value("limitBytes", options.limit, "must be greater than 0"))
    if options.since_seconds is not None:
        if options.since is not None:
            why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            errors.append(forbidden_field("[]", why))
        elif options.since_seconds < 1:
            value = options.since_seconds
            errors.append(invalid_value("sinceSeconds", value, "must be greater than 0"))
    if request.query.get("stream", "All") != "All" or "stream" in request.query:
        errors.append(forbidden_field("stream", "may not be specified"))
    if errors:
        raise invalid("", "PodLogOptions", pod, errors)
    return options


def _parse_time(text: str) -> float | None:
    if not text:
        return None
    if _RFC3339.fullmatch(text):
        try:
            return parse_time(text)
        except ValueError:
            raise bad_request(f'parsing time "{text}": day out of range') from None
    raise bad_request(f'parsing time "{text}" as "{_TIME_LAYOUT}": cannot parse "{text}" as "2006"')


async def serve_logs(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Send a container's log; with `follow`, until the container ends.

    Raises:
        StatusError: 400, the container does not exist or has not started.
    """
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    namespace = target.namespace or ""
    options = read_log_options(request, target.name)
    pod = cluster.get("pods", target.name, namespace)
    container = choose_container(pod, options.container)
    if not pod["spec"].get("nodeName"):
        return web.Response(status=204, content_type="text/plain")
    kubelet = find_kubelet(cluster, pod)
    _check_started(pod, container, previous=options.previous)
    lines = kubelet.logs(namespace, target.name, container, previous=options.previous)
    selected = _select_lines(lines, options, cluster.clock.time())
    chunks = _format_lines(_list_lines(selected), options)
    if options.follow and not options.previous:
        following = kubelet.follow(namespace, target.name, container)
        chunks = _format_lines(_new_lines(following, len(lines), selected), options)
    if request.header("Upgrade").lower() == "websocket":
        return await _send_messages(request, chunks)
    if options.follow and not options.previous:
        return await _stream(request, chunks)
    body = b"".join(_format_line(line, options) for line in selected)
    return web.Response(body=body[: options.limit], content_type="text/plain")


def _check_started(pod: Obj, container: str, *, previous: bool) -> None:
    name = name_of(pod)
    status = pod.get("status", {})
    state: Obj = {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container_status in status.get(field, ()):
            if container_status["name"] == container:
                state = container_status
    waiting = state.get("state", {}).get("waiting")
    ended = state.get("lastState", {}).get("terminated")
    if previous:
        if not ended:
            raise bad_request(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
        return
    if not state:
        raise bad_request(f'container "{container}" in pod "{name}" is not available')
    if waiting is not None and not ended:
        reason = waiting.get("reason", "")
        if reason in ("ErrImagePull", "ImagePullBackOff"):
            text = (
                "image can't be pulled"
                if reason == "ErrImagePull"
                else "trying and failing to pull image"
            )
        else:
            text = reason
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {text}')


def _select_lines(lines: Sequence[LogLine], options: LogOptions, now: float) -> Sequence[LogLine]:
    since = options.since
    if options.since_seconds is not None:
        since = now - options.since_seconds
    if since is not None:
        lines = [line for line in lines if line[0] >= since]
    if options.tail is not None:
        lines = lines[len(lines) - min(options.tail, len(lines)) :]
    return lines


def _format_line(line: LogLine, options: LogOptions) -> bytes:
    stamp, text = line
    if options.timestamps:
        moment = datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        return f"{moment} ".encode() + text
    return text


async def _stream(request: ApiRequest, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send chunks as they come; a disconnected client ends the stream."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    with suppress(ConnectionError):
        await response.prepare(request.http)
        async for data in chunks:
            await response.write(data)
        await response.write_eof()
    return response


async def _send_messages(request: ApiRequest, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send chunks as the messages of a WebSocket, after an empty one.

    Source: k8s.io/streaming pkg/httpstream/wsstream/stream.go, `Reader.handle`, `messageCopy`.
    """
    opened = await open_websocket(request, _WEBSOCKET_PROTOCOLS)
    if not isinstance(opened, tuple):
        return opened
    socket, protocol = opened

    async def send(data: bytes) -> None:
        if protocol == _BASE64_BINARY:
            await socket.send_str(base64.b64encode(data).decode())
        else:
            await socket.send_bytes(data)

    async def copy() -> None:
        with suppress(ConnectionError):
            await send(b"")
            async for data in chunks:
                for start in range(0, len(data), _MAX_MESSAGE_BYTES):
                    await send(data[start : start + _MAX_MESSAGE_BYTES])
            await socket.close()

    copying = asyncio.create_task(copy())
    # What the client sends is ignored; its disconnect ends the stream.
    async for _ in socket:
        pass
    copying.cancel()
    with suppress(asyncio.CancelledError):
        await copying
    return socket


async def _format_lines(lines: AsyncIterator[LogLine], options: LogOptions) -> AsyncIterator[bytes]:
    """Yield lines as bytes, up to the limit."""
    remaining_bytes = options.limit
    async for line in lines:
        data = _format_line(line, options)
        if remaining_bytes is not None:
            data = data[:remaining_bytes]
            remaining_bytes -= len(data)
        yield data
        if remaining_bytes == 0:
            return


async def _list_lines(lines: Sequence[LogLine]) -> AsyncIterator[LogLine]:
    for line in lines:
        yield line


async def _new_lines(
    lines: AsyncIterator[LogLine], known: int, selected: Sequence[LogLine]
) -> AsyncIterator[LogLine]:
    for line in selected:
        yield line
    count = 0
    async for line in lines:
        count += 1
        if count > known:
            yield line
