"""The API server: authenticates, authorizes, routes and answers requests.

Source: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.discovery import serve_discovery
from pytest_kwait.simulator.apiserver.filters import AuthFilters, check_read_only, explore_request
from pytest_kwait.simulator.apiserver.handlers.resources import ResourceHandler
from pytest_kwait.simulator.apiserver.healthz import serve_healthz
from pytest_kwait.simulator.apiserver.http_server import (
    HEADER_SECONDS,
    HttpServer,
    find_malformed_request,
)
from pytest_kwait.simulator.apiserver.index import serve_index
from pytest_kwait.simulator.apiserver.openapi import serve_openapi
from pytest_kwait.simulator.apiserver.openid_metadata import serve_openid_metadata
from pytest_kwait.simulator.apiserver.request import ApiRequest, parse_request_info
from pytest_kwait.simulator.apiserver.request_metrics import RequestMetrics
from pytest_kwait.simulator.apiserver.responses import (
    add_response_headers,
    error_response,
    text_response,
)
from pytest_kwait.simulator.apiserver.secure_serving import SecureListener
from pytest_kwait.simulator.apiserver.statusz import serve_statusz
from pytest_kwait.simulator.apiserver.subresources.handler import SubresourceHandler
from pytest_kwait.simulator.registry.generic_store import LARGE_BYTES

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.filters import StaticTokens
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj

    AggregatedProxy = Callable[[ApiServerCluster, ApiRequest, Obj], Awaitable[web.StreamResponse]]

_FAULTS_PREFIX = "/kwait/v1/"
"""The embedded cluster's own API, for administrators."""


class ApiServer:
    """The API server of a cluster.

    Args:
        credentials: the static bearer tokens.
        proxy: answers a request for an aggregated group, given its APIService.
        header_seconds: the time limit for a request's head.
        read_only_message: the refusal of writes and connections; empty to allow them.
    """

    def __init__(
        self,
        cluster: ApiServerCluster,
        credentials: StaticTokens,
        proxy: AggregatedProxy,
        header_seconds: float = HEADER_SECONDS,
        *,
        read_only_message: str = "",
    ) -> None:
        self._cluster = cluster
        self._read_only_message = read_only_message
        self._proxy = proxy
        self._header_seconds = header_seconds
        self._gate = AuthFilters(cluster, credentials)
        self._metrics = RequestMetrics(cluster)
        self._resources = ResourceHandler(cluster, SubresourceHandler(cluster), self._gate)
        self._http_listener: SecureListener | None = None
        self._web: HttpServer | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen and return the port; port 0 chooses a free one.

        Raises:
            OSError: the port is taken or the address is not local.
        """
        self._web = HttpServer(self.handle, self._header_seconds)
        self._http_listener = SecureListener(self._web, tls, self._header_seconds)
        return self._http_listener.open(host, port)

    async def stop(self) -> None:
        """Close the listener and all connections, open watches included."""
        if self._http_listener is not None:
            self._http_listener.close()
        if self._web is not None:
            for protocol in self._web.connections:
                if protocol.transport is not None:
                    protocol.transport.abort()
            await async_sleep(0)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        fault = find_malformed_request(http)
        if fault:
            refusal = text_response(fault, int(fault[:3]))
            refusal.force_close()
            return refusal
        request = ApiRequest(http)
        try:
            answer = await self._answer(request)
        except StatusError as error:
            answer = error_response(request, error)
        self._metrics.count_request(request, parse_request_info(request.path), answer.status)
        if not answer.prepared:
            add_response_headers(answer, request, self._cluster)
        return answer

    async def _answer(self, request: ApiRequest) -> web.StreamResponse:
        if len(request.query_text) >= LARGE_BYTES:
            await asyncio.to_thread(lambda: request.query)
        target = parse_request_info(request.path)
        self._gate.authenticate(request, target)
        self._gate.authorize(request, target)
        if self._read_only_message:
            check_read_only(request, target, self._read_only_message)
        if self._cluster.kinds.elsewhere:
            obj = self._cluster.kinds.elsewhere.get(_parse_group_version(request.path))
            if obj is not None:
                return await self._proxy(self._cluster, request, obj)
        if target is not None:
            if self._cluster.faults.requests:
                await self._cluster.faults.apply_to_request(request, target)
            if self._cluster.clock.exploration is not None:
                explore_request(self._cluster, request, target)
            answer = await self._resources.handle(request, target)
        elif request.path.startswith(_FAULTS_PREFIX):
            # Few suites inject faults.
            from pytest_kwait.simulator.apiserver.faults_api import serve_faults_api

            answer = await serve_faults_api(self._cluster, request)
        else:
            answer = self._serve_non_resource(request)
        return text_response("404 page not found\n", 404) if answer is None else answer

    def _serve_non_resource(self, request: ApiRequest) -> web.Response | None:
        kinds = self._cluster.kinds
        return (
            serve_healthz(request)
            or self._metrics.serve(request)
            or serve_statusz(request, self._cluster, self._metrics.started)
            or serve_index(request, kinds)
            or serve_discovery(request, kinds)
            or serve_openapi(request, kinds)
            or serve_openid_metadata(request, self._cluster.accounts)
        )


def _parse_group_version(path: str) -> tuple[str, str]:
    """Return the group and version in a path; empty strings if there are none."""
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" and len(parts) > 3 else ("", "")
