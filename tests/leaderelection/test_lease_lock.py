"""The lock that is a Lease, over a store with the server's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.leaderelection import LeaderElectionRecord, LeaseLock
from tests.client.session_client import SessionClient
from tests.leaderelection.lease_store import LeaseStore, StoreSession

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

SOON = Deadline.after(10)
AT = "2026-01-02T03:04:05.000000Z"
RECORD = LeaderElectionRecord("a", 15, AT, AT, 2)


@pytest.fixture
def session() -> StoreSession:
    return StoreSession(LeaseStore())


def lock_of(session: StoreSession, identity: str = "a") -> LeaseLock:
    return LeaseLock(cast("ApiClient", SessionClient(session)), "ns", "boss", identity)


def test_there_is_none_yet(session: StoreSession) -> None:
    assert lock_of(session).get(deadline=SOON) is None


def test_what_is_made_is_read(session: StoreSession) -> None:
    lock = lock_of(session)
    lock.create(RECORD, deadline=SOON)

    assert session.store.lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "boss", "namespace": "ns", "uid": "u1", "resourceVersion": "1"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": AT,
            "renewTime": AT,
            "leaseTransitions": 2,
        },
    }
    assert lock.get(deadline=SOON) == LeaderElectionRecord("a", 15, AT, AT, 2, version="1")
    assert (lock.describe(), lock.identity) == ("ns/boss", "a")


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None, "leaseTransitions": None}])
def test_what_says_nothing_is_held_by_nobody(session: StoreSession, spec: Any) -> None:
    session.store.put({"metadata": {"name": "boss"}, "spec": spec})

    assert lock_of(session).get(deadline=SOON) == LeaderElectionRecord(version="1")


def test_what_others_have_written_there_stays(session: StoreSession) -> None:
    metadata = {"name": "boss", "namespace": "ns", "labels": {"team": "x"}}
    session.store.put({"metadata": metadata, "spec": {"strategy": "OldestEmulationVersion"}})
    lock = lock_of(session)
    lock.get(deadline=SOON)
    lock.update(RECORD, deadline=SOON)

    assert session.store.lease is not None
    assert session.store.lease["metadata"]["labels"] == {"team": "x"}
    assert session.store.lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert session.store.holder == "a"


def test_of_two_that_have_seen_the_same_one_writes(session: StoreSession) -> None:
    a, b = lock_of(session), lock_of(session, "b")
    a.create(RECORD, deadline=SOON)
    b.get(deadline=SOON)
    a.update(RECORD, deadline=SOON)
    with pytest.raises(ApiError, match="it was changed"):
        b.update(RECORD, deadline=SOON)
    with pytest.raises(ApiError, match="it is there"):
        b.create(RECORD, deadline=SOON)
    a.update(RECORD, deadline=SOON)  # the version that its own write has made

    assert session.store.writes == 3


def test_other_errors_are_not_taken_for_absence(
    session: StoreSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_name: str) -> None:
        raise ApiError("you may not", status=403, reason="Forbidden")

    monkeypatch.setattr(session.store, "get", refuse)
    with pytest.raises(ApiError, match="you may not"):
        lock_of(session).get(deadline=SOON)


def test_what_was_never_seen_is_not_written(session: StoreSession) -> None:
    with pytest.raises(InvalidArgument) as caught:
        lock_of(session).update(RECORD, deadline=SOON)
    assert str(caught.value) == "lease=None is not valid: call get or create before update"
    assert session.verbs == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("n_s", "boss", "a"), "namespace='n_s' is not valid: use a DNS label"),
        (("ns", "Boss", "a"), "name='Boss' is not valid: use a DNS name"),
        (("ns", "boss", 7), "identity=7 is not valid: use a string"),
    ],
)
def test_bad_names(session: StoreSession, arguments: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        LeaseLock(cast("ApiClient", SessionClient(session)), *arguments)
    assert str(caught.value).startswith(text)
