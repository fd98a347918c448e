"""Waits on volumes and attachments: verdicts, and from call to message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.storage.volumes import (
    wait_for_persistent_volume_deleted,
    wait_for_persistent_volume_phase,
    wait_for_pv_finalizer,
    wait_for_volume_attachment_attached,
    wait_for_volume_attachment_created,
    wait_for_volume_attachment_terminated,
)
from tests.framework.sources import enter
from tests.objects import volume

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
PROTECTION = "kubernetes.io/pv-protection"


def claimed_volume(
    phase: str = "Available", *, claim: str = "", policy: str | None = None, **fields: Any
) -> Any:
    ref = {"namespace": "ci-1", "name": claim, "uid": "u"} if claim else None
    return volume(phase, claimRef=ref, persistentVolumeReclaimPolicy=policy, **fields)


def attachment(**more: Any) -> Any:
    status = more.pop("status", None)
    spec = {"attacher": "csi.example", "nodeName": "node-1"}
    return {"metadata": {"name": "va-1", **more}, "spec": spec, "status": status}


DELETING = {"deletionTimestamp": "now"}
ROWS: dict[str, tuple[Any, Any, Verdict]] = {
    "no volume": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Bound"),
        None,
        Pending("not found yet"),
    ),
    "available": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Available"),
        claimed_volume(),
        Met(),
    ),
    "not bound": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Bound"),
        claimed_volume(),
        Pending("Available"),
    ),
    "not bound to its claim": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Bound"),
        claimed_volume(claim="data"),
        Pending("Available kept for ci-1/data"),
    ),
    "not released": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Released"),
        claimed_volume("Bound", claim="data"),
        Pending("Bound to ci-1/data"),
    ),
    "released": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Bound"),
        claimed_volume("Released", claim="data"),
        Failed("the volume is Released by ci-1/data, which no other claim gets", LONG),
    ),
    "failed": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Available"),
        claimed_volume("Failed", status={"message": "no deleter"}),
        Failed("the volume is Failed: no deleter, which no other claim gets", LONG),
    ),
    "failed is awaited": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Failed"),
        claimed_volume("Failed"),
        Met(),
    ),
    "bound awaited of one that goes": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Bound"),
        claimed_volume(**DELETING),
        Failed("the persistentvolume is being deleted", SHORT),
    ),
    "released awaited of one that goes": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Released"),
        claimed_volume("Bound", claim="data", **DELETING),
        Pending("Bound to ci-1/data"),
    ),
    "nobody has reported": (
        condition_of(wait_for_persistent_volume_phase)("pv-1", "Pending"),
        {"metadata": {"name": "pv-1"}, "spec": None, "status": None},
        Met(),
    ),
    "gone": (condition_of(wait_for_persistent_volume_deleted)("pv-1"), None, Met()),
    "another": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1", "before"),
        claimed_volume(),
        Met(),
    ),
    "there": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1"),
        claimed_volume(),
        Pending("still there, not being deleted, its reclaim policy is Retain"),
    ),
    "there, bound": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1"),
        claimed_volume("Bound", claim="data", policy="Delete"),
        Pending("still there, bound to claim ci-1/data, its reclaim policy is Delete"),
    ),
    "to be reclaimed": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1"),
        claimed_volume("Released", claim="data", policy="Delete"),
        Pending("still there, to be deleted by its provisioner"),
    ),
    "reclaimed in vain": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1"),
        claimed_volume("Failed", policy="Delete", status={"message": "busy"}),
        Pending("still there, to be deleted by its provisioner: busy"),
    ),
    "held by its claim": (
        condition_of(wait_for_persistent_volume_deleted)("pv-1"),
        claimed_volume("Bound", claim="data", finalizers=[PROTECTION, "a/b"], **DELETING),
        Pending(f"being deleted, held by {PROTECTION} (bound to claim ci-1/data) and a/b"),
    ),
    "protected": (
        condition_of(wait_for_pv_finalizer)("pv-1", PROTECTION),
        claimed_volume(finalizers=[PROTECTION]),
        Met(),
    ),
    "not protected": (
        condition_of(wait_for_pv_finalizer)("pv-1", PROTECTION),
        claimed_volume(finalizers=["a/b"]),
        Pending(f"{PROTECTION} is not there, it has a/b"),
    ),
    "protected still": (
        condition_of(wait_for_pv_finalizer)("pv-1", PROTECTION, False),
        claimed_volume(finalizers=[PROTECTION]),
        Pending(f"{PROTECTION} is still there"),
    ),
    "no attachment": (
        condition_of(wait_for_volume_attachment_created)("va-1"),
        None,
        Pending("not found yet"),
    ),
    "created": (condition_of(wait_for_volume_attachment_created)("va-1"), attachment(), Met()),
    "attached": (
        condition_of(wait_for_volume_attachment_attached)("va-1"),
        attachment(status={"attached": True}),
        Met(),
    ),
    "not attached": (
        condition_of(wait_for_volume_attachment_attached)("va-1"),
        attachment(),
        Pending("not attached to node-1 by csi.example yet"),
    ),
    "not attached for a reason": (
        condition_of(wait_for_volume_attachment_attached)("va-1"),
        attachment(status={"attached": False, "attachError": {"message": "in\nuse"}}),
        Pending("not attached to node-1: in use"),
    ),
    "not attached and going": (
        condition_of(wait_for_volume_attachment_attached)("va-1"),
        attachment(**DELETING),
        Failed("the volumeattachment is being deleted", SHORT),
    ),
    "detached": (condition_of(wait_for_volume_attachment_terminated)("va-1"), None, Met()),
    "another attachment": (
        condition_of(wait_for_volume_attachment_terminated)("va-1", "before"),
        attachment(),
        Met(),
    ),
    "still attached": (
        condition_of(wait_for_volume_attachment_terminated)("va-1"),
        attachment(),
        Pending("still there, not being deleted"),
    ),
    "not detached for a reason": (
        condition_of(wait_for_volume_attachment_terminated)("va-1"),
        attachment(
            finalizers=["external-attacher/csi-example"],
            status={"attached": True, "detachError": {"message": "busy"}},
            **DELETING,
        ),
        Pending("being deleted, held by external-attacher/csi-example (busy)"),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    awaited, obj, verdict = ROWS[name]
    if obj is not None:
        enter(awaited, obj)

    assert awaited.verdict() == verdict


@MODES
def test_volume(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUMES, claimed_volume())
    session.at(2, session.put, PERSISTENT_VOLUMES, claimed_volume("Bound", finalizers=[PROTECTION]))
    session.at(4, session.put, PERSISTENT_VOLUMES, claimed_volume("Released"))
    session.at(6, session.drop, PERSISTENT_VOLUMES, "pv-1")

    found = kw.wait_for_persistent_volume_phase(client, "pv-1", "Bound", mode=mode)
    assert (found["kind"], found["status"]["phase"]) == ("PersistentVolume", "Bound")
    kw.wait_for_pv_finalizer(client, "pv-1", PROTECTION, mode=mode)
    assert session.clock.monotonic() == 2.0
    released = kw.wait_for_pv_finalizer(client, "pv-1", PROTECTION, False, mode=mode)
    assert released is not None
    assert session.clock.monotonic() == 4.0
    kw.wait_for_persistent_volume_deleted(client, "pv-1", mode=mode)
    assert session.clock.monotonic() == 6.0


@MODES
def test_attachment(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.at(2, session.put, VOLUME_ATTACHMENTS, attachment())
    session.at(4, session.put, VOLUME_ATTACHMENTS, attachment(status={"attached": True}))
    session.at(6, session.drop, VOLUME_ATTACHMENTS, "va-1")

    kw.wait_for_volume_attachment_created(client, "va-1", mode=mode)
    assert session.clock.monotonic() == 2.0
    found = kw.wait_for_volume_attachment_attached(client, "va-1", mode=mode)
    assert found["kind"] == "VolumeAttachment"
    assert session.clock.monotonic() == 4.0
    kw.wait_for_volume_attachment_terminated(client, "va-1", mode=mode)
    assert session.clock.monotonic() == 6.0


def test_a_volume_that_no_other_claim_gets(client: ApiClient, session: FakeSession) -> None:
    session.put(PERSISTENT_VOLUMES, claimed_volume("Released", claim="data"))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_persistent_volume_phase(client, "pv-1", "Bound")

    assert session.clock.monotonic() == 45.0
    assert caught.value.args == (
        "persistentvolume pv-1 can no longer get to phase Bound: the volume is Released by"
        " ci-1/data, which no other claim gets",
    )


HEADLINES = [
    (
        "wait_for_persistent_volume_phase",
        ("pv-1", "Bound"),
        "persistentvolume pv-1 did not get to phase Bound within 2s: Available",
    ),
    (
        "wait_for_persistent_volume_deleted",
        ("pv-1",),
        "persistentvolume pv-1 did not go away within 2s: still there, not being deleted, its "
        "reclaim policy is Retain",
    ),
    (
        "wait_for_pv_finalizer",
        ("pv-1", "a/b"),
        "persistentvolume pv-1 did not have finalizer a/b within 2s: a/b is not there",
    ),
    (
        "wait_for_volume_attachment_attached",
        ("va-1",),
        "volumeattachment va-1 did not become attached within 2s: not attached to node-1 by "
        "csi.example yet",
    ),
    (
        "wait_for_volume_attachment_terminated",
        ("va-1",),
        "volumeattachment va-1 did not go away within 2s: still there, not being deleted",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), HEADLINES)
def test_headlines(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, headline: str
) -> None:
    session.put(PERSISTENT_VOLUMES, claimed_volume())
    session.put(VOLUME_ATTACHMENTS, attachment())

    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, *arguments, timeout=2)

    assert caught.value.args == (headline,)


def test_an_attachment_that_does_not_come(client: ApiClient) -> None:
    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_volume_attachment_created(client, "va-1", timeout=2)

    assert caught.value.args[0].startswith(
        "volumeattachment va-1 did not get created within 2s: not found yet"
    )


DNS = "use a DNS name"
BAD: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "wait_for_persistent_volume_phase",
        ("pv-1", "Lost"),
        "phase='Lost' is not valid: use Pending, Available, Bound, Released, Failed",
    ),
    ("wait_for_persistent_volume_phase", ("PV", "Bound"), f"volume='PV' is not valid: {DNS}"),
    ("wait_for_persistent_volume_deleted", ("PV",), f"volume='PV' is not valid: {DNS}"),
    ("wait_for_persistent_volume_deleted", ("pv", ""), "uid='' is not valid: use a text"),
    ("wait_for_pv_finalizer", ("pv", ""), "finalizer='' is not valid: use a text"),
    ("wait_for_pv_finalizer", ("pv", "a/b", 0), "present=0 is not valid: use True or False"),
    ("wait_for_volume_attachment_created", (None,), f"attachment=None is not valid: {DNS}"),
    ("wait_for_volume_attachment_attached", ("",), f"attachment='' is not valid: {DNS}"),
    ("wait_for_volume_attachment_terminated", ("a/b",), f"attachment='a/b' is not valid: {DNS}"),
    ("wait_for_volume_attachment_terminated", ("a", 1), "uid=1 is not valid: use a text"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        getattr(kw, name)(client, *arguments)

    assert str(caught.value).startswith(text)
    assert session.requests == []
