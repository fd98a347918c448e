"""Waits on claims whose volume attributes class changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import PERSISTENT_VOLUME_CLAIMS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.storage.claims import (
    wait_for_persistent_volume_claim_modification_failure,
    wait_for_persistent_volume_claim_modified,
)
from tests.framework.sources import enter
from tests.objects import claim

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


def gold_claim(
    current: str | None, attempt: str = "", *conditions: Any, phase: str = "Bound"
) -> Any:
    status = {"modifyVolumeStatus": {"status": attempt}} if attempt else {}
    return claim(
        phase,
        volumeAttributesClassName="gold",
        currentVolumeAttributesClassName=current,
        conditions=list(conditions),
        status=status,
    )


ERROR = {"type": "ModifyVolumeError", "status": "True", "message": "no\ngold"}
OVER = {"type": "ModifyVolumeError", "status": "False"}
UNDER_WAY = {"type": "ModifyingVolume", "status": "True"}
SILVER = "Bound, of class silver, gold is asked for"

ROWS: dict[str, tuple[Any, Verdict, Verdict]] = {
    "modified": (gold_claim("gold"), Met(), Pending("Bound, of class gold, gold is asked for")),
    "modified after an error": (
        gold_claim("gold", "", OVER),
        Met(),
        Pending("Bound, of class gold, gold is asked for"),
    ),
    "not asked yet": (gold_claim("silver"), Pending(SILVER), Pending(SILVER)),
    "not bound": (
        gold_claim("gold", phase="Pending"),
        Pending("Pending, of class gold, gold is asked for"),
        Pending("Pending, of class gold, gold is asked for"),
    ),
    "under way": (
        gold_claim(None, "InProgress", UNDER_WAY),
        Pending("Bound, of class none, gold is asked for: InProgress"),
        Pending("Bound, of class none, gold is asked for: InProgress"),
    ),
    "the condition is left": (
        gold_claim("gold", "", UNDER_WAY),
        Pending("Bound, of class gold, gold is asked for"),
        Pending("Bound, of class gold, gold is asked for"),
    ),
    "an error that is tried again": (
        gold_claim("silver", "InProgress", ERROR),
        Pending(f"{SILVER}: InProgress: no gold"),
        Met(),
    ),
    "refused": (
        gold_claim("silver", "Infeasible", ERROR),
        Failed(f"{SILVER}: Infeasible: no gold", Grace.LONG),
        Met(),
    ),
    "none is asked for": (
        {"metadata": {"name": "data"}, "spec": None, "status": {"phase": "Bound"}},
        Met(),
        Pending("Bound, of class none, none is asked for"),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    obj, modified, refused = ROWS[name]
    for make, verdict in (
        (condition_of(wait_for_persistent_volume_claim_modified), modified),
        (condition_of(wait_for_persistent_volume_claim_modification_failure), refused),
    ):
        awaited = make("ci-1", "data")
        assert awaited.verdict() == Pending("not found yet")
        enter(awaited, obj)
        assert awaited.verdict() == verdict


@MODES
def test_from_call_to_result(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, gold_claim("silver"))
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, gold_claim("silver", "InProgress", ERROR))
    session.at(4, session.put, PERSISTENT_VOLUME_CLAIMS, gold_claim("gold"))
    first = (client, "ci-1", "data")

    refused = kw.wait_for_persistent_volume_claim_modification_failure(*first, mode=mode)
    assert refused["kind"] == "PersistentVolumeClaim"
    assert session.clock.monotonic() == 2.0
    kw.wait_for_persistent_volume_claim_modified(*first, mode=mode)
    assert session.clock.monotonic() == 4.0


def test_messages(client: ApiClient, session: FakeSession) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, gold_claim("silver", "Infeasible", ERROR))
    with pytest.raises(WaitFailed) as failed:
        kw.wait_for_persistent_volume_claim_modified(client, "ci-1", "data")
    assert failed.value.args == (
        "persistentvolumeclaim ci-1/data can no longer get its class of volume attributes: Bound, "
        "of class silver, gold is asked for: Infeasible: no gold",
    )
    session.put(PERSISTENT_VOLUME_CLAIMS, gold_claim("silver"))
    with pytest.raises(WaitTimeout) as late:
        kw.wait_for_persistent_volume_claim_modification_failure(client, "ci-1", "data", timeout=2)
    assert late.value.args == (
        "persistentvolumeclaim ci-1/data did not get refused its class of volume attributes within"
        " 2s: Bound, of class silver, gold is asked for",
    )


def test_bad_input(client: ApiClient, session: FakeSession) -> None:
    with pytest.raises(InvalidArgument, match="namespace='CI' is not valid"):
        kw.wait_for_persistent_volume_claim_modified(client, "CI", "data")
    with pytest.raises(InvalidArgument, match="claim='D' is not valid"):
        kw.wait_for_persistent_volume_claim_modification_failure(client, "ci-1", "D")
    assert session.requests == []
