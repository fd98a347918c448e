"""Container logs.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, LogLocation;
pkg/registry/core/pod/rest/log.go.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from pytest_kwait.simulator.api_errors import bad_request, method_not_allowed
from pytest_kwait.simulator.apiserver.subresources.log_options import read_log_options
from pytest_kwait.simulator.apiserver.subresources.pod_places import choose_container, find_kubelet
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.apiserver.subresources.log_options import LogOptions
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.kubelet_api import LogLine
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_logs"]


async def serve_logs(
    api: SimulatedCluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Send what a container has written, and with `follow` what it writes until it ends.

    Raises:
        StatusError: 400 for a container that is not there or has not started.
    """
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    namespace = target.namespace or ""
    options = read_log_options(request, target.name)
    pod = api.get("pods", target.name, namespace)
    container = choose_container(pod, options.container)
    if not pod["spec"].get("nodeName"):
        return web.Response(status=204, content_type="text/plain")
    kubelet = find_kubelet(api, pod)
    _check_started(pod, container, previous=options.previous)
    lines = kubelet.logs(namespace, target.name, container, previous=options.previous)
    wanted = _select_lines(lines, options, api.clock.time())
    if options.follow and not options.previous:
        following = kubelet.follow(namespace, target.name, container)
        return await _follow(request, following, len(lines), wanted, options)
    body = b"".join(_format_line(line, options) for line in wanted)
    return web.Response(body=body[: options.limit], content_type="text/plain")


def _check_started(pod: Obj, container: str, *, previous: bool) -> None:
    name = name_of(pod)
    status = pod.get("status", {})
    state: Obj = {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(field, ()):
            if one["name"] == container:
                state = one
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
        return f"{moment} ".encode() + text + b"\n"
    return text + b"\n"


async def _follow(
    request: ApiRequest,
    lines: AsyncIterator[LogLine],
    known: int,
    wanted: Sequence[LogLine],
    options: LogOptions,
) -> web.StreamResponse:
    """Send those of the `known` lines that are wanted, then all that follow."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    left = options.limit
    # A client that goes ends the stream and nothing else.
    with suppress(ConnectionError):
        await response.prepare(request.http)
        async for line in _new_lines(lines, known, wanted):
            data = _format_line(line, options)
            if left is not None:
                data = data[:left]
                left -= len(data)
            await response.write(data)
            if left == 0:
                break
        await response.write_eof()
    return response


async def _new_lines(
    lines: AsyncIterator[LogLine], known: int, wanted: Sequence[LogLine]
) -> AsyncIterator[LogLine]:
    for line in wanted:
        yield line
    seen = 0
    async for line in lines:
        seen += 1
        if seen > known:
            yield line
