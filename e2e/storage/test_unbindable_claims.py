"""Unbindable claims fail a wait early, with the reason and the waiting pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kubernetes.client

from e2e.objects import claim, kept_for, storage_class, user, volume
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForPodUnschedulable


def test_claim_without_class(
    kwait: Kwait, wait_for_pod_unschedulable: WaitForPodUnschedulable
) -> None:
    """The claim's status has the reason; the waiting pod is named."""
    kwait.create(claim("data", ""), user("reader", "data"))

    assert kwait.wait_for_persistent_volume_claim_phase("data", "Pending")["spec"]
    with raises(
        WaitFailed,
        r"it asks for no storage class, and no volume fits it \(pod reader waits for it\)",
    ):
        kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s")


def test_a_class_that_does_not_exist(kwait: Kwait, unique: str) -> None:
    """Only the controller's events have the reason."""
    kwait.create(claim("data", unique))

    missing = f'ProvisioningFailed: storageclass.storage.k8s.io "{unique}" not found'
    with raises(WaitFailed, missing):
        kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")
    with raises(WaitFailed, missing):
        kwait.wait_for("pvc/data", "jsonpath={.status.phase}=Bound", grace="1s", timeout="4m")


def test_claim_without_provisioner(kwait: Kwait, unique: str) -> None:
    """Its class provisions nothing; a volume created by hand in time binds."""
    data = kwait.create(storage_class(unique), claim("data", unique))[1]

    with raises(WaitFailed, "no volume plugin matched name: kubernetes.io/no-provisioner"):
        kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")
    kwait.create(volume(unique, unique, claimRef=kept_for(data)))
    assert kwait.wait_for_pv_claim_bound_phase(["data"], timeout="4m")


def test_claim_of_a_mismatched_volume(kwait: Kwait, unique: str) -> None:
    """The claim names a volume that is too small."""
    kwait.create(volume(unique, unique))
    more = {"requests": {"storage": "2Mi"}}
    kwait.create(claim("data", unique, volumeName=unique, resources=more))

    with raises(WaitFailed, "VolumeMismatch: Cannot bind to requested volume .*too small"):
        kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")


def test_claim_of_a_volume_bound_elsewhere(kwait: Kwait, unique: str) -> None:
    kwait.create(volume(unique, unique))
    kwait.create(claim("first", unique, volumeName=unique))
    kwait.wait_for_persistent_volume_claim_phase("first", "Bound")
    kwait.create(claim("second", unique, volumeName=unique))

    with raises(WaitFailed, "FailedBinding: volume .* already bound to a different claim"):
        kwait.wait_for_persistent_volume_claim_phase("second", "Bound", grace="1s", timeout="4m")


def test_waiting_for_first_consumer_does_not_fail(kwait: Kwait, unique: str) -> None:
    kwait.create(
        storage_class(unique, volumeBindingMode="WaitForFirstConsumer"),
        volume(unique, unique),
        claim("data", unique),
    )

    times_out(
        "Pending: WaitForFirstConsumer: waiting for first consumer",
        kwait.wait_for_persistent_volume_claim_phase,
        "data",
        "Bound",
        grace="500ms",
    )
    kwait.create(user("reader", "data"))
    assert kwait.wait_for_persistent_volume_claim_phase("data", "Bound", timeout="4m")


def test_lost_claim(kwait: Kwait, unique: str) -> None:
    """A claim of a deleted volume stays Lost."""
    kwait.create(volume(unique, unique))
    kwait.wait_for_persistent_volume_phase(unique, "Available")
    kwait.create(claim("data", unique))
    kwait.wait_for_persistent_volume_claim_phase("data", "Bound")
    kwait.delete("pv/" + unique)
    kubernetes.client.CoreV1Api(kwait.client).patch_persistent_volume(
        unique, {"metadata": {"finalizers": None}}
    )
    kwait.wait_for_persistent_volume_deleted(unique)

    assert kwait.wait_for_persistent_volume_claim_phase("data", "Lost", timeout="4m")
    with raises(WaitFailed, "the claim is Lost: ClaimLost: Bound claim has lost its"):
        kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s")
    with raises(WaitFailed, "the claim is Lost already"):
        kwait.wait_for_persistent_volume_claim_phase("data", "Pending")


def test_claim_phases_set_by_hand(kwait: Kwait) -> None:
    """Phases, finalizers and deletion of claims without a controller."""
    held = claim("a", "kwait-none")
    held["metadata"]["finalizers"] = ["kwait.example/held"]
    first, _ = kwait.create(held, claim("b", "kwait-none"))

    both = kwait.wait_for_persistent_volume_claims_phase(["a", "b"], "Pending")
    assert [each["metadata"]["name"] for each in both] == ["a", "b"]
    found = kwait.wait_for_pvc_finalizer("a", "kwait.example/held")
    assert found is not None
    assert found["metadata"]["name"] == "a"
    kwait.delete("pvc/a")
    times_out(
        "being deleted, held by .*kwait.example/held",
        kwait.wait_for_persistent_volume_claim_deleted,
        "a",
    )
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_persistent_volume_claim(
        "a", kwait.namespace, {"metadata": {"finalizers": None}}
    )
    kwait.wait_for_persistent_volume_claim_deleted("a", first["metadata"]["uid"])
