"""Metrics of requests, and the paths that serve metrics.

Names, labels and types are those of kube-apiserver; unmeasured metrics are left out.

Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go; k8s.io/component-base
metrics/prometheus/slis.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.apiserver.healthz import HEALTH_CHECKS

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster

METRICS_PATHS = ("/metrics", "/metrics/slis")
"""The served paths."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})


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
    """Counts requests, and serves the metrics of the API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answered: Counter[_RequestLabels] = Counter()
        self.started = cluster.clock.time()
        """When the server started, in seconds since the epoch."""

    def count_request(self, request: ApiRequest, target: RequestInfo | None, code: int) -> None:
        """Count a request and its status code."""
        method = request.method if request.method in _METHODS else "other"
        kinds = self._cluster.kinds.served(target.group, target.version) if target else None
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
        # Not at import: prometheus-client is loaded by the first scrape.
        from pytest_kwait.simulator.apiserver import metrics

        if request.path == "/metrics/slis":
            return metrics.metrics_response(metrics.collect_health_checks(HEALTH_CHECKS))
        requests = (
            ({**labels._asdict(), "code": str(labels.code)}, count)
            for labels, count in sorted(self._answered.items())
        )
        return metrics.metrics_response(
            metrics.collect_api_server(self._cluster, requests, self.started)
        )


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
