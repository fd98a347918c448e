"""How the janitor removes what it has judged: in which order, until when, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, LEASES, NAMESPACES, PRIORITY_CLASSES, Resource
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.janitor import Leftover, _deletion_order
from tests.suite.cleanup.test_janitor import Place

WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "X", False
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
FORBIDDEN = ApiError("no", status=403, reason="Forbidden", method="GET", path="/x")


@pytest.fixture
def place() -> Place:
    return Place()


def test_what_can_hold_up_everything_else_goes_first() -> None:
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


def test_the_run_itself_removes_the_kinds_that_it_has_noted(place: Place) -> None:
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


def test_what_is_being_deleted_is_not_asked_to_go_again(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    place.transport.objects[path]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    sweep = place.sweep()
    assert f"DELETE {path}" not in place.transport.requests
    assert f"is being deleted namespaces/{path.rpartition('/')[2]} (t)" in sweep.lines()


def test_it_is_awaited_until_all_is_gone(place: Place) -> None:
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


def test_what_is_still_there_at_the_end_is_said_with_its_reason(place: Place) -> None:
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


def test_another_of_the_same_name_is_not_what_was_to_go(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    held = dict(place.transport.objects[path])
    janitor, until = place.janitor(), Deadline.after(60.0, place.clock)
    sweep = janitor.sweep(until)
    place.transport.objects[path] = held | {"metadata": held["metadata"] | {"uid": "another"}}
    janitor.wait(sweep, until)
    assert sweep.staying == []
    assert place.clock.monotonic() == 0.0


@pytest.mark.parametrize(("status", "said"), [(403, True), (404, False), (409, False)])
def test_a_lease_that_cannot_be_removed_is_a_problem(place: Place, status: int, said: bool) -> None:
    lease = place.lease("r1", 100.0)
    name = lease.partition("/")[2]
    refusal = ApiError("no", status=status, method="DELETE", path="/x")
    place.transport.refuse("DELETE", LEASES.path("default", name), refusal)
    problem = f"lease/{name} in default stays: DELETE /x: 403: no"
    assert place.sweep().problems == ([problem] if said else [])


@pytest.mark.parametrize(
    ("kinds", "stays"), [("priorityclasses.v1.scheduling.k8s.io", True), ("", False)]
)
def test_a_lease_stays_that_tells_where_to_look_for_what_stays(
    place: Place, kinds: str, stays: bool
) -> None:
    lease = place.lease("r1", 100.0, kinds=kinds)
    path = place.namespace("r1", lease)
    place.transport.refuse("DELETE", path, FORBIDDEN)
    sweep = place.sweep()
    assert (LEASES.path("default", lease.partition("/")[2]) in place) is stays
    assert sweep.leases == (not stays)


def test_a_run_that_cannot_be_told_that_it_counts_as_dead_keeps_all(place: Place) -> None:
    lease = place.lease("r1", 100.0)
    path = place.namespace("r1", lease)
    refusal = ApiError("no", status=422, reason="Invalid", method="PATCH", path="/x")
    place.transport.refuse("PATCH", LEASES.path("default", lease.partition("/")[2]), refusal)
    with pytest.raises(ApiError, match="PATCH /x: 422 Invalid: no"):
        place.sweep()
    assert path in place


@pytest.mark.parametrize(("age", "stays"), [(10.0, True), (100.0, False)])
def test_a_lease_that_no_list_shows_is_asked_for_by_its_name(
    place: Place, age: float, stays: bool
) -> None:
    path = place.namespace("r1", place.lease("r1", age, namespace="team-a"))
    # Those of all namespaces are not shown, and it is not where the janitor looks then.
    place.transport.refuse("GET", LEASES.path(), FORBIDDEN)
    sweep = place.sweep()
    assert (path in place) is stays
    assert sweep.unknown == {}


def test_what_names_a_lease_of_somebody_else_stays(place: Place) -> None:
    path = place.namespace("r1", "default/other")
    place.put(LEASES, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    sweep = place.sweep()
    assert path in place
    assert (
        "left what names lease default/other, which could not be read: it is not the Lease of a run"
    ) in sweep.lines()


@pytest.mark.parametrize(("status", "problems"), [(403, 1), (404, 0), (405, 0)])
def test_kinds_that_cannot_be_listed(place: Place, status: int, problems: int) -> None:
    place.lease("r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io")
    refusal = ApiError("no", status=status, method="GET", path="/x")
    place.transport.refuse("GET", PRIORITY_CLASSES.path(), refusal)
    sweep = place.sweep()
    said = "priorityclasses.scheduling.k8s.io cannot be looked at: GET /x: 403: no"
    assert sweep.problems == [said] * problems


@pytest.mark.parametrize("resource", [PRIORITY_CLASSES, LEASES], ids=lambda each: each.kind)
def test_nothing_goes_where_a_list_is_refused_in_any_other_way(
    place: Place, resource: Resource
) -> None:
    lease = place.lease("r1", 100.0, kinds="priorityclasses.v1.scheduling.k8s.io")
    path = place.namespace("r1", lease)
    refusal = ApiError("no", status=422, reason="Invalid", method="GET", path="/x")
    place.transport.refuse("GET", resource.path(), refusal)
    with pytest.raises(ApiError, match="GET /x: 422 Invalid: no"):
        place.sweep()
    assert path in place


def test_nothing_goes_where_no_leases_are_shown_at_all(place: Place) -> None:
    path = place.namespace("r1", place.lease("r1", 100.0))
    for where in (None, "default"):
        place.transport.refuse("GET", LEASES.path(where), FORBIDDEN)
    with pytest.raises(ApiError, match="GET /x: 403 Forbidden: no"):
        place.sweep()
    assert path in place


def test_leases_of_runs_are_not_foreign_and_others_with_our_label_are(place: Place) -> None:
    name = place.lease("r1", 10.0).partition("/")[2]
    ours = place.transport.objects[LEASES.path("default", name)]["metadata"]
    tool = {"name": "tool", "namespace": "default", "labels": ours["labels"]}
    place.put(LEASES, {"metadata": tool, "spec": {}})
    assert place.sweep(all_kinds=True).foreign == 1


def test_what_the_run_itself_keeps_is_told(place: Place) -> None:
    lease = place.lease("r1", 0.0)
    name = place.namespace("r1", lease).rpartition("/")[2]
    until = Deadline.after(9.0, place.clock)
    sweep = place.janitor().sweep_own(lease, [], until, keep=True)
    assert [str(each) for each in sweep.kept] == [f"namespaces/{name}"]


def test_namespaces_are_looked_at_once(place: Place) -> None:
    place.namespace("r1", place.lease("r1", 100.0, kinds="namespaces.v1."))
    place.janitor(dry_run=True).sweep(Deadline.after(9.0, place.clock), all_kinds=True)
    assert place.transport.requests.count("GET /api/v1/namespaces") == 1


def test_only_leases_that_one_look_does_not_tell_of_are_watched(place: Place) -> None:
    place.lease("r1", 999.0)
    place.lease("r2", 5.0)
    place.sweep(watch=True)
    assert place.told == ["watching 1 Lease for up to 40s: those of runs that live change"]


def test_where_no_lease_is_to_be_watched_nothing_is_said(place: Place) -> None:
    place.lease("r1", 999.0)
    place.sweep(watch=True)
    assert place.told == []
    assert place.clock.monotonic() == 0.0
