"""Unbindable claims fail a wait early, with the reason and the waiting pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client

from e2e.raising import raises, times_out
from e2e.storage.manifest import claim, kept_for, storage_class, user, volume
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]


def test_claim_without_class(
    kwait: Kwait, wait_for_persistent_volume_claim_phase: Wait, wait_for_pod_unschedulable: Wait
) -> None:
    """The claim's status has the reason; the waiting pod is named."""
    kwait.create(claim("data", ""), user("reader", "data"))

    assert wait_for_persistent_volume_claim_phase("data", "Pending")["spec"]
    with raises(
        WaitFailed,
        r"it asks for no storage class, and no volume fits it \(pod reader waits for it\)",
    ):
        wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s")


def test_a_class_that_does_not_exist(
    kwait: Kwait, unique: str, wait_for_persistent_volume_claim_phase: Wait, wait_for: Wait
) -> None:
    """Only the controller's events have the reason."""
    kwait.create(claim("data", unique))

    missing = f'ProvisioningFailed: storageclass.storage.k8s.io "{unique}" not found'
    with raises(WaitFailed, missing):
        wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")
    with raises(WaitFailed, missing):
        wait_for("pvc/data", "jsonpath={.status.phase}=Bound", grace="1s", timeout="4m")


def test_claim_without_provisioner(
    kwait: Kwait,
    unique: str,
    wait_for_persistent_volume_claim_phase: Wait,
    wait_for_pv_claim_bound_phase: Wait,
) -> None:
    """Its class provisions nothing; a volume created by hand in time binds."""
    data = kwait.create(storage_class(unique), claim("data", unique))[1]

    with raises(WaitFailed, "no volume plugin matched name: kubernetes.io/no-provisioner"):
        wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")
    kwait.create(volume(unique, unique, claimRef=kept_for(data)))
    assert wait_for_pv_claim_bound_phase(["data"], timeout="4m")


def test_claim_of_a_mismatched_volume(
    kwait: Kwait, unique: str, wait_for_persistent_volume_claim_phase: Wait
) -> None:
    """The claim names a volume that is too small."""
    kwait.create(volume(unique, unique))
    more = {"requests": {"storage": "2Mi"}}
    kwait.create(claim("data", unique, volumeName=unique, resources=more))

    with raises(WaitFailed, "VolumeMismatch: Cannot bind to requested volume .*too small"):
        wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")


def test_claim_of_a_volume_bound_elsewhere(
    kwait: Kwait, unique: str, wait_for_persistent_volume_claim_phase: Wait
) -> None:
    kwait.create(volume(unique, unique))
    kwait.create(claim("first", unique, volumeName=unique))
    wait_for_persistent_volume_claim_phase("first", "Bound")
    kwait.create(claim("second", unique, volumeName=unique))

    with raises(WaitFailed, "FailedBinding: volume .* already bound to a different claim"):
        wait_for_persistent_volume_claim_phase("second", "Bound", grace="1s", timeout="4m")


def test_waiting_for_first_consumer_does_not_fail(
    kwait: Kwait, unique: str, wait_for_persistent_volume_claim_phase: Wait
) -> None:
    kwait.create(
        storage_class(unique, volumeBindingMode="WaitForFirstConsumer"),
        volume(unique, unique),
        claim("data", unique),
    )

    times_out(
        "Pending: WaitForFirstConsumer: waiting for first consumer",
        wait_for_persistent_volume_claim_phase,
        "data",
        "Bound",
        grace="500ms",
    )
    kwait.create(user("reader", "data"))
    assert wait_for_persistent_volume_claim_phase("data", "Bound", timeout="4m")


def test_lost_claim(
    kwait: Kwait,
    unique: str,
    wait_for_persistent_volume_phase: Wait,
    wait_for_persistent_volume_claim_phase: Wait,
    wait_for_persistent_volume_deleted: Wait,
) -> None:
    """A claim of a deleted volume stays Lost."""
    kwait.create(volume(unique, unique))
    wait_for_persistent_volume_phase(unique, "Available")
    kwait.create(claim("data", unique))
    wait_for_persistent_volume_claim_phase("data", "Bound")
    kwait.delete("pv/" + unique)
    kubernetes.client.CoreV1Api(kwait.client).patch_persistent_volume(
        unique, {"metadata": {"finalizers": None}}
    )
    wait_for_persistent_volume_deleted(unique)

    assert wait_for_persistent_volume_claim_phase("data", "Lost", timeout="4m")
    with raises(WaitFailed, "the claim is Lost: ClaimLost: Bound claim has lost its"):
        wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s")
    with raises(WaitFailed, "the claim is Lost already"):
        wait_for_persistent_volume_claim_phase("data", "Pending")


def test_claim_phases_set_by_hand(
    kwait: Kwait,
    wait_for_persistent_volume_claims_phase: Wait,
    wait_for_persistent_volume_claim_deleted: Wait,
    wait_for_pvc_finalizer: Wait,
) -> None:
    """Phases, finalizers and deletion of claims without a controller."""
    held = claim("a", "kwait-none")
    held["metadata"]["finalizers"] = ["kwait.example/held"]
    first, _ = kwait.create(held, claim("b", "kwait-none"))

    both = wait_for_persistent_volume_claims_phase(["a", "b"], "Pending")
    assert [each["metadata"]["name"] for each in both] == ["a", "b"]
    assert wait_for_pvc_finalizer("a", "kwait.example/held")["metadata"]["name"] == "a"
    kwait.delete("pvc/a")
    times_out(
        "being deleted, held by .*kwait.example/held", wait_for_persistent_volume_claim_deleted, "a"
    )
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_persistent_volume_claim(
        "a", kwait.namespace, {"metadata": {"finalizers": None}}
    )
    wait_for_persistent_volume_claim_deleted("a", first["metadata"]["uid"])
