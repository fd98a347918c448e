"""Golden failure messages of waits on claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pytest_kwait.errors import WaitFailed
from tests.framework.storage.claims import claim_event, claimed_volume, fast_claim, user

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession


def message(client: ApiClient, session: FakeSession, *objects: tuple[Any, Any]) -> str:
    for resource, obj in objects:
        session.put(resource, obj)
    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_persistent_volume_claim_phase(client, "ci-1", "data", "Bound")
    return str(caught.value)


LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"


def test_lost(client: ApiClient, session: FakeSession) -> None:
    recorded = {**claim_event("ClaimLost", LOST), "type": "Warning"}
    text = message(
        client, session, (PERSISTENT_VOLUME_CLAIMS, fast_claim("Lost")), (EVENTS, recorded)
    )

    assert session.clock.monotonic() == 5.0
    assert text == (
        "persistentvolumeclaim ci-1/data can no longer get to phase Bound: the claim is Lost:\n"
        "    ClaimLost: Bound claim has lost its PersistentVolume\n"
        "  awaited   persistentvolumeclaim ci-1/data to get to phase Bound\n"
        "  limit     3m0s, ended after 5s (watch mode)\n"
        "  seen      Lost\n"
        "  timeline\n"
        "       0.0s  final if it holds for 5s: the claim is Lost: ClaimLost: Bound claim has "
        "lost...\n"
        "       5.0s  the claim is Lost: ClaimLost: Bound claim has lost its PersistentVolume\n"
        "  warnings\n"
        "    ClaimLost (persistentvolumeclaim/data): Bound claim has lost its PersistentVolume. "
        "Data\n"
        "      on the volume is lost!\n"
        "  try: kubectl --namespace ci-1 describe persistentvolumeclaims/data"
    )


def test_no_class(client: ApiClient, session: FakeSession) -> None:
    nothing = fast_claim(spec={"storageClassName": ""})
    text = message(
        client,
        session,
        (PERSISTENT_VOLUME_CLAIMS, nothing),
        (PODS, user("a")),
        (PODS, user("b")),
    )

    assert session.clock.monotonic() == 45.0
    assert text == (
        "persistentvolumeclaim ci-1/data can no longer get to phase Bound: it asks for no "
        "storage\n"
        "    class, and no volume fits it (pods a, b wait for it)\n"
        "  awaited   persistentvolumeclaim ci-1/data to get to phase Bound\n"
        "  limit     3m0s, ended after 45s (watch mode)\n"
        "  seen      Pending\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: it asks for no storage class, and no volume "
        "fits ...\n"
        "      45.0s  it asks for no storage class, and no volume fits it (pods a, b wait for "
        "it)\n"
        "  pods\n"
        "    a Pending, on no node\n"
        "    b Pending, on no node\n"
        "  try: kubectl --namespace ci-1 describe persistentvolumeclaims/data"
    )


def test_no_provisioner(client: ApiClient, session: FakeSession) -> None:
    recorded = claim_event(
        "ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner"
    )
    text = message(
        client,
        session,
        (PERSISTENT_VOLUME_CLAIMS, fast_claim()),
        (EVENTS, {**recorded, "type": "Warning"}),
    )

    assert session.clock.monotonic() == 45.0
    assert text == (
        "persistentvolumeclaim ci-1/data can no longer get to phase Bound: ProvisioningFailed: "
        "no\n"
        "    volume plugin matched name: kubernetes.io/no-provisioner\n"
        "  awaited   persistentvolumeclaim ci-1/data to get to phase Bound\n"
        "  limit     3m0s, ended after 45s (watch mode)\n"
        "  seen      Pending\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: ProvisioningFailed: no volume plugin matched "
        "name...\n"
        "      45.0s  ProvisioningFailed: no volume plugin matched name: "
        "kubernetes.io/no-provisioner\n"
        "  try: kubectl --namespace ci-1 describe persistentvolumeclaims/data"
    )


def test_a_volume_that_does_not_fit(client: ApiClient, session: FakeSession) -> None:
    recorded = claim_event(
        "VolumeMismatch", 'Cannot bind to requested volume "pv-1": requested PV is too small'
    )
    text = message(
        client,
        session,
        (PERSISTENT_VOLUME_CLAIMS, fast_claim(spec={"volumeName": "pv-1"})),
        (EVENTS, {**recorded, "type": "Warning"}),
    )

    assert session.clock.monotonic() == 45.0
    assert text == (
        "persistentvolumeclaim ci-1/data can no longer get to phase Bound: VolumeMismatch: "
        "Cannot\n"
        '    bind to requested volume "pv-1": requested PV is too small\n'
        "  awaited   persistentvolumeclaim ci-1/data to get to phase Bound\n"
        "  limit     3m0s, ended after 45s (watch mode)\n"
        "  seen      Pending\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: VolumeMismatch: Cannot bind to requested volume "
        '"...\n'
        '      45.0s  VolumeMismatch: Cannot bind to requested volume "pv-1": requested PV is '
        "too ...\n"
        "  try: kubectl --namespace ci-1 describe persistentvolumeclaims/data"
    )


def test_a_volume_that_is_kept_for_another(client: ApiClient, session: FakeSession) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(spec={"volumeName": "pv-1"}))
    session.put(PERSISTENT_VOLUMES, claimed_volume("Released", uid="before"))
    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pv_and_pvc(client, "ci-1", "pv-1", "data")

    assert session.clock.monotonic() == 45.0
    assert str(caught.value) == (
        "persistentvolumeclaim ci-1/data can no longer become bound to volume pv-1: volume pv-1 "
        "is\n"
        "    kept for claim ci-1/data of another UID\n"
        "  awaited   persistentvolumeclaim ci-1/data to become bound to volume pv-1\n"
        "  limit     3m0s, ended after 45s (watch mode)\n"
        "  seen      Pending; volume pv-1 Released\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: volume pv-1 is kept for claim ci-1/data of "
        "anothe...\n"
        "      45.0s  volume pv-1 is kept for claim ci-1/data of another UID\n"
        "  try: kubectl --namespace ci-1 describe persistentvolumeclaims/data"
    )
