"""Container logs.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, LogLocation;
pkg/registry/core/pod/rest/log.go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.status_error import bad_request, internal_error, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.kubelets import LogLine
    from pytest_kwait.simulator.objects import Obj

__all__ = ["choose_container", "serve_logs"]

_DEFAULT = "kubectl.kubernetes.io/default-container"


def _containers(pod: Obj, *fields: str) -> list[str]:
    return [one["name"] for field in fields for one in pod["spec"].get(field, ())]


def choose_container(pod: Obj, asked: str) -> str:
    """The container that is meant.

    Raises:
        StatusError: 400, there is no such one or it could be several.
    """
    every = _containers(pod, "containers", "initContainers", "ephemeralContainers")
    if asked:
        if asked not in every:
            raise bad_request(f"container {asked} is not valid for pod {name_of(pod)}")
        return asked
    plain = _containers(pod, "containers")
    default = (pod["metadata"].get("annotations") or {}).get(_DEFAULT, "")
    if len(plain) == 1:
        return plain[0]
    if default in every:
        return str(default)
    text = (
        f"a container name must be specified for pod {name_of(pod)}, choose one of: "
        f"[{' '.join(plain)}]"
    )
    inits = _containers(pod, "initContainers")
    if inits:
        text += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(text)


async def serve_logs(api: ClusterApi, request: ApiRequest, target: Target) -> web.StreamResponse:
    """Send what a container has written, and with `follow` what it writes until it ends.

    Raises:
        StatusError: 400 for a container that is not there or has not started.
    """
    if request.method != "GET":
        raise method_not_allowed()
    namespace = target.namespace or ""
    pod = api.get("pods", target.name, namespace)
    container = choose_container(pod, request.query.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        return web.Response(status=204, content_type="text/plain")
    kubelet = api.kubelets.get(node)
    if kubelet is None:
        raise internal_error(
            f'Get "https://{node}:10250/containerLogs/{namespace}/{target.name}/{container}": '
            "dial tcp: connect: connection refused"
        )
    previous = request.flag("previous")
    _check_started(pod, container, previous=previous)
    stamped = request.flag("timestamps")
    if request.flag("follow") and not previous:
        return await _follow(request, kubelet.follow(namespace, target.name, container), stamped)
    lines = _wanted(
        request, kubelet.logs(namespace, target.name, container, previous=previous), api
    )
    body = b"".join(_line(line, stamped) for line in lines)
    limit = request.number("limitBytes")
    if limit is not None:
        body = body[:limit]
    return web.Response(body=body, content_type="text/plain")


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


def _wanted(request: ApiRequest, lines: Sequence[LogLine], api: ClusterApi) -> Sequence[LogLine]:
    since: float | None = None
    seconds = request.number("sinceSeconds")
    if seconds is not None:
        since = api.clock.time() - seconds
    elif request.query.get("sinceTime"):
        try:
            since = datetime.fromisoformat(request.query["sinceTime"]).timestamp()
        except ValueError:
            raise bad_request(f'parsing time "{request.query["sinceTime"]}" as RFC 3339') from None
    if since is not None:
        lines = [line for line in lines if line[0] >= since]
    tail = request.number("tailLines")
    if tail is not None:
        lines = lines[len(lines) - min(tail, len(lines)) :]
    return lines


def _line(line: LogLine, stamped: bool) -> bytes:
    stamp, text = line
    if stamped:
        moment = datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        return f"{moment} ".encode() + text + b"\n"
    return text + b"\n"


async def _follow(
    request: ApiRequest, lines: AsyncIterator[LogLine], stamped: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request.http)
    async for line in lines:
        await response.write(_line(line, stamped))
    await response.write_eof()
    return response
