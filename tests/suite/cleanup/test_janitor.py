from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.apimachinery.times import format_micro_time
from pytest_kwait.client.resource import CONFIG_MAPS, LEASES, NAMESPACES, PRIORITY_CLASSES, Resource
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.janitor import Janitor
from pytest_kwait.suite.cleanup.owned_objects import (
    Owner,
    kept_annotations,
    run_label_value,
    run_lease_name,
    with_seal,
)
from pytest_kwait.testing import FakeClock
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from pytest_kwait.suite.cleanup.janitor import SweepResult

_NOW = 1_000_000.0
_DAY = 24 * 3600.0


class Place:
    """A cluster with what runs have left in it, and a janitor."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.transport.now = _NOW
        self.clock = FakeClock(epoch=_NOW)
        self.told: list[str] = []

    def lease(
        self,
        run: str,
        age: float,
        *,
        kinds: str = "",
        namespace: str = "default",
        nonce: str = "ab",
        **more: str,
    ) -> str:
        name = run_lease_name(run, nonce)
        notes = {"pytest-kwait/run": run, "pytest-kwait/nonce": nonce, "pytest-kwait/kinds": kinds}
        notes |= {f"pytest-kwait/{key}": value for key, value in more.items()}
        labels = {
            "app.kubernetes.io/managed-by": "pytest-kwait",
            "pytest-kwait/run": run_label_value(run),
        }
        self.put(
            LEASES,
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "resourceVersion": "1",
                    "labels": labels,
                    "annotations": notes,
                },
                "spec": {"leaseDurationSeconds": 40, "renewTime": format_micro_time(_NOW - age)},
            },
        )
        return f"{namespace}/{name}"

    def namespace(self, run: str, lease: str, *, test: str = "t", **notes: str) -> str:
        obj = Owner(run, test, test).manifest(_NOW, lease)
        obj["metadata"]["annotations"] |= notes
        return self.put(NAMESPACES, obj)

    def belonging(
        self, run: str, lease: str, resource: Resource, name: str, namespace: str | None = None
    ) -> str:
        metadata: dict[str, Any] = {"name": name}
        if namespace is not None:
            metadata["namespace"] = namespace
        return self.put(
            resource,
            with_seal(
                Owner(run, "t", "t"), resource, {"metadata": metadata}, namespace, _NOW, lease
            ),
        )

    def put(self, resource: Resource, obj: dict[str, Any]) -> str:
        metadata = obj["metadata"]
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        path = resource.path(metadata.get("namespace"), metadata["name"])
        self.transport.objects[path] = obj
        return path

    def janitor(self, **options: Any) -> Janitor:
        client: Any = FakeClient(self.transport, self.clock)
        return Janitor(client, report=self.told.append, **options)

    def sweep(self, *, dry_run: bool = False, **options: Any) -> SweepResult:
        return self.janitor(dry_run=dry_run).sweep(Deadline.after(300.0, self.clock), **options)

    def __contains__(self, path: str) -> bool:
        return path in self.transport.objects


@pytest.fixture
def place() -> Place:
    return Place()


def test_leftovers_of_a_dead_run_are_deleted_before_its_lease(place: Place) -> None:
    lease = place.lease("r1", 100.0, kinds="configmaps.v1.,priorityclasses.v1.scheduling.k8s.io")
    paths = {
        place.namespace("r1", lease),
        place.belonging("r1", lease, CONFIG_MAPS, "x", "team-a"),
        place.belonging("r1", lease, PRIORITY_CLASSES, "p"),
    }
    sweep = place.sweep()
    lease_path = LEASES.path("default", lease.partition("/")[2])
    assert [path for path in paths | {lease_path} if path in place] == []
    assert place.transport.requests[-1] == f"DELETE {lease_path}"
    assert sweep.summary() == "removed 1 namespace, 2 other objects and 1 Lease of 1 run"
    assert sweep.is_clean


def test_shared_objects_stay_until_all_shards_have_ended(place: Place) -> None:
    shared = place.lease("r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io", ended="shared")
    paths = [place.namespace("r1", shared), place.belonging("r1", shared, PRIORITY_CLASSES, "p")]
    other = place.lease("r1", 0.0, nonce="cd")
    ended = place.lease("r2", 0.0, ended="shared")
    alone = place.namespace("r2", ended)

    place.sweep()
    assert [path in place for path in paths] == [True, True], "another shard lives"
    assert alone not in place, "the last one has ended"

    del place.transport.objects[LEASES.path("default", other.partition("/")[2])]
    place.sweep()
    assert [path in place for path in paths] == [False, False]
    assert place.transport.objects == {}


def test_kinds_are_listed_by_namespace_without_cluster_wide_rights(place: Place) -> None:
    lease = place.lease("r1", 100.0, kinds="configmaps.v1.", namespace="team-a")
    path = place.belonging("r1", lease, CONFIG_MAPS, "y", "team-a")
    denied = ApiError("configmaps is forbidden", status=403, reason="Forbidden")
    place.transport.refuse("GET", CONFIG_MAPS.path(), denied)
    sweep = place.sweep()
    assert path not in place
    assert sweep.is_clean


def test_all_kinds_lists_every_kind(place: Place) -> None:
    path = place.belonging("r1", "default/gone", CONFIG_MAPS, "y", "default")
    place.sweep()
    assert path in place
    place.sweep(all_kinds=True)
    assert path not in place


def test_sweep_of_one_run(place: Place) -> None:
    paths = [place.namespace(run, place.lease(run, 100.0)) for run in ("r1", "r2")]
    place.janitor(run="r1").sweep(Deadline.after(9.0, place.clock))
    assert [path in place for path in paths] == [False, True]


def test_clean_cluster_costs_two_requests_without_output(place: Place) -> None:
    place.put(NAMESPACES, {"metadata": {"name": "team-a"}})
    sweep = place.sweep(watch=True)
    assert place.transport.requests == [
        "GET /api/v1/namespaces",
        "GET /apis/coordination.k8s.io/v1/leases",
    ]
    assert sweep.summary() == ""
    assert sweep.lines() == ["nothing to remove"]


def test_objects_of_an_undecided_run_are_kept(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 79.0))
    sweep = place.sweep()
    assert path in place
    assert sweep.lines() == [
        f"run r1 (lease default/{run_lease_name('r1', 'ab')}) may live "
        "(renewed 1m19s ago, lasts 40s): left alone",
        "nothing to remove",
    ]


def test_objects_without_a_lease_are_deleted(place: Place) -> None:
    path = place.namespace("r1", f"default/{run_lease_name('r1', 'ab')}")
    sweep = place.sweep()
    assert path not in place
    assert sweep.summary() == "removed 1 namespace and 0 other objects of 1 run"


def test_a_dry_run_changes_nothing(place: Place) -> None:
    lease = place.lease("r1", 100.0, kinds="configmaps.v1.")
    place.namespace("r1", lease)
    place.belonging("r1", lease, CONFIG_MAPS, "y", "default")
    before = dict(place.transport.objects)
    sweep = place.sweep(dry_run=True)
    assert place.transport.objects == before
    assert all(each.startswith("GET ") for each in place.transport.requests)
    name = Owner("r1", "t", "t").name
    assert f"would delete namespaces/{name} (t)" in sweep.lines()
    assert sweep.summary().startswith("would remove 1 namespace")


@pytest.mark.parametrize("age", [100.0, 10.0])
def test_objects_with_foreign_provenance_are_kept(place: Place, age: float) -> None:
    lease = place.lease("r1", age, kinds="configmaps.v1.")
    ours = Owner("r1", "t", "t").manifest(_NOW, lease)["metadata"]
    alike = [
        {"name": "label-alone", "labels": ours["labels"]},
        {**ours, "name": "copied"},
        {**ours, "annotations": ours["annotations"] | {"pytest-kwait/test": "other"}},
        {"name": "managed", "labels": {"app.kubernetes.io/managed-by": "pytest-kwait"}},
    ]
    paths = [place.put(NAMESPACES, {"metadata": each}) for each in alike]
    other = {
        "pytest-kwait/run": run_label_value("r1"),
        "app.kubernetes.io/managed-by": "pytest-kwait",
    }
    paths.append(
        place.put(
            LEASES,
            {
                "metadata": {"name": "tool", "namespace": "default", "labels": other},
                "spec": {"leaseDurationSeconds": 1, "renewTime": format_micro_time(0.0)},
            },
        )
    )
    place.sweep()
    assert [path for path in paths if path not in place] == []


def test_owned_objects_are_left_to_the_garbage_collector(place: Place) -> None:
    lease = place.lease("r1", 100.0, kinds="configmaps.v1.")
    path = place.belonging("r1", lease, CONFIG_MAPS, "y", "default")
    place.transport.objects[path]["metadata"]["ownerReferences"] = [{"uid": "u"}]
    place.sweep()
    assert path in place


@pytest.mark.parametrize(("left", "stays"), [(1.0, True), (-1.0, False)])
@pytest.mark.parametrize("is_alive", [True, False])
def test_kept_objects_stay_until_they_expire(
    place: Place, left: float, stays: bool, is_alive: bool
) -> None:
    notes = kept_annotations(_NOW + left - _DAY)
    path = place.namespace("r1", place.lease("r1", 10.0 if is_alive else 999.0), **notes)
    sweep = place.sweep()
    assert (path in place) is stays
    assert len(sweep.kept) == stays


@pytest.mark.parametrize(("left", "stays"), [(1.0, True), (-1.0, False)])
def test_objects_of_a_run_without_lease_stay_until_they_expire(
    place: Place, left: float, stays: bool
) -> None:
    expires = kept_annotations(_NOW + left - _DAY)["pytest-kwait/expires"]
    path = place.namespace("r1", "", **{"pytest-kwait/expires": expires})
    place.sweep()
    assert (path in place) is stays


@pytest.mark.parametrize("dry_run", [False, True])
def test_kept_objects_of_one_run_are_deleted_on_request(place: Place, dry_run: bool) -> None:
    lease = place.lease("r1", 999.0, kinds="priorityclasses.v1.scheduling.k8s.io")
    living = place.lease("r2", 10.0)
    kept = kept_annotations(_NOW)
    own = [
        place.namespace("r1", lease, **kept),
        # Its Lease has gone at the end of the run, as mostly.
        place.namespace("r1", "default/gone", test="u", **kept),
        place.belonging("r1", lease, PRIORITY_CLASSES, "p"),
    ]
    place.transport.objects[own[-1]]["metadata"]["annotations"] |= kept
    others = [
        # Another shard of it runs.
        place.namespace("r1", living, test="v", **kept),
        place.namespace("r3", "default/gone", **kept),
    ]
    copy = dict(place.transport.objects[own[0]]["metadata"], name="copy", uid="copy")
    others.append(place.put(NAMESPACES, {"metadata": copy}))
    labels = {"metadata": {"name": "labels", "labels": copy["labels"]}}
    others.append(place.put(NAMESPACES, labels))

    janitor = place.janitor(run="r1", kept=True, dry_run=dry_run)
    sweep = janitor.sweep(Deadline.after(300.0, place.clock))

    assert [path for path in own if path in place] == (own if dry_run else [])
    assert [path for path in others if path in place] == others
    assert len(sweep.going) == 3
    assert [str(each) for each in sweep.kept] == [f"namespaces/{others[0].rpartition('/')[2]}"]
    assert sweep.foreign == 2


def test_watching_distinguishes_dead_and_live_runs(place: Place) -> None:
    dead = place.namespace("r1", place.lease("r1", 5.0))
    lease = place.lease("r2", 5.0)
    lives = place.namespace("r2", lease)
    metadata = place.transport.objects[LEASES.path("default", lease.partition("/")[2])]["metadata"]
    place.clock.call_later(30.0, lambda: metadata.update(resourceVersion="2"))
    began = place.clock.monotonic()
    sweep = place.sweep(watch=True)
    assert (dead in place, lives in place) == (False, True)
    assert 40.0 <= place.clock.monotonic() - began <= 43.0
    assert place.told == ["watching 2 Leases for up to 40s: those of runs that live change"]
    assert sorted(each.life.value for each in sweep.runs) == ["alive", "dead"]


def test_watching_ends_when_all_runs_are_alive(place: Place) -> None:
    lease = place.lease("r1", 5.0)
    metadata = place.transport.objects[LEASES.path("default", lease.partition("/")[2])]["metadata"]
    place.clock.call_later(3.0, lambda: metadata.update(resourceVersion="2"))
    place.sweep(watch=True)
    assert place.clock.monotonic() < 6.0


def test_late_renewal_keeps_the_objects(place: Place) -> None:
    lease = place.lease("r1", 100.0)
    path = place.namespace("r1", lease)
    lease_path = LEASES.path("default", lease.partition("/")[2])
    place.transport.refuse("PATCH", lease_path, ApiError("changed", status=409, reason="Conflict"))
    sweep = place.sweep()
    assert path in place
    assert sweep.summary() == ""
    assert [each.life.value for each in sweep.runs] == ["alive"]


def test_own_sweep_deletes_only_own_objects(place: Place) -> None:
    lease, other = place.lease("r1", 0.0), place.lease("r2", 0.0)
    own = place.namespace("r1", lease)
    kept = place.namespace("r1", lease, test="u", **kept_annotations(_NOW))
    # Another shard of the same run has the same label, and a Lease of its own.
    shard = place.namespace("r1", other, test="v")
    sweep = place.janitor().sweep_own(lease, [], Deadline.after(9.0, place.clock))
    assert [path in place for path in (own, kept, shard)] == [False, True, True]
    assert sweep.summary() == "removed 1 namespace and 0 other objects of 1 run"


def test_own_sweep_keeps_objects_of_dead_workers_on_request(place: Place) -> None:
    lease = place.lease("r1", 0.0)
    path = place.namespace("r1", lease)
    place.janitor().sweep_own(lease, [], Deadline.after(9.0, place.clock), keep=True)
    notes = place.transport.objects[path]["metadata"]["annotations"]
    assert notes["pytest-kwait/kept"] == "true"


def test_unlistable_kind_is_a_problem(place: Place) -> None:
    lease = place.lease(
        "r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io,gone.v1.example.com"
    )
    denied = ApiError("priorityclasses is forbidden", status=403, reason="Forbidden")
    place.transport.refuse("GET", PRIORITY_CLASSES.path(), denied)
    sweep = place.sweep()
    # A janitor that may list it still needs the Lease.
    assert LEASES.path("default", lease.partition("/")[2]) in place
    assert len(sweep.problems) == 1
    assert sweep.problems[0].startswith("priorityclasses.scheduling.k8s.io cannot be looked at: ")
    assert not sweep.is_clean


def test_forbidden_deletion_is_a_problem_and_others_continue(place: Place) -> None:
    lease = place.lease("r1", 100.0)
    first, second = place.namespace("r1", lease), place.namespace("r1", lease, test="u")
    denied = ApiError("cannot delete", status=403, reason="Forbidden")
    place.transport.refuse("DELETE", first, denied)
    sweep = place.sweep()
    assert (first in place, second in place) == (True, False)
    assert len(sweep.problems) == 1
    assert sweep.problems[0].startswith(f"namespaces/{Owner('r1', 't', 't').name} could not be")


def test_unreadable_lease_keeps_its_objects(place: Place) -> None:
    path = place.namespace("r1", "hidden/kwait-r1-x")
    denied = ApiError("leases is forbidden", status=403, reason="Forbidden")
    place.transport.refuse("GET", LEASES.path("hidden", "kwait-r1-x"), denied)
    sweep = place.sweep()
    assert path in place
    assert sweep.lines()[0].startswith(
        "left what names lease hidden/kwait-r1-x, which could not be read: "
    )


def test_leases_are_listed_in_one_namespace_without_cluster_wide_rights(place: Place) -> None:
    denied = ApiError("leases is forbidden", status=403, reason="Forbidden")
    place.transport.refuse("GET", LEASES.path(), denied)
    path = place.namespace("r1", place.lease("r1", 100.0))
    place.sweep()
    assert path not in place


def test_remaining_objects_name_their_finalizers(place: Place) -> None:
    lease = place.lease("r1", 100.0)
    path = place.namespace("r1", lease)
    janitor = place.janitor()
    obj = place.transport.objects[path]
    sweep = janitor.sweep(Deadline.after(9.0, place.clock))
    condition = {"status": "True", "message": "content has finalizers: x.io/y in 1 resource"}
    place.transport.objects[path] = obj | {"status": {"conditions": [condition]}}
    janitor.wait(sweep, Deadline.after(9.0, place.clock))
    name = Owner("r1", "t", "t").name
    assert (
        f"namespaces/{name} is still there: content has finalizers: x.io/y in 1 resource"
        in sweep.lines()
    )
    assert not sweep.is_clean
