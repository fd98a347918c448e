"""The API group `metrics.k8s.io` of a metrics server.

It is served once a pod reports usage.
Source: kubernetes-sigs/metrics-server pkg/api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import canonicalize_quantity
from pytest_kwait.simulator.api_errors import StatusError, method_not_allowed, resource_not_found
from pytest_kwait.simulator.apiserver.discovery import to_aggregated
from pytest_kwait.simulator.apiserver.request import parse_request_info
from pytest_kwait.simulator.apiserver.responses import json_response
from pytest_kwait.simulator.fake_metrics import read_container_usage
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of
from pytest_kwait.simulator.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["METRICS_API_SERVICE", "register_metrics_api", "serve_metrics"]

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
"""What stands for it among the groups that others serve; there is no such object."""


def register_metrics_api(api: Cluster) -> None:
    """Serve the group from now on."""
    key = ("metrics.k8s.io", "v1beta1")
    api.kinds.elsewhere[key] = METRICS_API_SERVICE
    api.kinds.discovered[key] = to_aggregated(_discovery()["resources"], *key)


def serve_metrics(api: Cluster, request: ApiRequest) -> web.Response:
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
    found = _pod_metrics(api, target) if pods else _node_metrics(api, target)
    if target.name:
        for one in found:
            return json_response(request, {"kind": kind, "apiVersion": _VERSION, **one})
        name = f"{target.namespace}/{target.name}" if pods else target.name
        text = f'{kind.lower()}.metrics.k8s.io "{name}" not found'
        details = {"name": name, "group": "metrics.k8s.io", "kind": kind.lower()}
        raise StatusError(404, "NotFound", text, details=details)
    selector = parse_labels(request.query.get("labelSelector", ""))
    items = [one for one in found if selector.matches(labels_of(one))]
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


def _pod_metrics(api: Cluster, target: RequestInfo) -> Iterator[Obj]:
    for pod in api.list("pods", target.namespace):
        used = read_container_usage(pod)
        if not used or (target.name and name_of(pod) != target.name):
            continue
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        containers = [{"name": name, "usage": _format_usage(usage)} for name, usage in used.items()]
        yield {**_metrics_metadata(api, pod), "containers": containers}


def _node_metrics(api: Cluster, target: RequestInfo) -> Iterator[Obj]:
    """Return the usage of nodes: the sum of their pods."""
    for node in api.list("nodes"):
        if target.name and name_of(node) != target.name:
            continue
        pods = [pod for pod in api.list("pods") if pod["spec"].get("nodeName") == name_of(node)]
        total = {"cpu": 0, "memory": 0}
        for usage in _usages(pods):
            for name in total:
                total[name] += usage.get(name, 0)
        yield {**_metrics_metadata(api, node), "usage": _format_usage(total)}


def _usages(pods: Iterable[Obj]) -> Iterator[dict[str, int]]:
    for pod in pods:
        if (pod.get("status") or {}).get("phase") == "Running":
            yield from read_container_usage(pod).values()


def _metrics_metadata(api: Cluster, obj: Obj) -> Obj:
    stamp = api.clock.stamp()
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
