"""Proxy requests to remote API servers, and check that they answer.

Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from aiohttp import web

from pytest_kwait.simulator.admission.webhooks.webhook_client import connection_error_text
from pytest_kwait.simulator.aggregator.api_services import Backend, resolve_backend
from pytest_kwait.simulator.aggregator.metrics_api import METRICS_API_SERVICE, serve_metrics
from pytest_kwait.simulator.apiserver.discovery import to_aggregated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["proxy_request", "start_availability_check"]

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
_tasks: set[asyncio.Task[None]] = set()


def start_availability_check(
    backend: Backend, obj: Obj, tell: Callable[[tuple[str, str], list[Obj] | None], None]
) -> None:
    """Request a backend's resource list and report the result later."""
    task = asyncio.get_running_loop().create_task(_check_backend(backend, obj, tell))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _check_backend(
    backend: Backend, obj: Obj, tell: Callable[[tuple[str, str], list[Obj] | None], None]
) -> None:
    spec = obj["spec"]
    url = f"{backend.url}/apis/{spec['group']}/{spec['version']}"
    limit = aiohttp.ClientTimeout(total=_CHECK_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(url, ssl=backend.trust(), server_hostname=backend.name) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, ssl.SSLError) as error:
        why = f'Get "{url}": {connection_error_text(error, url)}'
        tell(("FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"), None)
        return
    if 200 <= answer.status < 300:
        tell(
            ("Passed", "all checks passed"),
            _parse_resource_list(body, spec["group"], spec["version"]),
        )
    else:
        why = f"bad status from {url}: {answer.status}"
        tell(("FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"), None)


def _parse_resource_list(body: bytes, group: str, version: str) -> list[Obj] | None:
    """Return the resources of an APIResourceList; None if it is invalid."""
    try:
        listed = msgspec.json.decode(body)
    except ValueError:
        return None
    entries = listed.get("resources") if isinstance(listed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        return None
    return to_aggregated(entries, group, version)


async def proxy_request(api: Cluster, request: ApiRequest, obj: Obj) -> web.StreamResponse:
    """Forward a request with its user; 503 while the server is unavailable."""
    if obj is METRICS_API_SERVICE:
        return serve_metrics(api, request)
    conditions = (obj.get("status") or {}).get("conditions") or ()
    backend = resolve_backend(api, obj)
    if backend is None or not any(one["status"] == "True" for one in conditions):
        return _unavailable()
    url = f"{backend.url}{request.http.raw_path}"
    headers = [(k, v) for k, v in request.http.headers.items() if k.lower() not in _HOP_HEADERS]
    headers.append(("X-Remote-User", request.caller.user))
    headers += [("X-Remote-Group", group) for group in request.caller.groups]
    limit = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    options: dict[str, Any] = {"ssl": backend.trust(), "server_hostname": backend.name}
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, auto_decompress=False) as session,
            session.request(
                request.method,
                url,
                headers=headers,
                data=await request.http.read(),
                allow_redirects=False,
                **options,
            ) as answer,
        ):
            return await _forward_response(request, answer)
    except (aiohttp.ClientConnectionError, OSError, TimeoutError) as error:
        return web.Response(
            text=f"error trying to reach service: {connection_error_text(error, url)}", status=503
        )


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
