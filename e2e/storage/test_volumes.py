"""Waiting for volumes, and for claims and volumes that are bound to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kubernetes.client
import pytest

from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import attachment, claim, kept_for, user, volume
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


PV_PROTECTION = "kubernetes.io/pv-protection"
PVC_PROTECTION = "kubernetes.io/pvc-protection"


def report(kwait: Kwait, name: str, phase: str) -> None:
    """Write a volume's status as its controller does."""
    kubernetes.client.CoreV1Api(kwait.client).patch_persistent_volume_status(
        name, {"status": {"phase": phase}}
    )


def finalize_volume(kwait: Kwait, name: str, *finalizers: str) -> None:
    kubernetes.client.CoreV1Api(kwait.client).patch_persistent_volume(
        name, [{"op": "add", "path": "/metadata/finalizers", "value": finalizers}]
    )


def test_claim_and_volume_bound(kwait: Kwait, unique: str) -> None:
    """The claim names the volume, and the volume the claim by its UID."""
    kwait.create(volume(unique, unique))
    kwait.wait_for_persistent_volume_phase(unique, "Available")
    kwait.create(claim("data", unique))

    bound, data = kwait.wait_for_pv_and_pvc(unique, "data")

    assert bound["spec"]["claimRef"]["uid"] == data["metadata"]["uid"]
    assert data["spec"]["volumeName"] == bound["metadata"]["name"]
    assert kwait.wait_for_persistent_volume_phase(unique, "Bound") == bound
    assert kwait.wait_for_pv_claim_bound_phase(["data"]) == [bound]
    with raises(WaitFailed, f"the claim has volume {unique}"):
        kwait.wait_for_pv_and_pvc("another", "data")


def test_many_claims_bound(kwait: Kwait, unique: str) -> None:
    """All of them, or any, within one limit."""
    claims = kwait.create(claim("a", unique), claim("b", unique))
    first, second = (
        volume(f"{unique}-{name}", unique, claimRef=kept_for(each))
        for name, each in zip("ab", claims, strict=True)
    )
    kwait.create(first)

    (any_of,) = kwait.wait_for_persistent_volume_claims_phase(["a", "b"], "Bound", match_any=True)
    assert any_of["spec"]["volumeName"] == f"{unique}-a"
    times_out(
        r"did not get to phase Bound \(all\) within LIMIT: .*b: ",
        kwait.wait_for_persistent_volume_claims_phase,
        ["a", "b"],
        "Bound",
    )
    kwait.create(second)

    found = kwait.wait_for_persistent_volume_claims_phase(claims, "Bound", timeout="4m")
    volumes = kwait.wait_for_pv_claim_bound_phase(claims)

    assert [each["metadata"]["name"] for each in found] == ["a", "b"]
    assert [each["spec"]["claimRef"]["name"] for each in volumes] == ["a", "b"]


def test_volume_released(kwait: Kwait, unique: str) -> None:
    """A volume reserved for a deleted claim binds to no other."""
    kwait.create(volume(unique, unique))
    kwait.wait_for_persistent_volume_phase(unique, "Available")
    kwait.create(claim("data", unique))
    kwait.wait_for_pv_and_pvc(unique, "data")
    kwait.delete("pv/" + unique)
    times_out(
        rf"held by {PV_PROTECTION} \(bound to claim \S+/data\)",
        kwait.wait_for_persistent_volume_deleted,
        unique,
    )
    kwait.delete("pvc/data")

    kwait.wait_for_persistent_volume_claim_deleted("data")
    kwait.wait_for_persistent_volume_deleted(unique)
    kwait.create(volume(f"{unique}-2", unique))
    kwait.wait_for_persistent_volume_phase(f"{unique}-2", "Available")
    kwait.create(claim("data", unique))
    kwait.wait_for_pv_and_pvc(f"{unique}-2", "data")
    kwait.delete("pvc/data")
    kwait.wait_for_persistent_volume_phase(f"{unique}-2", "Released")
    kwait.create(claim("data", unique))
    with raises(WaitFailed, r"the volume is Released by \S+/data, which no other claim gets"):
        kwait.wait_for_persistent_volume_phase(f"{unique}-2", "Bound", grace="500ms")
    with raises(WaitFailed, "is kept for claim data of another UID"):
        kwait.wait_for_pv_and_pvc(f"{unique}-2", "data", grace="500ms")


def test_volume_finalizers_and_users(kwait: Kwait, unique: str) -> None:
    """A claim that is deleted stays until no pod uses it; the message names them."""
    kwait.create(volume(unique, unique))
    kwait.wait_for_persistent_volume_phase(unique, "Available")
    kwait.create(claim("data", unique), user("reader", "data"))

    found = kwait.wait_for_pv_finalizer(unique, PV_PROTECTION)
    assert found is not None
    assert PV_PROTECTION in found["metadata"]["finalizers"]
    used = kwait.wait_for_pvc_finalizer("data", PVC_PROTECTION)
    assert used is not None
    uid = used["metadata"]["uid"]
    kwait.wait_for_pod_running("reader")
    kwait.delete("pvc/data")
    times_out(
        rf"held by {PVC_PROTECTION} \(used by pod reader\)",
        kwait.wait_for_persistent_volume_claim_deleted,
        "data",
    )
    kwait.delete("pod/reader")
    assert kwait.wait_for_pvc_finalizer("data", PVC_PROTECTION, present=False, timeout="4m") is None
    kwait.wait_for_persistent_volume_claim_deleted("data", uid)


def test_data_outlives_the_pod_that_wrote_it(kwait: Kwait, unique: str) -> None:
    """The next pod of the claim reads it, also by subPath."""
    node = first_kubelet_node(kwait)
    kwait.create(volume(unique, unique), claim("data", unique))
    kwait.wait_for_pv_and_pvc(unique, "data")
    kwait.create(user("writer", "data", "echo kept > /data/note", nodeName=node))
    kwait.wait_for_pod_success("writer")
    kwait.delete("pod/writer")

    kwait.create(user("reader", "data", "cat /data/note", nodeName=node))
    kwait.wait_for_pod_success("reader")
    assert kwait.logs("reader") == "kept\n"


def test_volume_phases_set_by_hand(kwait: Kwait, unique: str) -> None:
    """Volumes have no namespace."""
    kwait.create(volume(unique, unique, claimRef={"name": "none", "namespace": kwait.namespace}))
    report(kwait, unique, "Available")

    found = kwait.wait_for_persistent_volume_phase(unique, "Available")

    assert found["metadata"]["name"] == unique
    times_out("not found yet", kwait.wait_for_persistent_volume_phase, f"{unique}-none", "Bound")


def test_claim_deleted_by_uid(kwait: Kwait, unique: str) -> None:
    """A recreated volume of the same name is another one."""
    (made,) = kwait.create(volume(unique, unique))
    finalize_volume(kwait, unique, "kwait.example/held")
    kwait.wait_for_pv_finalizer(unique, "kwait.example/held")
    times_out(
        "not being deleted, its reclaim policy is Retain",
        kwait.wait_for_persistent_volume_deleted,
        unique,
    )
    kwait.delete("pv/" + unique)
    times_out(
        "being deleted, held by .*kwait.example/held",
        kwait.wait_for_persistent_volume_deleted,
        unique,
    )
    finalize_volume(kwait, unique)

    kwait.wait_for_persistent_volume_deleted(unique, made["metadata"]["uid"])
    kwait.create(volume(unique, unique))
    kwait.wait_for_persistent_volume_deleted(unique, made["metadata"]["uid"])


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_volume_attachment(kwait: Kwait, unique: str, mode: Mode) -> None:
    """The test writes the status of a driver's attacher."""
    storage = kubernetes.client.StorageV1Api(kwait.client)
    kwait.create(attachment(unique, f"{unique}-pv", first_kubelet_node(kwait)))

    kwait.wait_for_volume_attachment_created(unique, mode=mode)
    storage.patch_volume_attachment_status(
        unique, {"status": {"attached": False, "attachError": {"message": "the disk is in use"}}}
    )
    times_out(
        r"not attached to \S+: the disk is in use",
        kwait.wait_for_volume_attachment_attached,
        unique,
        mode=mode,
    )
    storage.patch_volume_attachment_status(
        unique, {"status": {"attached": True, "attachError": None}}
    )
    assert (
        kwait.wait_for_volume_attachment_attached(unique, mode=mode)["status"]["attached"] is True
    )
    times_out(
        "still there, not being deleted",
        kwait.wait_for_volume_attachment_terminated,
        unique,
        mode=mode,
    )
    kwait.delete("volumeattachment/" + unique)
    kwait.wait_for_volume_attachment_terminated(unique, mode=mode)
