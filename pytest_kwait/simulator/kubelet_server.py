"""The HTTPS ports of the kubelets, to which a real API server connects for logs, exec and ports.

WebSockets alone are spoken; an API server sends them on to nodes that declare the feature.

Source: k8s.io/kubernetes pkg/kubelet/server/server.go; pkg/registry/core/pod/strategy.go,
`streamParams`.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from aiohttp import web

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.http_server import HttpServer
from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
from pytest_kwait.simulator.apiserver.secure_serving import SecureListener
from pytest_kwait.simulator.apiserver.subresources.httpstream import plain_text_error
from pytest_kwait.simulator.apiserver.subresources.logs import serve_logs
from pytest_kwait.simulator.apiserver.subresources.proxy import serve_node_proxy
from pytest_kwait.simulator.apiserver.subresources.streaming import (
    serve_port_forward,
    serve_remote_command,
)
from pytest_kwait.simulator.kubelet.kubelet import KUBELET_PORT

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_HOST = "127.0.0.1"
_FEATURE = "ExtendWebSocketsToKubelet"

_SUBRESOURCES = {
    "containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward",
}  # fmt: skip
_PARAMETERS = {"input": "stdin", "output": "stdout", "error": "stderr", "port": "ports"}
"""The API's names of the kubelet's parameters."""


class KubeletServer:
    """The ports of all kubelets of a cluster.

    Args:
        certificate: the file of the serving certificate, and of its key.
        authority: the file of who signs the API server's certificate.

    Raises:
        OSError: a file cannot be used.
    """

    def __init__(self, cluster: Cluster, certificate: tuple[Path, Path], authority: Path) -> None:
        self._cluster = cluster
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(*certificate)
        self._tls.load_verify_locations(authority)
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._servers: list[tuple[HttpServer, SecureListener]] = []

    def start(self) -> dict[tuple[str, int], tuple[str, int]]:
        """Listen, and declare the feature in the status of all nodes.

        Returns:
            the host and port of each kubelet by the address and port of its node.

        Raises:
            StatusError: the server refused.
        """
        return {
            (self._start(name), KUBELET_PORT): (_HOST, self._open(name))
            for name in self._cluster.kubelets
        }

    def _start(self, name: str) -> str:
        """Declare the feature of a node; return its address."""

        def declare(node: Obj) -> None:
            node["status"]["declaredFeatures"] = [_FEATURE]

        node = self._cluster.modify("nodes", name, "", declare, subresource="status")
        address: str = node["status"]["addresses"][0]["address"]
        return address

    def _open(self, name: str) -> int:
        """Listen for a node; return the port."""
        server = HttpServer(partial(self._handle, name))
        listener = SecureListener(server, self._tls)
        self._servers.append((server, listener))
        return listener.open(_HOST, 0)

    def stop(self) -> None:
        """Close the ports and all connections."""
        for server, listener in self._servers:
            listener.close()
            for protocol in server.connections:
                if protocol.transport is not None:
                    protocol.transport.abort()

    async def _handle(self, node: str, http: web.BaseRequest) -> web.StreamResponse:
        request = ApiRequest(http)
        target = _parse_path(request)
        try:
            if target is None:
                # What concerns the node alone, as the list of its pods.
                target = RequestInfo(
                    "", "v1", "nodes", None, node, "proxy", request.path.strip("/")
                )
                return await serve_node_proxy(self._cluster, request, target)
            if target.subresource == "log":
                answer = await serve_logs(self._cluster, request, target)
                return await _send_chunked(http, answer)
            if target.subresource == "portforward":
                return await serve_port_forward(self._cluster, request, target)
            return await serve_remote_command(self._cluster, request, target)
        except StatusError as error:
            return plain_text_error(error.message, error.code)


async def _send_chunked(http: web.BaseRequest, answer: web.StreamResponse) -> web.StreamResponse:
    """Send a body before its end, as a kubelet does.

    What arrives together with its end is lost to clients that read logs by WebSocket. Source:
    k8s.io/streaming pkg/httpstream/wsstream/stream.go, `Reader.handle`.
    """
    if not isinstance(answer, web.Response) or not isinstance(answer.body, bytes):
        return answer
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    with suppress(ConnectionError):
        await response.prepare(http)
        await response.write(answer.body)
        await response.write_eof()
    return response


def _parse_path(request: ApiRequest) -> RequestInfo | None:
    """Return the subresource that a kubelet's path stands for; the query becomes the API's."""
    first, *parts = request.path.removeprefix("/").split("/")
    subresource = _SUBRESOURCES.get(first)
    if subresource is None or len(parts) < 2:
        return None
    namespace, pod = parts[:2]
    query = [(_PARAMETERS.get(name, name), value) for name, value in request.queries]
    if subresource != "portforward":
        query.append(("container", parts[-1]))
    request.query_text = urlencode(query)
    return RequestInfo("", "v1", "pods", namespace, pod, subresource)
