from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.conversion import hpa_to_v1, hpa_to_v2

PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
ABOUT = {"kind": "Service", "name": "s", "apiVersion": "v1"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def two(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, **spec},
        "status": {"desiredReplicas": 0, "currentReplicas": 0, **(status or {})},
    }


def test_cpu_utilization_is_a_field_of_version_one() -> None:
    shown = hpa_to_v1(two(metrics=[CPU]))
    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    }
    assert "annotations" not in shown["metadata"]
    assert hpa_to_v2(shown) == two(metrics=[CPU])


def test_version_one_defaults_to_80_percent() -> None:
    shown = hpa_to_v1(two(metrics=[CPU]))
    del shown["spec"]["targetCPUUtilizationPercentage"]
    (metric,) = hpa_to_v2(shown)["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 80


@pytest.mark.parametrize(
    ("metric", "kept"),
    [
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "1k"},
                },
            },
            '[{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"1k",'
            '"selector":{"matchLabels":{"a":"b"}}}}]',
        ),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": ABOUT,
                    "metric": {"name": "o"},
                    "target": {"type": "Value", "value": "5"},
                },
            },
            '[{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},'
            '"metricName":"o","targetValue":"5"}}]',
        ),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": ABOUT,
                    "metric": {"name": "o"},
                    "target": {"type": "AverageValue", "averageValue": "5"},
                },
            },
            '[{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},'
            '"metricName":"o","targetValue":"0","averageValue":"5"}}]',
        ),
        (
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "c",
                    "target": {"type": "Utilization", "averageUtilization": 70},
                },
            },
            '[{"type":"ContainerResource","containerResource":{"name":"cpu",'
            '"targetAverageUtilization":70,"container":"c"}}]',
        ),
        (
            {
                "type": "External",
                "external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "7"}},
            },
            '[{"type":"External","external":{"metricName":"e","targetValue":"7"}}]',
        ),
    ],
)
def test_other_metrics_are_kept_in_an_annotation(metric: dict[str, Any], kept: str) -> None:
    shown = hpa_to_v1(two(metrics=[metric, CPU]))
    assert shown["metadata"]["annotations"] == {f"{PREFIX}metrics": kept}
    assert hpa_to_v2(shown) == two(metrics=[metric, CPU])


def test_behaviour_state_and_conditions_are_kept_in_annotations() -> None:
    rule = {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}
    seen = {"averageValue": "1", "averageUtilization": 9}
    current = {"type": "Resource", "resource": {"name": "cpu", "current": seen}}
    conditions = [
        {"lastTransitionTime": None, "type": "AbleToScale", "message": "m", "status": "True"}
    ]
    obj = two(
        {"currentMetrics": [current], "conditions": conditions},
        metrics=[CPU],
        behavior={"scaleUp": rule},
    )
    shown = hpa_to_v1(obj)
    annotations = shown["metadata"]["annotations"]
    assert annotations[f"{PREFIX}behavior"] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":'
        '[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}'
    )
    assert annotations[f"{PREFIX}conditions"] == (
        '[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"message":"m"}]'
    )
    assert shown["status"]["currentCPUUtilizationPercentage"] == 9
    assert hpa_to_v2(shown) == obj


def test_invalid_annotations_are_ignored() -> None:
    shown = hpa_to_v1(two(metrics=[CPU]))
    shown["metadata"] = {"name": "a", "annotations": {f"{PREFIX}metrics": "{", "x": "y"}}
    meant = hpa_to_v2(shown)
    assert meant["spec"]["metrics"] == [CPU]
    assert meant["metadata"]["annotations"] == {"x": "y"}
