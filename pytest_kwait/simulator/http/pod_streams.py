"""Commands in containers, over WebSocket.

Source: k8s.io/apimachinery pkg/util/remotecommand/constants.go, k8s.io/kubelet
pkg/cri/streaming/remotecommand: one byte of channel in front of each frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.http.logs import choose_container
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.status_error import StatusError, bad_request, internal_error

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_exec"]

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _ERROR = b"\x01", b"\x02", b"\x03"


async def serve_exec(api: ClusterApi, request: ApiRequest, target: Target) -> web.StreamResponse:
    """Run a command and send what it writes, then how it ended.

    Raises:
        StatusError: 400 for a pod that is nowhere, or a client that speaks no WebSocket.
    """
    pod = api.get("pods", target.name, target.namespace or "")
    container = choose_container(pod, request.query.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
    if request.header("Upgrade").lower() != "websocket":
        raise StatusError(
            400, "BadRequest", "Upgrade request required: this server streams over WebSocket alone"
        )
    kubelet = api.kubelets.get(node)
    if kubelet is None or not _running(pod, container):
        raise internal_error(f'unable to upgrade connection: container not found ("{container}")')
    argv = [value for name, value in request.queries if name == "command"]
    socket = web.WebSocketResponse(protocols=_PROTOCOLS, autoclose=False)
    await socket.prepare(request.http)
    if target.subresource == "exec":
        execution = kubelet.exec(target.namespace or "", target.name, container, argv)
        code, out, error = execution if isinstance(execution, tuple) else await execution
    else:
        lines = kubelet.logs(target.namespace or "", target.name, container)
        code, out, error = 0, b"".join(text + b"\n" for _, text in lines), b""
    for channel, data in ((_STDOUT, out), (_STDERR, error)):
        if data:
            await socket.send_bytes(channel + data)
    await socket.send_bytes(_ERROR + msgspec.json.encode(_outcome(code)))
    await socket.close()
    return socket


def _running(pod: Obj, container: str) -> bool:
    return any(
        one["name"] == container and "running" in one.get("state", {})
        for one in pod.get("status", {}).get("containerStatuses", ())
    )


def _outcome(code: int) -> Obj:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    message = f"command terminated with non-zero exit code: exit status {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
