"""Health checks, Prometheus metrics, the status page and the index of paths.

Health checks pass as long as the server answers. Names, labels and types of metrics are those of
kube-apiserver; unmeasured metrics are left out.

Source: k8s.io/apiserver pkg/server/healthz/healthz.go, pkg/endpoints/metrics/metrics.go,
pkg/server/routes/index.go, pkg/endpoints/filters/requestinfo.go; k8s.io/component-base
metrics/prometheus/slis and zpages/statusz; k8s.io/kubernetes pkg/controlplane.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from aiohttp import web

from pytest_kwait.simulator.apiserver.discovery import list_groups
from pytest_kwait.simulator.apiserver.request import SPECIAL_VERBS
from pytest_kwait.simulator.apiserver.responses import text_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.scheme import Scheme

__all__ = ["RequestMetrics", "serve_healthz", "serve_index"]

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

_PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_STATUSZ_NOTE = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)


class _RequestLabels(NamedTuple):
    """The labels of a request in `apiserver_request_total`."""

    method: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    watch: bool
    apply: bool
    dry: str
    code: int

    @property
    def verb(self) -> str:
        """The verb, as kube-apiserver names it."""
        if self.watch:
            return "WATCH"
        if self.subresource in _CONNECT_SUBRESOURCES:
            return "CONNECT"
        many = self.scope != "resource"
        if self.method == "GET" and many and self.resource:
            return "LIST"
        if self.method == "DELETE" and many:
            return "DELETECOLLECTION"
        return "APPLY" if self.apply else self.method


class RequestMetrics:
    """Counts requests, and serves metrics and the status page."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._rows: Counter[_RequestLabels] = Counter()
        self._started = api.clock.time()

    def count_request(self, request: ApiRequest, target: RequestInfo | None, code: int) -> None:
        """Count a request and its status code."""
        method = request.method if request.method in _METHODS else "other"
        kinds = self._api.kinds.served(target.group, target.version) if target else None
        kind = kinds.get(target.resource) if kinds and target else None
        if target is None or kind is None:
            # Clients may request anything: unknown resources share one series.
            self._rows[_RequestLabels(method, "", "", "", "", "", False, False, "", code)] += 1
            return
        query = request.query
        row = _RequestLabels(
            method,
            kind.group,
            kind.version,
            kind.plural,
            target.subresource if target.subresource in kind.subresources else "",
            _scope(method, target),
            target.watch or query.get("watch") in ("1", "true"),
            method == "PATCH" and "apply-patch" in request.header("Content-Type"),
            "All" if query.get("dryRun") == "All" else "",
            code,
        )
        self._rows[row] += 1

    def serve(self, request: ApiRequest) -> web.Response | None:
        """Serve a metrics path; None for any other path."""
        if request.path not in METRICS_PATHS:
            return None
        if request.path == "/statusz":
            return text_response(self._status(), nosniff=False)
        lines = self._metrics() if request.path == "/metrics" else _health_check_metrics()
        text = "".join(f"{line}\n" for line in lines)
        return web.Response(body=text.encode(), headers={"Content-Type": _PROMETHEUS_MEDIA_TYPE})

    def _metrics(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total Answered requests by verb, resource and status code."
        yield "# TYPE apiserver_request_total counter"
        for row, count in sorted(self._rows.items()):
            yield (
                f'apiserver_request_total{{code="{row.code}",component="apiserver",'
                f'dry_run="{row.dry}",group="{row.group}",resource="{row.resource}",'
                f'scope="{row.scope}",subresource="{row.subresource}",verb="{row.verb}",'
                f'version="{row.version}"}} {count}'
            )
        yield "# HELP apiserver_resource_objects Stored objects by resource."
        yield "# TYPE apiserver_resource_objects gauge"
        for kind in self._api.kinds.stored():
            count = self._api.store.count(kind.bucket)
            yield (
                f'apiserver_resource_objects{{group="{kind.group}",resource="{kind.plural}"}} '
                f"{count}"
            )
        yield "# HELP process_start_time_seconds When the server started, in seconds since 1970."
        yield "# TYPE process_start_time_seconds gauge"
        yield f"process_start_time_seconds {self._started:.2f}"

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


def _scope(method: str, target: RequestInfo) -> str:
    if target.name or method == "POST":
        return "resource"
    return "cluster" if target.namespace is None else "namespace"


def _health_check_metrics() -> Iterator[str]:
    yield "# HELP kubernetes_healthcheck Whether a check of the server passes."
    yield "# TYPE kubernetes_healthcheck gauge"
    for name, group in sorted(
        (name, group) for group, names in HEALTH_CHECKS.items() for name in names
    ):
        yield f'kubernetes_healthcheck{{name="{name}",type="{group}"}} 1'


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
