"""Removal by the janitor: order, limit and report."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.client.resource import CONFIG_MAPS, LEASES, NAMESPACES, PRIORITY_CLASSES, Resource
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.janitor import Leftover, _deletion_order
from tests.suite.cleanup.test_janitor import _NOW, Place

WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "X", False
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
FORBIDDEN = ApiError("no", status=403, reason="Forbidden", method="GET", path="/x")


@pytest.fixture
def place() -> Place:
    return Place()


def test_deletion_order() -> None:
    unknown: Any = None
    order = [
        (API_SERVICES, "a"),
        (WEBHOOKS, "b"),
        (CONFIG_MAPS, "a"),
        (CONFIG_MAPS, "c"),
        (NAMESPACES, "b"),
        (PRIORITY_CLASSES, "a"),
    ]
    leftovers = [
        Leftover(resource, None, None, name, "u", False, "", unknown) for resource, name in order
    ]
    for found in (leftovers, leftovers[::-1]):
        assert sorted(found, key=_deletion_order) == leftovers


def test_own_sweep_deletes_recorded_kinds(place: Place) -> None:
    lease = place.lease("r1", 0.0, namespace="team-a")
    other = place.lease("r2", 0.0, namespace="team-a")
    own = [
        place.belonging("r1", lease, PRIORITY_CLASSES, "p"),
        place.belonging("r1", lease, CONFIG_MAPS, "m", "team-a"),
    ]
    theirs = place.belonging("r2", other, PRIORITY_CLASSES, "q")
    # Not shown everywhere: looked at where the Lease is.
    place.transport.refuse("GET", CONFIG_MAPS.path(), FORBIDDEN)
    kinds = ["gone.v1.example.com", "priorityclasses.v1.scheduling.k8s.io", "configmaps.v1."]
    until = Deadline.after(9.0, place.clock)
    before = dict(place.transport.objects)

    would = place.janitor(dry_run=True).sweep_own(lease, kinds[:2], until)
    assert place.transport.objects == before
    assert would.summary() == "would remove 0 namespaces and 1 other object of 1 run"

    sweep = place.janitor().sweep_own(lease, kinds, until)
    assert [path in place for path in (*own, theirs)] == [False, False, True]
    assert sweep.summary() == "removed 0 namespaces and 2 other objects of 1 run"


def test_terminating_objects_are_not_deleted_again(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    place.transport.objects[path]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    sweep = place.sweep()
    assert f"DELETE {path}" not in place.transport.requests
    assert f"is being deleted namespaces/{path.rpartition('/')[2]} (t)" in sweep.lines()


def test_a_deletion_that_lasts_is_reported_with_what_holds_it(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    place.transport.objects[path]["metadata"] |= {
        "deletionTimestamp": format_time(_NOW - 119.0),
        "finalizers": ["example.com/hold"],
    }
    assert place.sweep().stuck == []
    place.transport.objects[path]["metadata"]["deletionTimestamp"] = format_time(_NOW - 300.0)
    sweep = place.sweep()
    assert sweep.stuck == [
        f"namespaces/{path.rpartition('/')[2]} (t) is not gone 5m0s after its deletion was "
        "requested: finalizers example.com/hold"
    ]
    assert sweep.stuck[0] in sweep.lines()


def test_sweep_waits_for_deletions(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    held = dict(place.transport.objects[path])
    janitor, until = place.janitor(), Deadline.after(60.0, place.clock)
    sweep = janitor.sweep(until)
    place.transport.objects[path] = held
    place.clock.call_later(5.0, lambda: place.transport.objects.pop(path))
    janitor.wait(sweep, until)
    assert sweep.staying == []
    assert sweep.is_clean
    assert 5.0 <= place.clock.monotonic() <= 5.5


def test_remaining_objects_are_reported_with_reasons(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    held = dict(place.transport.objects[path])
    janitor, until = place.janitor(), Deadline.after(60.0, place.clock)
    sweep = janitor.sweep(until)
    place.transport.objects[path] = held | {
        "metadata": held["metadata"] | {"finalizers": ["example.com/hold"]}
    }
    janitor.wait(sweep, until)
    name = path.rpartition("/")[2]
    assert f"namespaces/{name} is still there: finalizers example.com/hold" in sweep.lines()
    assert not sweep.is_clean
    assert 57.0 <= place.clock.monotonic() <= 60.0


def test_recreated_object_counts_as_deleted(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    held = dict(place.transport.objects[path])
    janitor, until = place.janitor(), Deadline.after(60.0, place.clock)
    sweep = janitor.sweep(until)
    place.transport.objects[path] = held | {"metadata": held["metadata"] | {"uid": "another"}}
    janitor.wait(sweep, until)
    assert sweep.staying == []
    assert place.clock.monotonic() == 0.0


@pytest.mark.parametrize(("status", "said"), [(403, True), (404, False), (409, False)])
def test_failed_lease_deletion_is_a_problem(place: Place, status: int, said: bool) -> None:
    lease = place.lease("r1", 100.0)
    name = lease.partition("/")[2]
    refusal = ApiError("no", status=status, method="DELETE", path="/x")
    place.transport.refuse("DELETE", LEASES.path("default", name), refusal)
    problem = f"lease/{name} in default stays: DELETE /x: 403: no"
    assert place.sweep().problems == ([problem] if said else [])


@pytest.mark.parametrize(
    ("kinds", "stays"), [("priorityclasses.v1.scheduling.k8s.io", True), ("", False)]
)
def test_lease_stays_while_its_objects_remain(place: Place, kinds: str, stays: bool) -> None:
    lease = place.lease("r1", 100.0, kinds=kinds)
    path = place.namespace("r1", lease)
    place.transport.refuse("DELETE", path, FORBIDDEN)
    sweep = place.sweep()
    assert (LEASES.path("default", lease.partition("/")[2]) in place) is stays
    assert sweep.leases == (not stays)


def test_failed_fence_keeps_the_objects(place: Place) -> None:
    lease = place.lease("r1", 100.0)
    path = place.namespace("r1", lease)
    refusal = ApiError("no", status=422, reason="Invalid", method="PATCH", path="/x")
    place.transport.refuse("PATCH", LEASES.path("default", lease.partition("/")[2]), refusal)
    with pytest.raises(ApiError, match="PATCH /x: 422 Invalid: no"):
        place.sweep()
    assert path in place


@pytest.mark.parametrize(("age", "stays"), [(10.0, True), (100.0, False)])
def test_unlisted_lease_is_read_by_name(place: Place, age: float, stays: bool) -> None:
    path = place.namespace("r1", place.lease("r1", age, namespace="team-a"))
    # Those of all namespaces are not shown, and it is not where the janitor looks then.
    place.transport.refuse("GET", LEASES.path(), FORBIDDEN)
    sweep = place.sweep()
    assert (path in place) is stays
    assert sweep.unknown == {}


def test_objects_with_a_foreign_lease_are_kept(place: Place) -> None:
    path = place.namespace("r1", "default/other")
    place.put(LEASES, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    sweep = place.sweep()
    assert path in place
    assert (
        "left what names lease default/other, which could not be read: it is not the Lease of a run"
    ) in sweep.lines()


@pytest.mark.parametrize(("status", "problems"), [(403, 1), (404, 0), (405, 0)])
def test_forbidden_kinds_are_reported(place: Place, status: int, problems: int) -> None:
    place.lease("r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io")
    refusal = ApiError("no", status=status, method="GET", path="/x")
    place.transport.refuse("GET", PRIORITY_CLASSES.path(), refusal)
    sweep = place.sweep()
    said = "priorityclasses.scheduling.k8s.io cannot be looked at: GET /x: 403: no"
    assert sweep.problems == [said] * problems


@pytest.mark.parametrize("resource", [PRIORITY_CLASSES, LEASES], ids=lambda each: each.kind)
def test_failed_list_deletes_nothing(place: Place, resource: Resource) -> None:
    lease = place.lease("r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io")
    path = place.namespace("r1", lease)
    refusal = ApiError("no", status=422, reason="Invalid", method="GET", path="/x")
    place.transport.refuse("GET", resource.path(), refusal)
    with pytest.raises(ApiError, match="GET /x: 422 Invalid: no"):
        place.sweep()
    assert path in place


def test_unlistable_leases_delete_nothing(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    for where in (None, "default"):
        place.transport.refuse("GET", LEASES.path(where), FORBIDDEN)
    with pytest.raises(ApiError, match="GET /x: 403 Forbidden: no"):
        place.sweep()
    assert path in place


def test_labelled_leases_of_no_run_are_foreign(place: Place) -> None:
    name = place.lease("r1", 10.0).partition("/")[2]
    ours = place.transport.objects[LEASES.path("default", name)]["metadata"]
    tool = {"name": "tool", "namespace": "default", "labels": ours["labels"]}
    place.put(LEASES, {"metadata": tool, "spec": {}})
    assert place.sweep(all_kinds=True).foreign == 1


def test_kept_objects_of_the_run_are_reported(place: Place) -> None:
    lease = place.lease("r1", 0.0)
    name = place.namespace("r1", lease).rpartition("/")[2]
    until = Deadline.after(9.0, place.clock)
    sweep = place.janitor().sweep_own(lease, [], until, keep=True)
    assert [str(each) for each in sweep.kept] == [f"namespaces/{name}"]


def test_namespaces_are_listed_once(place: Place) -> None:
    place.namespace("r1", place.lease("r1", 100.0, kinds="namespaces.v1."))
    place.janitor(dry_run=True).sweep(Deadline.after(9.0, place.clock), all_kinds=True)
    assert place.transport.requests.count("GET /api/v1/namespaces") == 1


def test_only_undecided_leases_are_watched(place: Place) -> None:
    place.lease("r1", 999.0)
    place.lease("r2", 5.0)
    place.sweep(watch=True)
    assert place.told == ["watching 1 Lease for up to 40s: those of runs that live change"]


def test_no_message_without_watched_leases(place: Place) -> None:
    place.lease("r1", 999.0)
    place.sweep(watch=True)
    assert place.told == []
    assert place.clock.monotonic() == 0.0
