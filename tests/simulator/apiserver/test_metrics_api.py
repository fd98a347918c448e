"""Metrics of pods and nodes, for `kubectl top`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.aggregator.handler_proxy import register_metrics_api
from tests.objects import pod

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

_ROOT = "/apis/metrics.k8s.io/v1beta1"


def _add_pod(served: Served, name: str, **annotations: str) -> None:
    made = pod(name, labels={"app": name}, annotations=annotations, nodeName="n")
    served.json("POST", "/api/v1/namespaces/default/pods", made)
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    media = "application/merge-patch+json"
    running = {"status": {"phase": "Running"}}
    assert served.send("PATCH", path, running, Content_Type=media).status == 200


def _serve(served: Served) -> None:
    served.run(lambda: register_metrics_api(served.api))


def test_metrics_api_is_absent_without_usage(served: Served) -> None:
    assert served.send("GET", f"{_ROOT}/pods").status == 404
    names = [group["name"] for group in served.json("GET", "/apis")["groups"]]
    assert "metrics.k8s.io" not in names


def test_metrics_api_reports_pod_and_node_usage(served: Served) -> None:
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    _add_pod(served, "a", **{"metrics.kwait.dev/usage": "cpu=250m,memory=64Mi"})
    _add_pod(served, "b", **{"metrics.kwait.dev/usage.main": "cpu=1,odd,memory=x"})
    _add_pod(served, "silent")
    _serve(served)
    found = served.json("GET", f"{_ROOT}/namespaces/default/pods")
    assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    used = {one["metadata"]["name"]: one["containers"] for one in found["items"]}
    assert used == {
        "a": [{"name": "main", "usage": {"cpu": "250m", "memory": "65536Ki"}}],
        "b": [{"name": "main", "usage": {"cpu": "1"}}],
    }
    chosen = served.json("GET", f"{_ROOT}/pods?labelSelector=app%3Db")["items"]
    assert [one["metadata"]["name"] for one in chosen] == ["b"]
    node = served.json("GET", f"{_ROOT}/nodes/n")
    assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "1250m", "memory": "65536Ki"})


def test_metrics_api_reports_missing_objects(served: Served) -> None:
    _serve(served)
    kinds = [one["kind"] for one in served.json("GET", _ROOT)["resources"]]
    assert kinds == ["NodeMetrics", "PodMetrics"]
    media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = served.json("GET", "/apis", Accept=media)["items"][-1]
    (version,) = found["versions"]
    assert (found["metadata"]["name"], version["freshness"]) == ("metrics.k8s.io", "Current")
    assert [one["resource"] for one in version["resources"]] == ["nodes", "pods"]
    missing = served.send("GET", f"{_ROOT}/namespaces/default/pods/x")
    text = 'podmetrics.metrics.k8s.io "default/x" not found'
    assert (missing.status, missing.json()["message"]) == (404, text)
    assert served.send("GET", f"{_ROOT}/things").status == 404
    assert served.send("DELETE", f"{_ROOT}/pods").status == 405
