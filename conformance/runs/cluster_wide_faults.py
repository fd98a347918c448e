"""Cluster-wide faults, run on a cluster of its own by `test_injected_faults.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import config_map, container, pod
from e2e.raising import raises
from pytest_kwait import ApiError, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Faults, Kwait


NODE = "kwait-node-1"
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {metrics.kwait.dev/usage: "cpu=%s"}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: busybox:1
        command: [sleep, "3600"]
        resources: {requests: {cpu: 100m}}
"""
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  schedule: "*/5 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: "busybox:1", command: ["true"]}]
"""
AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 4
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
"""


@pytest.mark.kwait_disruptive
@pytest.mark.parametrize("resource", ["disk", "memory"])
def test_a_node_under_pressure_evicts(kwait: Kwait, faults: Faults, resource: Any) -> None:
    kwait.create(pod("p", nodeName=NODE))
    kwait.wait_for_pod_running("p")
    fault = faults.pressure(NODE, resource)
    kind = f"{resource.capitalize()}Pressure"
    kwait.wait_for(f"node/{NODE}", f"condition={kind}=True")
    with raises(WaitFailed, match="Evicted"):
        kwait.wait_for("pod/p", "condition=Ready", stable_for="60s")
    fault.undo()
    kwait.wait_for(f"node/{NODE}", f"condition={kind}=False")


@pytest.mark.kwait_disruptive
@pytest.mark.parametrize("way", ["partition_node", "stop_kubelet"])
def test_a_lost_node_is_not_ready_until_it_is_back(kwait: Kwait, faults: Faults, way: str) -> None:
    kwait.create(pod("p", container(script="sleep 2"), nodeName=NODE))
    kwait.wait_for("pod/p", "condition=Ready")
    with getattr(faults, way)(NODE):
        with raises(ApiError, match="error dialing backend"):
            kwait.exec("p", "true")
        kwait.wait_for(f"node/{NODE}", "condition=Ready=Unknown")
        kwait.wait_for("pod/p", "condition=Ready=False")
        assert kwait.get("pod/p")["status"]["phase"] == "Running"
    kwait.wait_for(f"node/{NODE}", "condition=Ready")
    kwait.wait_for("pod/p", "jsonpath={.status.phase}=Succeeded")


@pytest.mark.kwait_disruptive
def test_a_clock_that_jumps_is_seen_in_stamps(kwait: Kwait, faults: Faults) -> None:
    stamps = []
    with faults.jump_clock("2h"):
        stamps.append(kwait.create(config_map("later")))
    stamps.append(kwait.create(config_map("now")))
    ahead, now = (one[0]["metadata"]["creationTimestamp"] for one in stamps)
    assert ahead > now


@pytest.mark.kwait_disruptive
def test_a_clock_that_jumps_fires_a_cron_job(kwait: Kwait, faults: Faults) -> None:
    kwait.apply(CRON_JOB)
    with faults.jump_clock("6m"):
        kwait.wait_for("cronjob/c", "jsonpath={.status.lastSuccessfulTime}", timeout="1m")


def test_an_autoscaler_follows_the_usage_of_pods(kwait: Kwait) -> None:
    """The first pod with scripted usage enables `metrics.k8s.io` cluster-wide."""
    kwait.apply(WEB % "100m", AUTOSCALER)
    assert kwait.wait_for_hpa_replicas("web", 4)["status"]["desiredReplicas"] == 4
    kwait.wait_for("deployment/web", "jsonpath={.status.readyReplicas}=4")
    kwait.apply(WEB % "5m")
    assert kwait.wait_for_hpa_replicas("web", 1)["status"]["desiredReplicas"] == 1
    kwait.wait_for("deployment/web", "jsonpath={.status.replicas}=1")
