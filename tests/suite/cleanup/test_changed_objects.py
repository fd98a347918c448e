"""Objects of the cluster that a test changed are restored."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.resource import NODES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.framework.operations.drain import scheduling_change, taints_change
from pytest_kwait.framework.operations.edit import change_object, labels_change
from pytest_kwait.suite.cleanup.changed_objects import (
    LABEL_CHANGED,
    ChangedObjects,
    read_undo_records,
)
from pytest_kwait.suite.cleanup.janitor import Janitor, SweepResult
from pytest_kwait.suite.cleanup.owned_objects import Owner, run_label_value, run_lease_name
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.operations.edit import Change
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration

NODE = "/api/v1/nodes/n1"
LEASE_NAME = run_lease_name("r1", "ab")
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE_NAME}"


class Registration:
    """A run that was killed."""

    def place(self) -> str:
        return f"default/{LEASE_NAME}"

    def record(self, kind: str) -> None:
        assert kind == "nodes.v1."

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        raise AssertionError(f"a quota of {name} was not to be asked for")


@pytest.fixture
def transport() -> FakeTransport:
    transport = FakeTransport()
    metadata = {"name": "n1", "uid": "uid-n1", "resourceVersion": "1", "labels": {"zone": "a"}}
    old = {"key": "old", "effect": "NoSchedule"}
    transport.objects[NODE] = {"kind": "Node", "metadata": metadata, "spec": {"taints": [old]}}
    return transport


@pytest.fixture
def session(transport: FakeTransport) -> ApiSession:
    return ApiSession.of(cast("ApiClient", FakeClient(transport)))


def make_changes(session: ApiSession, registration: object = None) -> ChangedObjects:
    owner = Owner("r1", "test_x", "x", registration=cast("RunRegistration", registration))
    return ChangedObjects(session, owner)


def change(session: ApiSession, changes: ChangedObjects, what: Change) -> dict[str, Any]:
    recording = changes.recording(NODES, None, what)
    return change_object(session, NODES, "n1", None, recording, Deadline.after(60))


def node(transport: FakeTransport) -> dict[str, Any]:
    found = copy.deepcopy(transport.objects[NODE])
    for part in ("uid", "resourceVersion"):
        found["metadata"].pop(part)
    found["metadata"].pop("annotations", None)
    return found


def test_all_is_restored(session: ApiSession, transport: FakeTransport) -> None:
    before = node(transport)
    changes = make_changes(session)

    change(session, changes, scheduling_change(False))
    change(session, changes, taints_change(["new=1:NoExecute", "old-"], overwrite=False))
    change(session, changes, labels_change({"zone": "b", "color": "red"}, True))
    changed = transport.objects[NODE]

    assert changed["spec"]["unschedulable"]
    assert changed["metadata"]["labels"] == {"zone": "b", "color": "red", LABEL_CHANGED: "true"}
    assert [each.test for each in read_undo_records(changed)] == ["test_x"]
    assert changes.restore(lambda: Deadline.after(60)) == []
    assert node(transport) == before
    assert not transport.objects[NODE]["metadata"]["annotations"]
    assert len(changes) == 0


def test_what_others_changed_since_stays(session: ApiSession, transport: FakeTransport) -> None:
    changes = make_changes(session)
    change(session, changes, scheduling_change(False))
    change(session, changes, labels_change({"zone": "b"}, True))
    spec, metadata = transport.objects[NODE]["spec"], transport.objects[NODE]["metadata"]
    added = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec["taints"].append(added)
    metadata["labels"]["zone"] = "c"

    changes.restore(lambda: Deadline.after(60))

    assert added in transport.objects[NODE]["spec"]["taints"]
    assert transport.objects[NODE]["metadata"]["labels"] == {"zone": "c"}
    assert "unschedulable" not in transport.objects[NODE]["spec"]


def put_lease(transport: FakeTransport) -> None:
    """Write the Lease of a run that was killed."""
    transport.now = 10_000_000.0
    labels = {
        "app.kubernetes.io/managed-by": "pytest-kwait",
        "pytest-kwait/run": run_label_value("r1"),
    }
    notes = {"pytest-kwait/run": "r1", "pytest-kwait/nonce": "ab"}
    transport.objects[LEASE] = {
        "metadata": {
            "name": LEASE_NAME,
            "namespace": "default",
            "uid": "uid-lease",
            "resourceVersion": "1",
            "labels": labels,
            "annotations": {**notes, "pytest-kwait/kinds": "nodes.v1."},
        },
        "spec": {
            "leaseDurationSeconds": 60,
            "renewTime": "1970-01-02T00:00:00.000000Z",
            "holderIdentity": "r1",
        },
    }


def sweep(transport: FakeTransport, *, dry_run: bool = False) -> SweepResult:
    client = cast("ApiClient", FakeClient(transport))
    return Janitor(client, dry_run=dry_run).sweep(Deadline.after(60))


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_janitor_restores_for_a_killed_run(
    session: ApiSession, transport: FakeTransport, dry_run: bool
) -> None:
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)

    swept = sweep(transport, dry_run=dry_run)

    assert [str(each) for each in swept.restored] == ["nodes/n1"], swept.lines()
    assert ("unschedulable" in transport.objects[NODE]["spec"]) is dry_run
    done = "would restore" if dry_run else "restored"
    assert f"{done} nodes/n1 (test_x)" in swept.lines()
    assert swept.summary().endswith(f", {done} 1 changed object")


def test_the_lease_of_a_killed_run_is_removed_last(
    session: ApiSession, transport: FakeTransport
) -> None:
    """It names the kinds: a janitor that is killed at any request leaves it to the next."""
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    transport.requests.clear()

    sweep(transport)

    writes = [each for each in transport.requests if not each.startswith("GET")]
    assert writes == [f"PATCH {LEASE}", f"PATCH {NODE}", f"DELETE {LEASE}"]


@pytest.mark.parametrize("killed_at", [f"PATCH {LEASE}", f"PATCH {NODE}", f"DELETE {LEASE}"])
def test_a_killed_janitor_is_completed_by_the_next(
    session: ApiSession, transport: FakeTransport, killed_at: str
) -> None:
    before = node(transport)
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    method, _, path = killed_at.partition(" ")
    transport.refuse(method, path, cast("ApiError", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        sweep(transport)
    assert LEASE in transport.objects

    sweep(transport)

    assert node(transport) == before
    assert LEASE not in transport.objects


def test_the_lease_stays_until_all_is_restored(
    session: ApiSession, transport: FakeTransport
) -> None:
    before = node(transport)
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    transport.refuse("PATCH", NODE, ApiError("no", status=403, reason="Forbidden"))

    swept = sweep(transport)
    assert swept.problems == ["nodes/n1 could not be restored: 403 Forbidden: no"]
    assert LEASE in transport.objects

    assert [str(each) for each in sweep(transport).restored] == ["nodes/n1"]
    assert node(transport) == before
    assert LEASE not in transport.objects


def test_a_run_that_shows_life_keeps_its_changes(
    session: ApiSession, transport: FakeTransport
) -> None:
    """Its Lease was renewed after the janitor had read it."""
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    conflict = ApiError("the object has been modified", status=409, reason="Conflict")
    transport.refuse("PATCH", LEASE, conflict)

    assert sweep(transport).restored == []
    assert transport.objects[NODE]["spec"]["unschedulable"]


def test_changes_of_a_run_without_a_lease_are_restored_at_once(
    session: ApiSession, transport: FakeTransport
) -> None:
    """They are found if the kind is looked at, as by `kwait janitor --all-kinds`."""
    change(session, make_changes(session, Registration()), scheduling_change(False))
    transport.now = 0.0
    client = cast("ApiClient", FakeClient(transport))

    swept = Janitor(client).sweep(Deadline.after(60), all_kinds=True)

    assert [str(each) for each in swept.restored] == ["nodes/n1"]


def test_a_living_run_keeps_its_changes(session: ApiSession, transport: FakeTransport) -> None:
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    transport.now = 86_400.0
    client = cast("ApiClient", FakeClient(transport))

    swept = Janitor(client).sweep(Deadline.after(60), all_kinds=True)

    assert swept.restored == []
    assert transport.objects[NODE]["spec"]["unschedulable"]


def test_a_sweep_of_one_run_leaves_the_changes_of_others(
    session: ApiSession, transport: FakeTransport
) -> None:
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    client = cast("ApiClient", FakeClient(transport))

    swept = Janitor(client, run="r2").sweep(Deadline.after(60), all_kinds=True)

    assert swept.restored == []
    assert transport.objects[NODE]["spec"]["unschedulable"]
    assert "pytest-kwait/removed" not in transport.objects[LEASE]["metadata"]["annotations"]
    swept = Janitor(client, run="r1").sweep(Deadline.after(60), all_kinds=True)
    assert [str(each) for each in swept.restored] == ["nodes/n1"]
    assert LEASE not in transport.objects


@pytest.mark.parametrize("all_kinds", [False, True])
def test_a_lease_whose_kinds_were_not_listed_stays(
    session: ApiSession, transport: FakeTransport, all_kinds: bool
) -> None:
    """Leases of one namespace are shown; the record of a change names one of another."""
    change(session, make_changes(session, Registration()), scheduling_change(False))
    put_lease(transport)
    shown = copy.deepcopy(transport.objects[LEASE])
    shown["metadata"] |= {"namespace": "team-a", "uid": "uid-shown"}
    transport.objects[LEASE.replace("/default/", "/team-a/")] = shown
    kinds = {"pytest-kwait/kinds": "nodes.v1.,configmaps.v1."}
    transport.objects[LEASE]["metadata"]["annotations"] |= kinds
    refusal = ApiError("no", status=403, reason="Forbidden")
    transport.refuse("GET", "/apis/coordination.k8s.io/v1/leases", refusal)
    janitor = Janitor(cast("ApiClient", FakeClient(transport)), namespace="team-a")

    swept = janitor.sweep(Deadline.after(60), all_kinds=all_kinds)

    assert [str(each) for each in swept.restored] == ["nodes/n1"]
    assert (LEASE in transport.objects) is not all_kinds


def test_records_that_cannot_be_read_are_left_out() -> None:
    notes = {"pytest-kwait/undo-1": "{", "pytest-kwait/undo-2": '{"expires": "x"}', "other": "{}"}

    assert read_undo_records({"metadata": {"annotations": notes}}) == []
