"""Objects of a name that another one has had, which is still being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.session import TimeBudget
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.suite.bound_wait import WaitDefaults
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.kwait import Kwait
from tests.objects import config_map
from tests.suite.fakes import FakeClient, FakeCluster, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_kwait.client.responses import Response
    from pytest_kwait.clusters.cluster import Cluster

_HOME = "/api/v1/namespaces/team"
_NOTE = f"{_HOME}/configmaps/note"
_HOLD = "example.com/hold"


class Lingering(FakeTransport):
    """Objects with finalizers go when they have been looked at `patience` times.

    Args:
        patience: how many looks one that is being deleted outlasts; None to stay.
    """

    def __init__(self, patience: int | None) -> None:
        super().__init__()
        self.patience = patience
        self.policies: list[str] = []

    def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None
    ) -> Response:
        for key, obj in list(self.objects.items()):
            if method == "GET" and obj["metadata"].get("deletionTimestamp"):
                obj["metadata"]["looks"] = obj["metadata"].get("looks", 0) + 1
                if self.patience is not None and obj["metadata"]["looks"] > self.patience:
                    del self.objects[key]
        return super()._send(method, path, query, body)

    def _delete(self, path: str, options: dict[str, Any]) -> Response:
        self.policies.append(options["propagationPolicy"])
        found = self.objects.get(path)
        if found is None or not found["metadata"].get("finalizers"):
            return super()._delete(path, options)
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self._answer(found)

    def occupy(self, uid: str = "old") -> None:
        """Put what is being deleted where tests want something of their own."""
        metadata = {
            "name": "note",
            "namespace": "team",
            "uid": uid,
            "finalizers": [_HOLD],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        self.objects[_NOTE] = note


def note(**fields: Any) -> dict[str, Any]:
    return config_map(**{"name": "note", **fields})


def make_kwait(
    transport: FakeTransport, folder: Path, *, owned: bool, wait: Any = 60.0, **defaults: Any
) -> Kwait:
    cluster = FakeCluster()
    cluster.transport = transport
    client: Any = FakeClient(transport)
    changes = {"mode": "poll", "poll": 0.01, "deletion_wait": wait}
    settings = Settings().merged(changes, lambda _: "option")
    timeouts = {**settings.timeouts(), "pod_client_deletion": 0.2}
    given = WaitDefaults(client, "team", settings, timeouts, **defaults)
    return Kwait(
        cast("Cluster", cluster),
        client,
        "team",
        owner=Owner("r1", "tests/test_x.py::test_y", "test_y"),
        defaults=lambda: given,
        folders=lambda: [folder],
        owned=owned,
    )


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_apply_waits_for_the_deletion_of_the_old_object(
    tmp_path: Path, verb: str, owned: bool
) -> None:
    transport = Lingering(patience=4)
    transport.occupy()
    kwait = make_kwait(transport, tmp_path, owned=owned)
    (made,) = getattr(kwait, verb)(note())
    assert made["metadata"]["uid"] != "old"
    assert not made["metadata"].get("deletionTimestamp")
    assert ("pytest-kwait/run" in made["metadata"].get("labels", {})) is not owned
    assert kwait.close() == []
    assert (_NOTE in transport.objects) is owned


@pytest.mark.parametrize("verb", ["create", "apply"])
def test_remaining_old_object_is_named_with_its_finalizers(tmp_path: Path, verb: str) -> None:
    transport = Lingering(patience=None)
    transport.occupy()
    kwait = make_kwait(transport, tmp_path, owned=False)
    with pytest.raises(WaitTimeout) as caught:
        getattr(kwait, verb)(note())
    assert caught.value.args[0] == (
        "configmap team/note did not go away within 200ms: being deleted, held by example.com/hold"
    )
    assert caught.value.__notes__ == [
        "none of that name can be made as long as it is there",
        "configmap/note of manifest 1",
    ]
    assert kwait.close() == []
    assert transport.policies == []


def test_apply_ends_before_the_test_timeout(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    transport.occupy()
    kwait = make_kwait(
        transport, tmp_path, owned=True, time_budget=lambda: TimeBudget(0.1, "the end")
    )
    with pytest.raises(WaitTimeout, match="did not go away within 100ms") as caught:
        kwait.create(note())
    assert caught.value.__notes__[0] == "its limit of 200ms was cut to 100ms to end before the end"


def test_existing_object_is_not_deleted(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    kwait = make_kwait(transport, tmp_path, owned=False)
    transport.objects[_NOTE] = note(uid="theirs")
    with pytest.raises(ApiError, match="AlreadyExists"):
        kwait.create(note())
    assert kwait.apply(note(labels={"a": "b"}))[0]["metadata"]["uid"] == "theirs"
    assert kwait.close() == []
    assert _NOTE in transport.objects


def test_forbidden_get_reports_the_servers_message(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    transport.occupy()
    transport.refuse("GET", _NOTE, ApiError("no", status=403, reason="Forbidden"))
    with pytest.raises(ApiError, match="AlreadyExists"):
        make_kwait(transport, tmp_path, owned=True).create(note())


def test_lost_response_is_not_mistaken_for_the_old_object(tmp_path: Path) -> None:
    transport = Lingering(patience=4)
    transport.occupy()
    lost = ApiError("reset", reason="ConnectionReset")
    transport.refuse("POST", f"{_HOME}/configmaps", lost)
    (made,) = make_kwait(transport, tmp_path, owned=True).create(note())
    assert made["metadata"]["uid"] != "old"


def test_manifest_with_finalizers_updates_the_terminating_object(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    transport.occupy()
    kwait = make_kwait(transport, tmp_path, owned=False)
    (freed,) = kwait.apply(note(finalizers=[]))
    assert (freed["metadata"]["uid"], freed["metadata"]["finalizers"]) == ("old", [])
    assert kwait.close() == []
    assert transport.policies == []


_JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "finalizers": [_HOLD]}}


def test_objects_in_a_foreign_namespace_are_deleted_one_by_one(
    tmp_path: Path,
) -> None:
    """An object created first may remove a finalizer."""
    transport = Lingering(patience=2)
    kwait = make_kwait(transport, tmp_path, owned=False)
    kwait.create(note(finalizers=[_HOLD]), _JOB, note(name="last"))
    transport.requests.clear()
    assert (kwait.close(), kwait.left) == ([], [])
    assert transport.objects == {}
    jobs = "/apis/batch/v1/namespaces/team/jobs"
    assert transport.requests == [
        f"DELETE {_HOME}/configmaps/last",
        f"DELETE {jobs}/j",
        *[f"GET {jobs}"] * 3,
        f"DELETE {_NOTE}",
        *[f"GET {_HOME}/configmaps"] * 3,
    ]
    # With what it owns.
    assert transport.policies == ["Background", "Foreground", "Background"]


def test_remaining_objects_share_one_limit(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    kwait = make_kwait(transport, tmp_path, owned=False, wait=0.3)
    kwait.create(note(finalizers=[_HOLD]), _JOB)
    assert kwait.close() == []
    assert kwait.left == [
        "job team/j did not go away within 300ms: being deleted, held by example.com/hold",
        "configmap team/note did not go away within 300ms: being deleted, held by example.com/hold",
    ]
    # Both were asked to go.
    assert transport.policies == ["Foreground", "Background"]


@pytest.mark.parametrize(("owned", "wait"), [(True, 60.0), (False, 0)])
def test_unneeded_deletions_are_not_awaited(tmp_path: Path, owned: bool, wait: float) -> None:
    transport = Lingering(patience=None)
    kwait = make_kwait(transport, tmp_path, owned=owned, wait=wait)
    kwait.create(note(namespace="other", finalizers=[_HOLD]))
    transport.requests.clear()
    assert (kwait.close(), kwait.left) == ([], [])
    assert transport.requests == ["DELETE /api/v1/namespaces/other/configmaps/note"]


def test_forbidden_watch_of_a_deletion_is_reported(tmp_path: Path) -> None:
    transport = Lingering(patience=None)
    kwait = make_kwait(transport, tmp_path, owned=False)
    kwait.create(note(finalizers=[_HOLD]))
    path = f"{_HOME}/configmaps"
    denied = ApiError("no", status=403, reason="Forbidden", method="GET", path=path)
    transport.refuse("GET", path, denied)
    assert kwait.close() == []
    assert kwait.left == [
        f"configmap/note in team: whether it is gone cannot be seen: GET {path}: 403 Forbidden: no"
    ]
