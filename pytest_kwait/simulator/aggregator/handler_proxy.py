"""Proxy requests to remote API servers, check that they answer, and serve `metrics.k8s.io`.

The API group of a metrics server is served once a pod reports usage.

Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go; kubernetes-sigs/metrics-server
pkg/api.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import web

from pytest_kwait.apimachinery.quantities import canonicalize_quantity
from pytest_kwait.simulator.admission.webhooks.webhook_client import connection_error_text
from pytest_kwait.simulator.aggregator.api_services import (
    AggregatedServer,
    AvailabilityController,
    resolve_backend,
)
from pytest_kwait.simulator.api_errors import StatusError, method_not_allowed, resource_not_found
from pytest_kwait.simulator.apiserver.discovery import to_aggregated
from pytest_kwait.simulator.apiserver.request import parse_request_info
from pytest_kwait.simulator.apiserver.responses import json_response
from pytest_kwait.simulator.fake_metrics import read_container_usage
from pytest_kwait.simulator.network.pod_network import make_service_connector
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster

_VERSION = "metrics.k8s.io/v1beta1"
_WINDOW = "15s"
METRICS_API_SERVICE: Obj = {
    "metadata": {"name": "v1beta1.metrics.k8s.io"},
    "spec": {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "service": {"name": "metrics-server", "namespace": "kube-system"},
    },
}
"""The APIService of the group in discovery; it is not stored."""

# Source: k8s.io/kube-aggregator pkg/controllers/status/remote/remote_available_controller.go.
_AGGREGATOR = Caller("system:kube-aggregator", ("system:masters",))
_CHECK_SECONDS = 6.0
_CONNECT_SECONDS = 10.0
_UNAVAILABLE = "service unavailable\n"
# Hop-by-hop headers and credentials.
_HOP_HEADERS = frozenset(
    {
        "authorization", "connection", "content-length", "host", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade", "proxy-authorization", "proxy-connection",
    }
)  # fmt: skip
# Those that aiohttp adds where the client has sent none.
_OWN_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# Set by the proxy alone, which the server believes.
_IDENTITY_HEADERS = ("x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-")
# Of those that a header's name may have and `quote` encodes.
_HEADER_CHARACTERS = "!#$&'*+^`|"
_tasks: set[asyncio.Task[None]] = set()


def register_metrics_api(cluster: ApiServerCluster) -> None:
    """Serve the group from now on."""
    key = ("metrics.k8s.io", "v1beta1")
    cluster.kinds.elsewhere[key] = METRICS_API_SERVICE
    cluster.kinds.discovered[key] = to_aggregated(_discovery()["resources"], *key)


def serve_metrics(cluster: ApiServerCluster, request: ApiRequest) -> web.Response:
    """Answer a request for metrics of nodes or pods, or for discovery.

    Raises:
        StatusError: 404 or 405.
    """
    if request.method != "GET":
        raise method_not_allowed()
    target = parse_request_info(request.path)
    if target is None:
        return json_response(request, _discovery())
    if target.resource not in ("nodes", "pods") or target.subresource or target.watch:
        raise resource_not_found()
    pods = target.resource == "pods"
    kind = "PodMetrics" if pods else "NodeMetrics"
    metrics = _pod_metrics(cluster, target) if pods else _node_metrics(cluster, target)
    if target.name:
        for metric in metrics:
            return json_response(request, {"kind": kind, "apiVersion": _VERSION, **metric})
        name = f"{target.namespace}/{target.name}" if pods else target.name
        text = f'{kind.lower()}.metrics.k8s.io "{name}" not found'
        details = {"name": name, "group": "metrics.k8s.io", "kind": kind.lower()}
        raise StatusError(404, "NotFound", text, details=details)
    selector = parse_labels(request.query.get("labelSelector", ""))
    items = [metric for metric in metrics if selector.matches(labels_of(metric))]
    body = {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": items}
    return json_response(request, body)


def _discovery() -> Obj:
    resources = [
        {
            "name": name, "singularName": "", "namespaced": name == "pods", "kind": kind,
            "verbs": ["get", "list"],
        }
        for name, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics"))
    ]  # fmt: skip
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _VERSION,
        "resources": resources,
    }


def _pod_metrics(cluster: ApiServerCluster, target: RequestInfo) -> Iterator[Obj]:
    for pod in cluster.list("pods", target.namespace):
        used = read_container_usage(pod)
        if not used or (target.name and name_of(pod) != target.name):
            continue
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        containers = [{"name": name, "usage": _format_usage(usage)} for name, usage in used.items()]
        yield {**_metrics_metadata(cluster, pod), "containers": containers}


def _node_metrics(cluster: ApiServerCluster, target: RequestInfo) -> Iterator[Obj]:
    """Return the usage of nodes: the sum of their pods."""
    for node in cluster.list("nodes"):
        if target.name and name_of(node) != target.name:
            continue
        pods = [pod for pod in cluster.list("pods") if pod["spec"].get("nodeName") == name_of(node)]
        total = {"cpu": 0, "memory": 0}
        for usage in _usages(pods):
            for name in total:
                total[name] += usage.get(name, 0)
        yield {**_metrics_metadata(cluster, node), "usage": _format_usage(total)}


def _usages(pods: Iterable[Obj]) -> Iterator[dict[str, int]]:
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running":
            yield from read_container_usage(pod).values()


def _metrics_metadata(cluster: ApiServerCluster, obj: Obj) -> Obj:
    stamp = cluster.clock.stamp()
    metadata: Obj = {"name": name_of(obj), "creationTimestamp": stamp}
    if namespace_of(obj):
        metadata["namespace"] = namespace_of(obj)
    if labels_of(obj):
        metadata["labels"] = labels_of(obj)
    return {"metadata": metadata, "timestamp": stamp, "window": _WINDOW}


def _format_usage(usage: dict[str, int]) -> dict[str, str]:
    return {
        name: f"{amount // 1024_000}Ki" if name == "memory" else canonicalize_quantity(f"{amount}m")
        for name, amount in usage.items()
    }


def start_availability_controller(cluster: ApiServerCluster) -> None:
    """Start the controller of the APIServices of other servers."""
    AvailabilityController(cluster, start_availability_check)


def start_availability_check(
    backend: AggregatedServer, obj: Obj, report: Callable[[tuple[str, str], list[Obj] | None], None]
) -> None:
    """Request a backend's resource list and report the result later."""
    task = asyncio.get_running_loop().create_task(_check_backend(backend, obj, report))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _check_backend(
    backend: AggregatedServer, obj: Obj, report: Callable[[tuple[str, str], list[Obj] | None], None]
) -> None:
    spec = obj["spec"]
    url = f"{backend.url}/apis/{spec['group']}/{spec['version']}"
    limit = aiohttp.ClientTimeout(total=_CHECK_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(
                connector=await _make_connector(backend), timeout=limit
            ) as session,
            session.get(
                url,
                headers=_list_identity_headers(_AGGREGATOR),
                ssl=backend.trust(),
                server_hostname=backend.name,
            ) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, ssl.SSLError) as error:
        why = f'Get "{url}": {connection_error_text(error, url)}'
        report(("FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"), None)
        return
    if 200 <= answer.status < 300:
        report(
            ("Passed", "all checks passed"),
            _parse_resource_list(body, spec["group"], spec["version"]),
        )
    else:
        why = f"bad status from {url}: {answer.status}"
        report(("FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"), None)


async def _make_connector(backend: AggregatedServer) -> aiohttp.TCPConnector | None:
    """Return the connector to a service of the cluster; None for other hosts."""
    if backend.service_of is None:
        return None
    return await make_service_connector(backend.service_of)


def _parse_resource_list(body: bytes, group: str, version: str) -> list[Obj] | None:
    """Return the resources of an APIResourceList; None if it is invalid."""
    try:
        listed = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError):
        return None
    entries = listed.get("resources") if isinstance(listed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    return to_aggregated(entries, group, version)


async def proxy_request(
    cluster: ApiServerCluster, request: ApiRequest, obj: Obj
) -> web.StreamResponse:
    """Forward a request with its user; 503 while the server is unavailable."""
    if obj is METRICS_API_SERVICE:
        return serve_metrics(cluster, request)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    backend = resolve_backend(cluster, obj)
    if backend is None or not any(condition["status"] == "True" for condition in conditions):
        return _unavailable()
    url = f"{backend.url}{request.http.raw_path}"
    headers = [
        (name, value)
        for name, value in request.http.headers.items()
        if name.lower() not in _HOP_HEADERS and not name.lower().startswith(_IDENTITY_HEADERS)
    ]
    headers += _list_identity_headers(request.caller)
    limit = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    options: dict[str, Any] = {"ssl": backend.trust(), "server_hostname": backend.name}
    try:
        async with (
            aiohttp.ClientSession(
                connector=await _make_connector(backend), timeout=limit, auto_decompress=False
            ) as session,
            session.request(
                request.method,
                url,
                headers=headers,
                data=await request.http.read(),
                allow_redirects=False,
                skip_auto_headers=_OWN_HEADERS,
                **options,
            ) as answer,
        ):
            return await _forward_response(request, answer)
    except (aiohttp.ClientConnectionError, OSError, TimeoutError) as error:
        return web.Response(
            text=f"error trying to reach service: {connection_error_text(error, url)}", status=503
        )


def _list_identity_headers(caller: Caller) -> list[tuple[str, str]]:
    """Return the headers that name a user.

    Source: k8s.io/client-go transport/round_trippers.go, `SetAuthProxyHeaders`.
    """
    headers = [("X-Remote-User", caller.user)]
    if caller.uid:
        headers.append(("X-Remote-Uid", caller.uid))
    headers += [("X-Remote-Group", group) for group in caller.groups]
    for key, values in caller.extra.items():
        name = f"X-Remote-Extra-{quote(key, safe=_HEADER_CHARACTERS)}"
        headers += [(name, value) for value in values]
    return headers


async def _forward_response(
    request: ApiRequest, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    for name, value in answer.headers.items():
        if name.lower() not in _HOP_HEADERS:
            response.headers.add(name, value)
    await response.prepare(request.http)
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


def _unavailable() -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    return web.Response(text=_UNAVAILABLE, status=503, headers=headers)
