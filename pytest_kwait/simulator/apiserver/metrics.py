"""Prometheus metrics of the API server and of kubelets, collected at each scrape.

Imported by the first scrape: prometheus-client takes 30 ms to import, and most clusters are never
asked for metrics. Requests are therefore counted apart, and values are written as `2.0`.

Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go; k8s.io/component-base
metrics/prometheus/slis; k8s.io/kubernetes pkg/kubelet/metrics/metrics.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import KubeletApi

_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_response(families: Iterable[Metric]) -> web.Response:
    """Return metrics in the text format."""
    body = generate_latest(_Families(families))
    return web.Response(body=body, headers={"Content-Type": _MEDIA_TYPE})


def collect_api_server(
    cluster: Cluster, requests: Iterable[tuple[Mapping[str, str], int]], started: float
) -> Iterator[Metric]:
    """Yield the metrics of the API server.

    Args:
        requests: labels and numbers of answered requests.
        started: when the server started, in seconds since 1970.
    """
    answered = CounterMetricFamily(
        "apiserver_request", "Answered requests by verb, resource and status code."
    )
    for labels, count in requests:
        answered.add_sample("apiserver_request_total", {**labels, "component": "apiserver"}, count)
    yield answered
    objects = GaugeMetricFamily(
        "apiserver_resource_objects",
        "Stored objects by resource.",
        labels=("group", "resource"),
    )
    for kind in cluster.kinds.stored():
        objects.add_metric((kind.group, kind.plural), cluster.store.count(kind.bucket))
    yield objects
    yield GaugeMetricFamily(
        "process_start_time_seconds",
        "When the server started, in seconds since 1970.",
        started,
    )


def collect_health_checks(groups: Mapping[str, Iterable[str]]) -> Iterator[Metric]:
    """Yield the state of the health checks by their group."""
    checks = GaugeMetricFamily(
        "kubernetes_healthcheck", "Whether a check of the server passes.", labels=("name", "type")
    )
    for name, group in sorted((name, group) for group, names in groups.items() for name in names):
        checks.add_metric((name, group), 1)
    yield checks


def collect_kubelet(kubelet: KubeletApi) -> Iterator[Metric]:
    """Yield the numbers of running pods and containers."""
    containers = GaugeMetricFamily(
        "kubelet_running_containers",
        "[ALPHA] Number of containers currently running",
        labels=("container_state",),
    )
    for state, count in kubelet.counts().items():
        containers.add_metric((state,), count)
    yield containers
    yield GaugeMetricFamily(
        "kubelet_running_pods",
        "[ALPHA] Number of pods that have a running pod sandbox",
        len(kubelet.running_pods()["items"]),
    )
