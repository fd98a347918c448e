"""What the server counts, as Prometheus reads it: requests, objects, checks; and what it is.

Names, labels and types are kube-apiserver's; what nobody counts here is left out, not made up.

Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go, k8s.io/component-base
metrics/prometheus/slis and zpages/statusz.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from pytest_kwait.simulator.apiserver.health import HEALTH_CHECKS
from pytest_kwait.simulator.apiserver.responses import text_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["METRICS_PATHS", "RequestMetrics"]

METRICS_PATHS = ("/metrics", "/metrics/slis", "/statusz")
"""The paths that are served."""

_PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_STATUSZ_NOTE = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)


class _RequestLabels(NamedTuple):
    """Requests of one kind."""

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
        """What such requests do, as kube-apiserver calls it."""
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
    """What is counted of one server's requests.

    Args:
        api: the cluster, whose objects are counted when somebody asks.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._rows: Counter[_RequestLabels] = Counter()
        self._started = api.clock.time()

    def note(self, request: ApiRequest, target: RequestInfo | None, code: int) -> None:
        """Count a request that was answered with that status."""
        method = request.method if request.method in _METHODS else "other"
        kinds = self._api.kinds.served(target.group, target.version) if target else None
        kind = kinds.get(target.resource) if kinds and target else None
        if target is None or kind is None:
            # What nobody serves is not told apart: clients may ask for anything.
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
        """The answer to a path of metrics, None for any other path."""
        if request.path not in METRICS_PATHS:
            return None
        if request.path == "/statusz":
            return text_response(self._status(), nosniff=False)
        lines = self._metrics() if request.path == "/metrics" else _health_check_metrics()
        text = "".join(f"{line}\n" for line in lines)
        return web.Response(body=text.encode(), headers={"Content-Type": _PROMETHEUS_MEDIA_TYPE})

    def _metrics(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total Requests that were answered, by what they asked for."
        yield "# TYPE apiserver_request_total counter"
        for row, count in sorted(self._rows.items()):
            yield (
                f'apiserver_request_total{{code="{row.code}",component="apiserver",'
                f'dry_run="{row.dry}",group="{row.group}",resource="{row.resource}",'
                f'scope="{row.scope}",subresource="{row.subresource}",verb="{row.verb}",'
                f'version="{row.version}"}} {count}'
            )
        yield "# HELP apiserver_resource_objects Objects that are stored, by their kind."
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
