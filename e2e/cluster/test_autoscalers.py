"""Waiting for the current and desired replicas of an autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.raising import raises
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: %s}
  minReplicas: 2
  maxReplicas: 4
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
"""
WEB = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulingGates: [{name: example.com/never}]
      containers: [{name: main, image: "busybox:1.36"}]
"""


def test_an_autoscaler_that_never_gets_there(kwait: Kwait) -> None:
    kwait.create(AUTOSCALER % "nowhere")

    with raises(WaitFailed, "it keeps 2 to 4 replicas"):
        kwait.wait_for_hpa_replicas("web", 5, timeout="4m", grace="500ms")


def test_an_autoscaler_that_scales(kwait: Kwait) -> None:
    """It looks at its target every 15 s; up to its minimum it scales without metrics."""
    kwait.create(AUTOSCALER % "web", WEB)

    hpa = kwait.wait_for_hpa_replicas("web", 2, timeout="4m")

    assert hpa["status"]["desiredReplicas"] == 2
