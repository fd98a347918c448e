"""The HTTP server: listen, authenticate, authorize, route and answer requests.

TLS starts with a client's first bytes; until then a connection costs only a socket. Limits of a
connection: time and size of a request's head, idle time, malformed HTTP.

Health checks pass as long as the server answers. Names, labels and types of metrics are those of
kube-apiserver; unmeasured metrics are left out.

Source: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain), secure_serving.go,
healthz/healthz.go and routes/index.go, pkg/endpoints/metrics/metrics.go,
pkg/endpoints/filters/requestinfo.go; k8s.io/component-base metrics/prometheus/slis and
zpages/statusz; k8s.io/kubernetes pkg/controlplane; Go's net/http server.go
(`tlsRecordHeaderLooksLikeHTTP`).
"""

from __future__ import annotations

import asyncio
import errno
import gc
import re
import socket
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError, method_not_allowed
from pytest_kwait.simulator.apiserver.discovery import list_groups, serve_discovery
from pytest_kwait.simulator.apiserver.filters import AuthFilters, check_read_only, explore_request
from pytest_kwait.simulator.apiserver.handlers.resources import ResourceHandler
from pytest_kwait.simulator.apiserver.openapi import serve_openapi
from pytest_kwait.simulator.apiserver.request import SPECIAL_VERBS, ApiRequest, parse_request_info
from pytest_kwait.simulator.apiserver.responses import (
    add_response_headers,
    error_response,
    json_response,
    text_response,
)
from pytest_kwait.simulator.apiserver.subresources.handler import SubresourceHandler

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator

    from aiohttp.web_protocol import _RequestHandler

    from pytest_kwait.simulator.apiserver.filters import StaticTokens
    from pytest_kwait.simulator.apiserver.request import RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Scheme

_FIRST_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
)
_LAST_HOOKS = ("apiservice-openapi-controller", "apiservice-openapiv3-controller")
_HOOKS = (
    *(f"poststarthook/{name}" for name in _FIRST_HOOKS),
    "autoregister-completion",
    *(f"poststarthook/{name}" for name in _LAST_HOOKS),
)
_LIVENESS_CHECKS = ("ping", "log", "loopback-serving-certificate", "etcd", *_HOOKS)

HEALTH_CHECKS: dict[str, tuple[str, ...]] = {
    "healthz": _LIVENESS_CHECKS,
    "livez": _LIVENESS_CHECKS,
    "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_HOOKS, "shutdown"),
}
"""The checks of each path, in the order of the verbose output."""


def serve_healthz(request: ApiRequest) -> web.Response | None:
    """Serve a health path; None for any other path."""
    group, _, name = request.path.removeprefix("/").partition("/")
    checks = HEALTH_CHECKS.get(group)
    if checks is None:
        return None
    if name:
        return text_response("ok", nosniff=False) if name in checks else None
    if request.path.endswith("/"):
        return None
    if "verbose" not in request.query:
        return text_response("ok")
    excluded = {value for key, value in request.queries if key == "exclude"}
    lines = [f"[+]{check}{' excluded:' if check in excluded else ''} ok" for check in checks]
    unknown = ",".join(f'"{check}"' for check in sorted(excluded - set(checks)))
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    lines.append(f"{group} check passed")
    return text_response("\n".join(lines) + "\n")


METRICS_PATHS = ("/metrics", "/metrics/slis", "/statusz")
"""The served paths."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_STATUSZ_NOTE = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)


class _RequestLabels(NamedTuple):
    """The labels of a request in `apiserver_request_total`."""

    code: int
    dry_run: str
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class RequestMetrics:
    """Counts requests, and serves metrics and the status page."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._answered: Counter[_RequestLabels] = Counter()
        self._started = api.clock.time()

    def count_request(self, request: ApiRequest, target: RequestInfo | None, code: int) -> None:
        """Count a request and its status code."""
        method = request.method if request.method in _METHODS else "other"
        kinds = self._api.kinds.served(target.group, target.version) if target else None
        kind = kinds.get(target.resource) if kinds and target else None
        if target is None or kind is None:
            # Clients may request anything: unknown resources share one series.
            self._answered[_RequestLabels(code, "", "", "", "", "", method, "")] += 1
            return
        subresource = target.subresource if target.subresource in kind.subresources else ""
        scope = _scope(method, target)
        labels = _RequestLabels(
            code,
            "All" if request.query.get("dryRun") == "All" else "",
            kind.group,
            kind.plural,
            scope,
            subresource,
            _verb(method, request, target, scope, subresource),
            kind.version,
        )
        self._answered[labels] += 1

    def serve(self, request: ApiRequest) -> web.Response | None:
        """Serve a metrics path; None for any other path."""
        if request.path not in METRICS_PATHS:
            return None
        if request.path == "/statusz":
            return text_response(self._status(), nosniff=False)
        # Not at import: prometheus-client is loaded by the first scrape.
        from pytest_kwait.simulator.apiserver import metrics

        if request.path == "/metrics/slis":
            return metrics.metrics_response(metrics.collect_health_checks(HEALTH_CHECKS))
        requests = (
            ({**labels._asdict(), "code": str(labels.code)}, count)
            for labels, count in sorted(self._answered.items())
        )
        return metrics.metrics_response(
            metrics.collect_api_server(self._api, requests, self._started)
        )

    def _status(self) -> str:
        version = self._api.kinds.version
        up = int(self._api.clock.time() - self._started)
        started = datetime.fromtimestamp(self._started, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
        paths = sorted(
            ["/metrics", "/statusz", "/version", *(f"/{group}" for group in HEALTH_CHECKS)]
        )
        facts = {
            "Started": started,
            "Up": f"{up // 3600} hr {up % 3600 // 60:02d} min {up % 60:02d} sec",
            "Binary version": version["gitVersion"].removeprefix("v"),
            "Emulation version": f"{version['major']}.{version['minor']}",
            "Paths": " ".join(paths),
        }
        lines = "".join(f"{name}: {value}\n" for name, value in facts.items())
        return f"\napiserver statusz\n{_STATUSZ_NOTE}\n\n{lines}"


def _verb(
    method: str, request: ApiRequest, target: RequestInfo, scope: str, subresource: str
) -> str:
    """Return the verb, as kube-apiserver names it."""
    if target.watch or request.query.get("watch") in ("1", "true"):
        return "WATCH"
    if subresource in _CONNECT_SUBRESOURCES:
        return "CONNECT"
    if scope != "resource":
        return {"GET": "LIST", "DELETE": "DELETECOLLECTION"}.get(method, method)
    if method == "PATCH" and "apply-patch" in request.header("Content-Type"):
        return "APPLY"
    return method


def _scope(method: str, target: RequestInfo) -> str:
    if target.name or method == "POST":
        return "resource"
    return "cluster" if target.namespace is None else "namespace"


_INDEX_PATHS = ("/", "/index.html")
_STATIC_PATHS = (
    *METRICS_PATHS,
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
)


def serve_index(request: ApiRequest, kinds: Scheme) -> web.Response | None:
    """Serve the index of paths, or an error; None for any other path."""
    path = request.path
    if path in _INDEX_PATHS:
        index = msgspec.json.encode({"paths": sorted(_list_paths(kinds))})
        body = msgspec.json.format(index, indent=2)
        return web.Response(body=body, headers={"Content-Type": "application/json"})
    parts = path.strip("/").split("/")
    verb = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(verb) == 1 and verb[0] in SPECIAL_VERBS:
        return text_response(
            f'Internal Server Error: "{path}": failed to create RequestInfo: unable to determine '
            f"kind and namespace from url, {path}\n",
            500,
        )
    return None


def _list_paths(kinds: Scheme) -> Iterator[str]:
    yield from _STATIC_PATHS
    for group, checks in HEALTH_CHECKS.items():
        yield f"/{group}"
        yield from (f"/{group}/{check}" for check in checks)
    yield "/api/v1"
    for found in list_groups(kinds):
        yield f"/apis/{found['name']}"
        yield from (f"/apis/{entry['groupVersion']}" for entry in found["versions"])


HEADER_SECONDS = 32.0
"""The time limit for a request's head; the first request's starts with the connection."""

_IDLE_SECONDS = 90.0
_LINGER_SECONDS = 5.0
"""Seconds that the rest of a rejected body is read, so that the client sees the response."""
_MAX_HEAD_BYTES = 1024 * 1024
_MAX_HEADERS = 10_000


class HttpServer(web.Server):
    """The connections of one server.

    Args:
        handler: answers a request.
        header_seconds: the time limit for a request's head.
    """

    def __init__(self, handler: _RequestHandler, header_seconds: float = HEADER_SECONDS) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._header_seconds = header_seconds

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(self, asyncio.get_running_loop(), self._header_seconds)


class _Connection(web.RequestHandler):
    """One HTTP connection."""

    __slots__ = ("_head", "_head_timer", "_seconds")

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # none is what None means
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            # A real server knows no compressed request bodies.
            auto_decompress=False,
            max_line_size=_MAX_HEAD_BYTES,
            max_field_size=_MAX_HEAD_BYTES,
            max_headers=_MAX_HEADERS,
        )
        self._seconds = seconds
        self._head = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first request's head."""
        super().connection_made(transport)
        self._head_timer = self._loop.call_later(self._seconds, self._on_head_timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timers."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the size of a request's head."""
        if not data or self._is_in_body():
            super().data_received(data)
            return
        requests = self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._head = 0
            self._stop_head_timer()
            return
        self._head += len(data)
        if self._head > _MAX_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(self._seconds, self._on_head_timeout)

    def _is_in_body(self) -> bool:
        """Return whether the data belongs to a request's body or to a stream."""
        if self._payload_parser is not None:
            return True
        if self._messages:
            return not self._messages[-1][1].is_eof()
        if self._current_request is not None:
            return not self._current_request.content.is_eof()
        return self._waiter is None  # The request is about to be handled.

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._current_request is None:
            self.force_close()

    def _refuse(self, status: str) -> None:
        """Answer a malformed request and close the connection."""
        if self.transport is not None:
            self.transport.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Connection: close\r\n\r\n{status}".encode()
            )
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer malformed HTTP; log errors of the server itself."""
        if isinstance(exc, ConnectionError):
            return web.Response(status=status)  # The client is gone.
        if status != 400:
            return super().handle_error(request, status, exc, message)
        many = isinstance(exc, LineTooLong) or "Too many headers" in str(exc)
        self._refuse("431 Request Header Fields Too Large" if many else "400 Bad Request")
        return web.Response(status=status)


_BACKLOG = 1024
_PAUSE = 0.1
"""Seconds until connections are accepted again after file descriptors ran out."""
_EXHAUSTION_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FAILURES_BEFORE_COLLECTION = 500
_PLAIN_HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_PLAIN_HTTP_RESPONSE = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class Listener:
    """Accepts connections.

    Args:
        protocol: makes the protocol of a connection.
        tls: the TLS context; None for plain HTTP.
        seconds: the time limit for the first bytes, and for the TLS handshake.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        seconds: float = HEADER_SECONDS,
    ) -> None:
        self._protocol = protocol
        self._tls = tls
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._silent_clients: dict[socket.socket, asyncio.TimerHandle] = {}
        self._failed = 0
        self._connecting: set[asyncio.Task[None]] = set()

    def open(self, host: str, port: int) -> int:
        """Listen and return the port; port 0 chooses a free one.

        Raises:
            OSError: the port is taken or the address is not local.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._loop.add_reader(listener, self._accept)
        bound: int = listener.getsockname()[1]
        return bound

    def close(self) -> None:
        """Stop accepting connections, and close the silent ones."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for client in list(self._silent_clients):
            self._drop(client)
        for task in self._connecting:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            if self._listener is None:
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTION_ERRORS:
                    raise
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE, self._resume_accepting)
                return
            client.setblocking(False)
            if self._tls is None:
                self._start_connection(client)
                continue
            self._silent_clients[client] = self._loop.call_later(self._seconds, self._drop, client)
            self._loop.add_reader(client, self._on_first_bytes, client)

    def _resume_accepting(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _on_first_bytes(self, client: socket.socket) -> None:
        """Serve a client that has sent its first bytes."""
        try:
            first = client.recv(5, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first or first in _PLAIN_HTTP_STARTS:
            if first:
                with suppress(OSError):
                    # Unread data would reset the connection before the response is read.
                    client.recv(65536)
                    client.send(_PLAIN_HTTP_RESPONSE)
            self._drop(client)
            return
        self._silent_clients.pop(client).cancel()
        self._loop.remove_reader(client)
        self._start_connection(client)

    def _drop(self, client: socket.socket) -> None:
        timer = self._silent_clients.pop(client, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(client)
        client.close()

    def _start_connection(self, client: socket.socket) -> None:
        task = self._loop.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: socket.socket) -> None:
        limit = self._seconds if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, client, ssl=self._tls, ssl_handshake_timeout=limit
            )
        except OSError:  # The client is gone, or its TLS version is unknown.
            self._failed += 1
            if self._failed >= _FAILURES_BEFORE_COLLECTION:
                # Failed handshakes leave large reference cycles.
                self._failed = 0
                self._loop.call_soon(gc.collect)


if TYPE_CHECKING:
    AggregatedProxy = Callable[[Cluster, ApiRequest, Obj], Awaitable[web.StreamResponse]]


_HOST = re.compile(r"[-A-Za-z0-9!$%&'()*+,.:;=\[\]_~@]*")
_INCOMPLETE_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OPENID_CONFIGURATION, _OPENID_KEYS = ".well-known/openid-configuration", "openid/v1/jwks"
_FAULTS_PREFIX = "/kwait/v1/"
"""The embedded cluster's own API, for administrators."""
_CACHED = {"Cache-Control": "public, max-age=3600"}


class ApiServer:
    """The API server of a cluster.

    Args:
        api: the cluster.
        credentials: the static bearer tokens.
        proxy: answers a request for an aggregated group, given its APIService.
        header_seconds: the time limit for a request's head.
        read_only_message: the refusal of writes and connections; empty to allow them.
    """

    def __init__(
        self,
        api: Cluster,
        credentials: StaticTokens,
        proxy: AggregatedProxy,
        header_seconds: float = HEADER_SECONDS,
        *,
        read_only_message: str = "",
    ) -> None:
        self._api = api
        self._read_only_message = read_only_message
        self._proxy = proxy
        self._header_seconds = header_seconds
        self._gate = AuthFilters(api, credentials)
        self._metrics = RequestMetrics(api)
        self._resources = ResourceHandler(api, SubresourceHandler(api), self._gate)
        self._http_listener: Listener | None = None
        self._web: HttpServer | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen and return the port; port 0 chooses a free one.

        Raises:
            OSError: the port is taken or the address is not local.
        """
        self._web = HttpServer(self.handle, self._header_seconds)
        self._http_listener = Listener(self._web, tls, self._header_seconds)
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
        fault = _find_malformed_request(http)
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
            add_response_headers(answer, request)
        return answer

    async def _answer(self, request: ApiRequest) -> web.StreamResponse:
        target = parse_request_info(request.path)
        self._gate.authenticate(request, target)
        self._gate.authorize(request, target)
        if self._read_only_message:
            check_read_only(request, target, self._read_only_message)
        if self._api.kinds.elsewhere:
            obj = self._api.kinds.elsewhere.get(_parse_group_version(request.path))
            if obj is not None:
                return await self._proxy(self._api, request, obj)
        if target is not None:
            if self._api.faults.requests:
                await self._api.faults.apply_to_request(request, target)
            if self._api.clock.exploration is not None:
                explore_request(self._api, request, target)
            answer = await self._resources.handle(request, target)
        elif request.path.startswith(_FAULTS_PREFIX):
            # Few suites inject faults.
            from pytest_kwait.simulator.apiserver.faults_api import serve_faults_api

            answer = await serve_faults_api(self._api, request)
        else:
            answer = self._serve_non_resource(request)
        return text_response("404 page not found\n", 404) if answer is None else answer

    def _serve_non_resource(self, request: ApiRequest) -> web.Response | None:
        kinds = self._api.kinds
        return (
            serve_healthz(request)
            or self._metrics.serve(request)
            or serve_index(request, kinds)
            or serve_discovery(request, kinds)
            or serve_openapi(request, kinds)
            or self._serve_openid(request, request.path.strip("/"))
        )

    def _serve_openid(self, request: ApiRequest, path: str) -> web.Response | None:
        """Serve the OpenID discovery document and the keys of service account tokens."""
        if path not in (_OPENID_CONFIGURATION, _OPENID_KEYS):
            return None
        if request.method != "GET":
            raise method_not_allowed()
        if path == _OPENID_CONFIGURATION:
            facts = self._api.accounts.discovery(f"https://{request.header('Host')}/{_OPENID_KEYS}")
            return json_response(request, facts, headers=_CACHED)
        media = {"Content-Type": "application/jwk-set+json"}
        return json_response(request, self._api.accounts.key_set, headers={**_CACHED, **media})


def _parse_group_version(path: str) -> tuple[str, str]:
    """Return the group and version in a path; empty strings if there are none."""
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" and len(parts) > 3 else ("", "")


def _find_malformed_request(http: web.BaseRequest) -> str:
    """Return the error for a malformed request; empty if it is well-formed.

    Source: Go's net/http server.go, `readRequest`, and net/url, `unescape`.
    """
    major, minor = http.version
    if (major, minor) < (1, 0):
        return "400 Bad Request"
    if major != 1:
        return "505 HTTP Version Not Supported: unsupported protocol version"
    if _HOST.fullmatch(http.headers.get("Host", "")) is None:
        return "400 Bad Request: malformed Host header"
    if "%" in http.raw_path and _INCOMPLETE_ESCAPE.search(http.raw_path.partition("?")[0]):
        return "400 Bad Request"
    return ""
