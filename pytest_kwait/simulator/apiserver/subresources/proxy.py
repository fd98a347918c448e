"""`proxy`: HTTP requests forwarded to pods, services and kubelets.

Links in HTML pages are rewritten to lead through the proxy.

Source: k8s.io/apimachinery pkg/util/proxy/{upgradeaware,transport}.go, k8s.io/kubernetes
pkg/registry/core/{pod,service}, pkg/registry/core/node/rest/proxy.go, pkg/kubelet/server/server.go.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from pytest_kwait.simulator.api_errors import StatusError, bad_request, not_found
from pytest_kwait.simulator.apiserver.responses import json_response, text_response
from pytest_kwait.simulator.apiserver.subresources.logs import serve_logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import Session

_TAG = re.compile(r"<([A-Za-z][A-Za-z0-9]*)((?:\s+[^<>]*?)?)(/?)>")
_ATTRIBUTE = re.compile(r"""([^\s=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']+))?""")
_LINK_ATTRIBUTES = {
    "a": ("href",), "applet": ("codebase",), "area": ("href",), "audio": ("src",),
    "base": ("href",), "blockquote": ("cite",), "body": ("background",),
    "button": ("formaction",), "command": ("icon",), "del": ("cite",), "embed": ("src",),
    "form": ("action",), "frame": ("longdesc", "src"), "head": ("profile",),
    "html": ("manifest",), "iframe": ("longdesc", "src"), "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"), "ins": ("cite",), "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"), "q": ("cite",), "script": ("src",),
    "source": ("src",), "video": ("poster", "src"),
}  # fmt: skip
_NO_TLS = "tls: first record does not look like a TLS handshake"
# Of /api/v1/namespaces/NAMESPACE/pods/NAME/proxy and of /api/v1/nodes/NAME/proxy.
_NAMESPACED_PARTS, _NODE_PARTS = 8, 6
_MAX_HEAD_BYTES = 256 * 1024
_HOP_BY_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip
_UNFORWARDED_HEADERS = _HOP_BY_HOP_HEADERS | {
    "authorization",
    "host",
    "content-length",
    "accept-encoding",
}

_KUBELET_PORT = "10250"


def rewrite_links(page: str, base: str) -> str:
    """Move the page's absolute paths on its own server below `base`.

    Opening tags are written as the server does: names in lower case, values in double quotes.
    """

    def tag(tag_match: re.Match[str]) -> str:
        name = tag_match[1].lower()
        links = _LINK_ATTRIBUTES.get(name, ())
        parts = [name]
        for attribute_match in _ATTRIBUTE.finditer(tag_match[2]):
            attribute, value = attribute_match[1].lower(), (attribute_match[2] or "").strip("\"'")
            if attribute in links and value.startswith("/") and not value.startswith("//"):
                value = f"{base}{value}"
            parts.append(f'{attribute}="{value}"')
        return f"<{' '.join(parts)}{tag_match[3]}>"

    return _TAG.sub(tag, page)


class ProxyTarget(NamedTuple):
    """The target of a proxy request."""

    scheme: str
    name: str
    port: str


def split_scheme_name_port(text: str) -> ProxyTarget | None:
    """Parse `name`, `name:port` or `scheme:name:port`; None for any other text."""
    parts = text.split(":")
    if len(parts) > 3:
        return None
    scheme = parts[0] if len(parts) == 3 else ""
    name = parts[-2] if len(parts) > 1 else parts[0]
    if len(parts) == 3:
        name = parts[1]
    if scheme not in ("", "http", "https") or not name:
        return None
    return ProxyTarget(scheme, name, parts[-1] if len(parts) > 1 else "")


def _unavailable_error(text: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", text)


async def serve_pod_proxy(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Forward a request to a pod's port, by default its first.

    Raises:
        StatusError: 404 without the pod, 400 for a pod without an address, 503 for a refused
            connection.
    """
    place = split_scheme_name_port(target.name)
    if place is None:
        raise bad_request(f'invalid pod request "{target.name}"')
    pod = cluster.get("pods", place.name, target.namespace or "")
    port = place.port
    if not port:
        declared = (
            str(container_port["containerPort"])
            for container in pod["spec"].get("containers", ())
            for container_port in container.get("ports", ())
        )
        port = next(declared, "")
    addresses = pod.get("status", {}).get("podIPs") or ()
    if not addresses:
        raise bad_request("address not allowed")
    return await _forward(cluster, request, target, place.scheme, addresses[0]["ip"], port)


async def serve_service_proxy(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Forward a request to a pod of the service.

    Raises:
        StatusError: 404 without the service, 503 without endpoints or for a refused connection.
    """
    place = split_scheme_name_port(target.name)
    if place is None:
        raise bad_request(f'invalid service request "{target.name}"')
    namespace, port_name = target.namespace or "", place.port
    if port_name.lstrip("-").isdigit():
        ports = cluster.get("services", place.name, namespace)["spec"].get("ports", ())
        named = [port.get("name", "") for port in ports if port["port"] == int(port_name)]
        if not named:
            raise _unavailable_error(
                f'no service port {port_name} found for service "{place.name}"'
            )
        port_name = named[0]
    endpoints = cluster.find("endpoints", place.name, namespace)
    if endpoints is None:
        # As upstream: missing endpoints are reported as a service.
        raise not_found("", "services", place.name)
    subsets = endpoints.get("subsets")
    if not subsets:
        raise _unavailable_error(f'no endpoints available for service "{place.name}"')
    for subset in subsets:
        for port in subset.get("ports") or ():
            for address in subset.get("addresses") or ():
                if port.get("name", "") == port_name and "targetRef" in address:
                    where = (address["ip"], str(port["port"]))
                    return await _forward(cluster, request, target, place.scheme, *where)
    raise _unavailable_error(f'no endpoints available for service "{target.name}"')


def redirect_with_slash(request: ApiRequest, target: RequestInfo) -> web.Response | None:
    """Redirect to the same path with a final slash, which relative links need."""
    if target.rest or request.path.endswith("/") or request.method not in ("GET", "HEAD"):
        return None
    query = f"?{request.query_text}" if request.query_text else ""
    return web.Response(status=301, headers={"Location": f"{request.path}/{query}"})


async def _forward(
    cluster: Cluster,
    request: ApiRequest,
    target: RequestInfo,
    scheme: str,
    address: str,
    port: str,
) -> web.StreamResponse:
    redirect = redirect_with_slash(request, target)
    if redirect is not None:
        return redirect
    number = port or ("443" if scheme == "https" else "80")
    try:
        session = await _dial(cluster, address, number, tls=scheme == "https")
    except OSError:
        raise _proxy_error(_NO_TLS) from None
    if session is None:
        raise _proxy_error(f"dial tcp {address}:{number}: connect: connection refused")
    try:
        host = f"{address}:{port}" if port else address
        return await _exchange(request, target, session, host)
    finally:
        session.stop()


def _proxy_error(why: str) -> StatusError:
    return _unavailable_error(f"error trying to reach service: {why}")


async def _dial(cluster: Cluster, address: str, port: str, *, tls: bool) -> Session | None:
    if not port.isdigit():
        raise _proxy_error(f"dial tcp: lookup tcp/{port}: unknown port")
    for kubelet in cluster.kubelets.values():
        session = await kubelet.dial(address, int(port), tls=tls)
        if session is not None:
            return session
    return None


async def _exchange(
    request: ApiRequest, target: RequestInfo, session: Session, host: str
) -> web.StreamResponse:
    body: bytes = await request.http.read()
    path = f"/{target.rest}"
    if request.path.endswith("/") and not path.endswith("/"):
        path += "/"
    query = f"?{request.query_text}" if request.query_text else ""
    lines = [f"{request.method} {path}{query} HTTP/1.1", f"Host: {host}"]
    lines += [
        f"{name}: {value}"
        for name, value in request.http.headers.items()
        if name.lower() not in _UNFORWARDED_HEADERS
    ]
    if body or request.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    lines += [
        f"X-Forwarded-Host: {request.header('Host')}",
        "X-Forwarded-Proto: https",
        f"X-Forwarded-Uri: {request.path}",
        "Connection: close",
    ]
    if session.stdin is not None:
        session.stdin.send("\r\n".join([*lines, "", ""]).encode() + body)
    stream = _read_bytes(session)
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        piece = await anext(stream, b"")
        if not piece or len(head) > _MAX_HEAD_BYTES:
            raise _proxy_error("EOF")
        head += piece
    end = "\r\n\r\n" if b"\r\n\r\n" in head else "\n\n"
    top, _, rest = head.partition(end.encode())
    return await _build_response(request, target, top.decode("latin-1"), rest, stream)


async def _read_bytes(session: Session) -> AsyncIterator[bytes]:
    while (piece := await session.output.take()) is not None:
        if piece[0] == 1:
            yield piece[1]


async def _build_response(
    request: ApiRequest, target: RequestInfo, top: str, rest: bytes, stream: AsyncIterator[bytes]
) -> web.StreamResponse:
    first, *lines = top.replace("\r\n", "\n").split("\n")
    version, _, status = first.partition(" ")
    code = status[:3]
    if not version.startswith("HTTP/") or not code.isdigit() or int(code) < 100:
        raise _proxy_error(f'malformed HTTP response "{first}"')
    response = web.StreamResponse(status=int(code), reason=status[4:] or None)
    base = "/".join(
        request.path.split("/")[: _NAMESPACED_PARTS if target.namespace else _NODE_PARTS]
    )
    content_length: int | None = None
    page = False
    for line in lines:
        name, _, value = line.partition(":")
        lower, value = name.strip().lower(), value.strip()
        if lower == "content-length" and value.isdigit():
            content_length = int(value)
        if lower == "content-type":
            page = value.partition(";")[0].strip() == "text/html"
        if lower == "location" and value.startswith("/"):
            value = f"{base}{value}"
        if lower and lower not in _HOP_BY_HOP_HEADERS:
            words = (word.capitalize() for word in lower.split("-"))
            response.headers.add("-".join(words), value)
    if page and request.method != "HEAD":
        response.headers.popall("Content-Length", None)
    pieces = _iterate_body(rest, content_length, stream)
    whole = b""
    if page and request.method != "HEAD":
        text = b"".join([piece async for piece in pieces]).decode("utf-8", "surrogateescape")
        whole = rewrite_links(text, base).encode("utf-8", "surrogateescape")
        response.content_length = len(whole)
    with suppress(ConnectionError):
        await response.prepare(request.http)
        if request.method == "HEAD" or int(code) in (204, 304):
            return response
        if page:
            await response.write(whole)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    return response


async def _iterate_body(
    first: bytes, remaining_bytes: int | None, stream: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the body in pieces: `remaining_bytes` bytes, or until the stream ends."""
    piece = first
    while remaining_bytes is None or remaining_bytes > 0:
        if remaining_bytes is not None:
            piece = piece[:remaining_bytes]
            remaining_bytes -= len(piece)
        if piece:
            yield piece
        if remaining_bytes == 0:
            return
        piece = await anext(stream, b"")
        if not piece:
            return


async def serve_node_proxy(
    cluster: Cluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """Forward a request to the node's kubelet.

    Raises:
        StatusError: 404 without the node, 503 without its kubelet.
    """
    place = split_scheme_name_port(target.name)
    if place is None:
        raise bad_request(f'invalid node request "{target.name}"')
    node = cluster.get("nodes", place.name)
    redirect = redirect_with_slash(request, target)
    if redirect is not None:
        return redirect
    kubelet = cluster.kubelets.get(place.name)
    if kubelet is None or place.port not in ("", _KUBELET_PORT):
        addresses = node.get("status", {}).get("addresses") or [{"address": place.name}]
        address = f"{addresses[0]['address']}:{place.port or _KUBELET_PORT}"
        text = f"error trying to reach service: dial tcp {address}: connect: connection refused"
        raise StatusError(503, "ServiceUnavailable", text)
    match target.rest.strip("/").split("/"):
        case ["pods"]:
            return json_response(request, kubelet.pods())
        case ["runningpods"]:
            return json_response(request, kubelet.running_pods())
        case ["healthz"]:
            return text_response("ok")
        case ["metrics"]:
            # Not at import: prometheus-client is loaded by the first scrape.
            from pytest_kwait.simulator.apiserver.metrics import collect_kubelet, metrics_response

            return metrics_response(collect_kubelet(kubelet))
        case ["containerLogs", namespace, pod, container]:
            if cluster.find("pods", pod, namespace) is None:
                return text_response(f'pod "{pod}" does not exist\n', 404)
            request.query["container"] = container
            return await serve_logs(
                cluster, request, replace(target, name=pod, namespace=namespace)
            )
    return text_response("404 page not found\n", 404)
