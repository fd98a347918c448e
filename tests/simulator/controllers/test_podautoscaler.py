from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.podautoscaler import format_metric_failure
from tests.simulator.cluster import Cluster, conditions, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_SETS = "replicasets.apps"
_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def _create(cluster: Cluster, replicas: int = 1, **spec: Any) -> None:
    labels = {"matchLabels": {"app": "web"}}
    pod = template("sleep", "99")
    cluster.create(_SETS, "r", {"replicas": replicas, "selector": labels, "template": pod})
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r"}
    wanted = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": [_CPU]}
    cluster.create(_AUTOSCALERS, "a", {**wanted, **spec})


def _told(cluster: Cluster) -> list[str]:
    return [event.partition(": ")[2] for event in cluster.events("a")]


def _counts(obj: Obj) -> tuple[int | None, int | None]:
    status = obj.get("status") or {}
    return status.get("currentReplicas"), status.get("desiredReplicas")


@pytest.mark.parametrize(
    ("replicas", "wanted", "why"),
    [
        (1, 2, "Current number of replicas below Spec.MinReplicas"),
        (9, 4, "Current number of replicas above Spec.MaxReplicas"),
    ],
)
def test_bounds_are_kept_without_metrics(
    cluster: Cluster, replicas: int, wanted: int, why: str
) -> None:
    _create(cluster, replicas)
    cluster.run(14)
    assert cluster.get(_SETS, "r")["spec"]["replicas"] == replicas
    cluster.run(2)
    assert cluster.get(_SETS, "r")["spec"]["replicas"] == wanted
    obj = cluster.get(_AUTOSCALERS, "a")
    assert _counts(obj) == (replicas, wanted)
    (condition,) = obj["status"]["conditions"]
    text = f"the HPA controller was able to update the target scale to {wanted}"
    assert (condition["reason"], condition["message"]) == ("SucceededRescale", text)
    assert obj["status"]["lastScaleTime"] == "2026-01-01T00:00:15Z"
    assert _told(cluster) == [f"New size: {wanted}; reason: {why}"]


def test_the_controller_owns_the_replicas_by_the_scale(cluster: Cluster) -> None:
    _create(cluster)
    cluster.run(16)
    entries = cluster.get(_SETS, "r")["metadata"]["managedFields"]
    owners = [
        (entry["manager"], entry["operation"], entry.get("subresource"))
        for entry in entries
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]
    assert owners == [("kube-controller-manager", "Update", "scale")]


def test_missing_metrics_server_is_reported(cluster: Cluster) -> None:
    _create(cluster, 3)
    cluster.run(16)
    obj = cluster.get(_AUTOSCALERS, "a")
    assert cluster.get(_SETS, "r")["spec"]["replicas"] == 3
    assert conditions(obj) == {
        "AbleToScale": "True SucceededGetScale",
        "ScalingActive": "False FailedGetResourceMetric",
    }
    why = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch"
        " metrics from resource metrics API: the server could not find the requested resource"
        " (get pods.metrics.k8s.io)"
    )
    assert _told(cluster) == [
        why,
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric"
        f" value: {why}",
    ]
    text = f"the HPA was unable to compute the replica count: {why}"
    assert obj["status"]["conditions"][1]["message"] == text


def test_autoscaling_is_disabled_for_zero_replicas(cluster: Cluster) -> None:
    _create(cluster, 0)
    cluster.run(16)
    obj = cluster.get(_AUTOSCALERS, "a")
    assert conditions(obj)["ScalingActive"] == "False ScalingDisabled"
    assert cluster.get(_SETS, "r")["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"},
            'replicasets.apps "x" not found',
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x"},
            'no matches for kind "Thing" in group "example.com"',
        ),
    ],
)
def test_missing_target_is_reported(cluster: Cluster, target: Obj, why: str) -> None:
    _create(cluster, scaleTargetRef=target)
    cluster.run(16)
    obj = cluster.get(_AUTOSCALERS, "a")
    assert conditions(obj) == {"AbleToScale": "False FailedGetScale"}
    assert _told(cluster) == [why]
    text = f"the HPA controller was unable to get the target's current scale: {why}"
    assert obj["status"]["conditions"][0]["message"] == text
    assert _counts(obj) == (None, 0)


def test_other_missing_metrics_servers_are_reported() -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "hits"}}}
    reason, why, summary = format_metric_failure(pods)
    assert reason == "FailedGetPodsMetric"
    assert why == (
        "unable to get metric hits: unable to fetch metrics from custom metrics API: no custom"
        " metrics API registered"
    )
    assert summary == f"failed to get pods metric value: {why}"


_USAGE = "metrics.kwait.dev/usage"
_VALUES = "metrics.kwait.dev/values"


def _annotate(cluster: Cluster, resource: str, name: str, **values: str) -> None:
    def annotate(obj: Obj) -> None:
        obj["metadata"].setdefault("annotations", {}).update(values)

    cluster.change(resource, name, annotate)


def _run_set(cluster: Cluster, replicas: int, **spec: Any) -> None:
    """Replicas that have run for a while, and their autoscaler."""
    labels = {"matchLabels": {"app": "web"}}
    container = {"resources": {"requests": {"cpu": "100m"}}}
    pod = template("sleep", "9999", container=container)
    cluster.create(_SETS, "r", {"replicas": replicas, "selector": labels, "template": pod})
    cluster.run(10)
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r"}
    wanted = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [_CPU]}
    cluster.create(_AUTOSCALERS, "a", {**wanted, **spec})


def _use(cluster: Cluster, **annotations: str) -> None:
    for pod in cluster.every("pods"):
        _annotate(cluster, "pods", pod["metadata"]["name"], **annotations)


def _replicas(cluster: Cluster) -> int:
    return int(cluster.get(_SETS, "r")["spec"]["replicas"])


def _messages(cluster: Cluster) -> dict[str, str]:
    found = cluster.get(_AUTOSCALERS, "a")["status"]["conditions"]
    return {one["type"]: one["message"] for one in found}


def test_usage_above_the_target_scales_up(cluster: Cluster) -> None:
    _run_set(cluster, 2)
    _use(cluster, **{_USAGE: "cpu=75m"})
    cluster.run(16)
    assert _replicas(cluster) == 3
    obj = cluster.get(_AUTOSCALERS, "a")
    assert conditions(obj) == {
        "AbleToScale": "True SucceededRescale",
        "ScalingActive": "True ValidMetricFound",
        "ScalingLimited": "False DesiredWithinRange",
    }
    assert _messages(cluster)["ScalingActive"] == (
        "the HPA was able to successfully calculate a replica count from cpu resource utilization"
        " (percentage of request)"
    )
    assert _told(cluster) == [
        "New size: 3; reason: cpu resource utilization (percentage of request) above target"
    ]
    assert obj["status"]["currentMetrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "current": {"averageUtilization": 75, "averageValue": "75m"},
            },
        }
    ]


@pytest.mark.parametrize("used", ["cpu=54m", "cpu=46m"])
def test_usage_within_tolerance_does_not_scale(cluster: Cluster, used: str) -> None:
    _run_set(cluster, 2)
    _use(cluster, **{_USAGE: used})
    cluster.run(40)
    assert _replicas(cluster) == 2
    assert conditions(cluster.get(_AUTOSCALERS, "a"))["AbleToScale"] == "True ReadyForNewScale"


def test_tolerance_can_be_configured(cluster: Cluster) -> None:
    _run_set(cluster, 2, behavior={"scaleUp": {"tolerance": "500m"}})
    _use(cluster, **{_USAGE: "cpu=74m"})
    cluster.run(40)
    assert _replicas(cluster) == 2


def test_scale_down_waits_for_stabilization_window(cluster: Cluster) -> None:
    _run_set(cluster, 4)
    _use(cluster, **{_USAGE: "cpu=50m"})
    cluster.run(16)
    _use(cluster, **{_USAGE: "cpu=10m"})
    cluster.run(200)
    assert _replicas(cluster) == 4
    assert _messages(cluster)["AbleToScale"] == (
        "recent recommendations were higher than current one, applying the highest recent"
        " recommendation"
    )
    cluster.run(130)
    assert _replicas(cluster) == 1
    assert _told(cluster)[-1] == "New size: 1; reason: All metrics below target"


def test_scale_up_is_limited(cluster: Cluster) -> None:
    _run_set(cluster, 3)
    _use(cluster, **{_USAGE: "cpu=900m"})
    cluster.run(16)
    assert _replicas(cluster) == 6
    assert _messages(cluster)["ScalingLimited"] == (
        "the desired replica count is increasing faster than the maximum scale rate"
    )


def test_scaling_policies_limit_the_rate(cluster: Cluster) -> None:
    up = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    _run_set(cluster, 2, behavior={"scaleUp": up})
    _use(cluster, **{_USAGE: "cpu=900m"})
    cluster.run(16)
    assert _replicas(cluster) == 3
    cluster.run(30)
    assert _replicas(cluster) == 3
    cluster.run(45)
    assert _replicas(cluster) == 4


def test_disabled_direction_does_not_scale(cluster: Cluster) -> None:
    down = {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}
    _run_set(cluster, 3, behavior={"scaleDown": down})
    _use(cluster, **{_USAGE: "cpu=1m"})
    cluster.run(60)
    assert _replicas(cluster) == 3
    assert _messages(cluster)["ScalingLimited"] == (
        "the desired replica count is decreasing faster than the maximum scale rate"
    )


def test_container_resource_metric(cluster: Cluster) -> None:
    target = {"type": "AverageValue", "averageValue": "10Mi"}
    source = {"name": "memory", "container": "c", "target": target}
    _run_set(cluster, 1, metrics=[{"type": "ContainerResource", "containerResource": source}])
    _use(cluster, **{f"{_USAGE}.c": "memory=20Mi"})
    cluster.run(16)
    assert _replicas(cluster) == 2
    assert _told(cluster) == ["New size: 2; reason: memory container resource above target"]


def test_pods_object_and_external_metrics(cluster: Cluster) -> None:
    average = {"type": "AverageValue", "averageValue": "10"}
    hits = {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": average}}
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "front"}
    total = {"metric": {"name": "load"}, "target": {"type": "Value", "value": "100"}}
    load = {"type": "Object", "object": {**total, "describedObject": about}}
    queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": average}}
    cluster.api.create("configmaps", {"metadata": {"name": "front"}}, "t")
    _run_set(cluster, 2, metrics=[hits, load, queue])
    _use(cluster, **{_VALUES: "hits=12"})
    _annotate(cluster, "configmaps", "front", **{_VALUES: "load=200"})
    _annotate(cluster, _AUTOSCALERS, "a", **{_VALUES: "queue=35"})
    cluster.run(16)
    assert _replicas(cluster) == 4
    assert _told(cluster) == ["New size: 4; reason: ConfigMap metric load above target"]
    shown = cluster.get(_AUTOSCALERS, "a")["status"]["currentMetrics"]
    assert [one["type"] for one in shown] == ["Pods", "Object", "External"]
    assert shown[2]["external"]["current"] == {"averageValue": "17500m"}


def test_unmeasured_metric_prevents_scale_down(cluster: Cluster) -> None:
    average = {"type": "AverageValue", "averageValue": "10"}
    hits = {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": average}}
    _run_set(cluster, 3, metrics=[_CPU, hits])
    _use(cluster, **{_USAGE: "cpu=1m"})
    cluster.run(16)
    assert _replicas(cluster) == 3
    assert _told(cluster)[-1].startswith("invalid metrics (1 invalid out of 2), first error is: ")
    status = cluster.get(_AUTOSCALERS, "a")["status"]
    assert status["currentMetrics"][1] == {"type": ""}


def test_pod_without_requests_has_no_utilization(cluster: Cluster) -> None:
    _create(cluster, 2)
    cluster.run(5)
    _use(cluster, **{_USAGE: "cpu=1m"})
    cluster.run(12)
    name = cluster.every("pods")[0]["metadata"]["name"]
    why = f"failed to get cpu utilization: missing request for cpu in container c of Pod {name}"
    assert _told(cluster)[0] == why


def test_unmeasured_pods_count_against_the_change(cluster: Cluster) -> None:
    _run_set(cluster, 4)
    first, *_ = cluster.every("pods")
    _annotate(cluster, "pods", first["metadata"]["name"], **{_USAGE: "cpu=60m"})
    cluster.run(16)
    assert _replicas(cluster) == 4
