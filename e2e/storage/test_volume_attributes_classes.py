"""Waiting for a claim's new volume attributes class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest

from e2e.objects import claim, kept_for, volume
from e2e.raising import raises
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode


ERROR = {"type": "ModifyVolumeError", "status": "True", "message": "no such tier"}


@pytest.fixture
def bound(kwait: Kwait, unique: str) -> None:
    """A claim that has a volume, and asks for a class of attributes afterwards."""
    (data,) = kwait.create(claim("data", unique))
    kwait.create(volume(unique, unique, claimRef=kept_for(data)))
    kwait.wait_for_pv_and_pvc(unique, "data", timeout="4m")
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_persistent_volume_claim(
        "data", kwait.namespace, {"spec": {"volumeAttributesClassName": "kwait-gold"}}
    )


def report(kwait: Kwait, attempt: str | None, current: str, *conditions: dict[str, Any]) -> None:
    """Write the status as a driver's resizer does."""
    target = {"status": attempt, "targetVolumeAttributesClassName": "kwait-gold"}
    status = {
        "currentVolumeAttributesClassName": current,
        "modifyVolumeStatus": target if attempt else None,
        "conditions": list(conditions) or None,
    }
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_persistent_volume_claim_status(
        "data", kwait.namespace, {"status": status}
    )


@pytest.mark.usefixtures("bound")
@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_infeasible_volume_attributes_class(kwait: Kwait, mode: Mode) -> None:
    report(kwait, "Infeasible", "kwait-silver", ERROR)

    found = kwait.wait_for_persistent_volume_claim_modification_failure("data", mode=mode)

    assert found["status"]["modifyVolumeStatus"]["status"] == "Infeasible"


@pytest.mark.usefixtures("bound")
def test_modified_volume_attributes_class(kwait: Kwait) -> None:
    report(kwait, "Infeasible", "kwait-silver", ERROR)
    with raises(
        WaitFailed, "of class kwait-silver, kwait-gold is asked for: Infeasible: no such tier"
    ):
        kwait.wait_for_persistent_volume_claim_modified("data", grace="500ms")
    report(kwait, None, "kwait-gold")

    found = kwait.wait_for_persistent_volume_claim_modified("data")

    assert found["status"]["currentVolumeAttributesClassName"] == "kwait-gold"
