from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.autoscalers import metric_refusal
from tests.simulator.controllers.cluster import Cluster, conditions, template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_SETS = "replicasets.apps"
_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


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


def test_within_the_bounds_it_says_that_nobody_measures(cluster: Cluster) -> None:
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


def test_no_replicas_is_off(cluster: Cluster) -> None:
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
def test_a_target_that_is_not_there(cluster: Cluster, target: Obj, why: str) -> None:
    _create(cluster, scaleTargetRef=target)
    cluster.run(16)
    obj = cluster.get(_AUTOSCALERS, "a")
    assert conditions(obj) == {"AbleToScale": "False FailedGetScale"}
    assert _told(cluster) == [why]
    text = f"the HPA controller was unable to get the target's current scale: {why}"
    assert obj["status"]["conditions"][0]["message"] == text
    assert _counts(obj) == (None, 0)


def test_other_metrics_have_no_server_either() -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "hits"}}}
    reason, why, summary = metric_refusal(pods)
    assert reason == "FailedGetPodsMetric"
    assert why == (
        "unable to get metric hits: unable to fetch metrics from custom metrics API: no custom"
        " metrics API registered"
    )
    assert summary == f"failed to get pods metric value: {why}"
