"""Waiting for replica sets: desired, ready and available pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import NEVER_READY, TYPO, deployment, replica_set
from e2e.raising import raises, times_out
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_replica_set_ready_and_available(kwait: Kwait) -> None:
    """All of its pods are ready; exactly so many are available."""
    kwait.create(replica_set("web", 2))

    assert kwait.wait_for_ready_replica_set("web")["status"]["readyReplicas"] == 2
    available = kwait.wait_for_replica_set_target_available_replicas("web", 2)
    assert available["status"]["availableReplicas"] == 2
    with raises(WaitFailed, "the replicaset is to have 2 pods"):
        kwait.wait_for_replica_set_target_available_replicas("web", 3, grace=0)


def test_replica_set_pod_count(kwait: Kwait) -> None:
    """The desired number is there, though none of them becomes ready."""
    kwait.create(replica_set("web", 2, NEVER_READY))

    assert kwait.wait_for_replica_set_desired_replicas("web")["status"]["replicas"] == 2
    times_out("2 wanted: 2 there, 0 ready, 0 available", kwait.wait_for_ready_replica_set, "web")


def test_replica_set_scaled(kwait: Kwait) -> None:
    """A deployment scales its replica set; its controller has seen that."""
    kwait.apply(deployment("web"))
    kwait.wait_for_deployment_updated_replicas_gte("web", 1)
    (only,) = kwait.list("replicasets", selector="app=web")
    name, generation = only["metadata"]["name"], only["metadata"]["generation"]
    kwait.apply(deployment("web", 0))

    scaled = kwait.wait_for_replica_set_target_spec_replicas(name, 0)

    assert scaled["spec"]["replicas"] == 0
    # Its controller may say what it has seen before it has deleted anything.
    status = kwait.wait_for_observed_replica_set(name, generation + 1)["status"]
    assert status["observedGeneration"] > generation


def test_replica_set_with_missing_image(kwait: Kwait) -> None:
    """One pod that is stuck is one too many where all are awaited."""
    kwait.create(replica_set("typo", 1, TYPO))

    with raises(WaitFailed, r"can no longer have all its pods ready: pod typo-\S+: InvalidImage"):
        kwait.wait_for_ready_replica_set("typo", timeout="4m", grace=0)
    assert kwait.wait_for_replica_set_target_available_replicas("typo", 0)["spec"]["replicas"] == 1


def test_replica_set_pods_rejected_by_quota(kwait: Kwait) -> None:
    """The refusal's own text."""
    hold_to_quota(kwait, pods="0")
    kwait.create(replica_set("web", 1))

    with raises(WaitFailed, 'FailedCreate: pods "web-.*" is forbidden: exceeded quota: few'):
        kwait.wait_for_ready_replica_set("web", timeout="4m", grace=0)
