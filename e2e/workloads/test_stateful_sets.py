"""Waiting for the pods of a stateful set, which start one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.objects import TYPO, stateful_set
from e2e.raising import raises, times_out
from e2e.workloads.quotas import hold_to_quota
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def test_stateful_set_running(kwait: Kwait) -> None:
    """By its pods, in the order of their ordinals, or by its own counts."""
    kwait.create(stateful_set("web", 2))

    assert names(kwait.wait_for_stateful_set_running_and_ready("web", 2)) == ["web-0", "web-1"]
    assert kwait.wait_for_stateful_set_pod_ready("web", "web-1")["status"]["phase"] == "Running"
    assert kwait.wait_for_stateful_set_status_replicas("web", 2)["status"]["replicas"] == 2
    assert (
        kwait.wait_for_stateful_set_status_ready_replicas("web", 2)["status"]["readyReplicas"] == 2
    )
    found = kwait.wait_for_stateful_set_status_available_replicas("web", 2)
    assert found["status"]["availableReplicas"] == 2


def test_ordered_start(kwait: Kwait) -> None:
    """A pod comes only once the one before it is ready; here the test says when that is."""
    probe = {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1}
    kwait.create(stateful_set("web", 2, {"readinessProbe": probe}))

    assert names(kwait.wait_for_stateful_set_running("web", 1, 0)) == ["web-0"]
    times_out(
        "pod web-1 is not there yet; all pods: 1 Running, not ready",
        kwait.wait_for_stateful_set_pod_ready,
        "web",
        "web-1",
    )
    kwait.exec("web-0", "touch", "/tmp/ready")
    assert names(kwait.wait_for_stateful_set_running("web", 2, 1)) == ["web-0", "web-1"]


def test_one_stuck_pod_stops_an_ordered_set(kwait: Kwait) -> None:
    """Whatever is awaited of the pods after it, its reason is the reason."""
    kwait.create(stateful_set("web", 3, TYPO))

    reason = r"pod web-0 \(the set makes none after it\): InvalidImageName"
    with raises(WaitFailed, reason):
        kwait.wait_for_stateful_set_running_and_ready("web", 3, grace="1s")
    with raises(WaitFailed, reason):
        kwait.wait_for_stateful_set_pod_ready("web", "web-2", grace="500ms")
    with raises(WaitFailed, reason):
        kwait.wait_for_stateful_set_status_ready_replicas("web", 1, grace="500ms")


def test_a_stuck_pod_of_a_parallel_set_stands_alone(kwait: Kwait) -> None:
    """All pods are there, though none will be ready."""
    kwait.create(stateful_set("web", 3, TYPO, podManagementPolicy="Parallel"))

    kwait.wait_for_stateful_set_status_replicas("web", 3)
    with raises(WaitFailed, r"pod web-\d \(and 2 more pods\): InvalidImageName"):
        kwait.wait_for_stateful_set_status_ready_replicas("web", 1, grace="500ms")


def test_unprovisioned_claim(kwait: Kwait) -> None:
    """The claim that the set has made for the pod is named, with its event."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "nobody-provides",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    kwait.create(stateful_set("db", 2, volumeClaimTemplates=[claim]))

    pod = r"pod db-0 \(the set makes none after it\)"
    claim_text = "claim data-db-0 is not bound: ProvisioningFailed: .* not found"
    with raises(WaitFailed, f"{pod}: Unschedulable: {claim_text}"):
        kwait.wait_for_stateful_set_running_and_ready("db", 2, grace="2s")


def test_surplus_stateful_set_pods(kwait: Kwait) -> None:
    kwait.create(stateful_set("web", 1))

    with raises(WaitFailed, "the set is to have 1 replica: web-0"):
        kwait.wait_for_stateful_set_status_replicas("web", 2, grace="500ms")


def test_stateful_set_pods_rejected_by_quota(kwait: Kwait) -> None:
    """Its status does not say so, its events do; what the quota has comes all the same."""
    hold_to_quota(kwait, pods="1")
    kwait.create(stateful_set("web", 2))

    assert names(kwait.wait_for_stateful_set_running_and_ready("web", 1)) == ["web-0"]
    with raises(WaitFailed, 'FailedCreate: .*pods "web-1" is forbidden: exceeded quota: few'):
        kwait.wait_for_stateful_set_running_and_ready("web", 2, timeout="4m", grace="500ms")
