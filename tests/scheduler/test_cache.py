from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.scheduler.cache import SchedulerCache, SharedLister
from pytest_kwait.testing import FakeClock
from tests.objects import node
from tests.scheduler.fakes import FakeApiServer, queued_pod


def used(cache: SchedulerCache) -> dict[str, int]:
    """Milli-cores that are taken, by node."""
    return {info.name: info.requested.get("cpu", 0) for info in cache.list()}


def on(name: str, where: str, **more: str) -> dict[str, object]:
    return queued_pod(name, nodeName=where, **more)  # type: ignore[arg-type]


def test_pods_and_nodes_may_arrive_in_any_order() -> None:
    cache = SchedulerCache()
    cache.set_pod(on("early", "n1"))
    cache.set_node(node("n1"))
    cache.set_node(node("n2"))
    cache.set_pod(on("late", "n1", cpu="1"))
    assert used(cache) == {"n1": 1100, "n2": 0}


def test_assumed_pod_counts_until_forgotten() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    assumed = cache.assume(queued_pod("a"), "n1")
    assert assumed["spec"]["nodeName"] == "n1"
    assert used(cache) == {"n1": 100}
    assert cache.is_assumed(queued_pod("a"))
    assert cache.forget(assumed)
    assert not cache.forget(assumed)
    assert used(cache) == {"n1": 0}


def test_assume_does_not_change_its_argument() -> None:
    cache, given = SchedulerCache(), queued_pod("a")
    cache.assume(given, "n1")
    assert given == queued_pod("a")


def test_confirmed_pod_counts_once_and_is_not_forgotten() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    cache.assume(queued_pod("a"), "n1")
    cache.set_pod(on("a", "n1"))
    assert not cache.is_assumed(queued_pod("a"))
    assert not cache.forget(queued_pod("a"))
    assert used(cache) == {"n1": 100}


def test_assumed_pod_bound_elsewhere_moves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    cache.set_node(node("n2"))
    cache.assume(queued_pod("a"), "n1")
    cache.set_pod(on("a", "n2"))
    assert used(cache) == {"n1": 0, "n2": 100}
    assert caplog.messages == ["pod default/a was assumed on node n1 and is bound to n2"]


def test_pod_is_not_assumed_twice() -> None:
    cache = SchedulerCache()
    cache.assume(queued_pod("a"), "n1")
    with pytest.raises(ValueError, match=r"^pod default/a is on node n1 already$"):
        cache.assume(queued_pod("a"), "n2")


def test_listed_nodes_change_only_with_next_list() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    (info,) = cache.list()
    cache.set_pod(on("a", "n1"))
    cache.set_node(node("n1", cpu="8"))
    assert (info.requested.get("cpu", 0), info.allocatable["cpu"]) == (0, 2000)
    cache.list()
    assert (info.requested["cpu"], info.allocatable["cpu"]) == (100, 8000)


def test_updated_pod_replaces_old_counts() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    cache.set_pod(on("a", "n1"))
    cache.set_pod(on("a", "n1", cpu="2"))
    assert used(cache) == {"n1": 2000}


def test_status_change_alone_is_ignored() -> None:
    cache = SchedulerCache()
    cache.set_pod(on("a", "n1"))
    before = list(cache._changes)
    cache.set_pod(on("a", "n1", phase="Running"))
    assert cache._changes == before


def test_removed_pods_do_not_count() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    cache.set_pod(on("a", "n1"))
    cache.assume(queued_pod("b"), "n1")
    assert [cache.remove_pod(queued_pod(name)) for name in ("a", "b", "c")] == [True, True, False]
    assert used(cache) == {"n1": 0}
    assert len(cache) == 0
    assert not cache.is_assumed(queued_pod("b"))


def test_returning_node_has_its_remaining_pods() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    cache.set_pod(on("a", "n1"))
    cache.set_pod(on("b", "n1"))
    cache.remove_node(node("n1"))
    assert used(cache) == {}
    assert not cache.has_node("n1")
    cache.remove_pod(queued_pod("b"))
    cache.set_node(node("n1"))
    assert used(cache) == {"n1": 100}
    assert cache.has_node("n1")


def test_bound_pods_stay_assumed_until_watched() -> None:
    clock = FakeClock()
    cache = SchedulerCache(clock=clock)
    cache.set_node(node("n1"))
    cache.assume(queued_pod("a"), "n1")
    cache.finish_binding(queued_pod("a"))
    clock.advance(10_000)
    assert used(cache) == {"n1": 100}


def test_assumed_pods_expire_after_ttl(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    cache = SchedulerCache(assumed_pod_ttl="30s", clock=clock)
    cache.set_node(node("n1"))
    for name in ("bound", "binding"):
        cache.assume(queued_pod(name), "n1")
    cache.finish_binding(queued_pod("bound"))
    clock.advance(29.9)
    assert used(cache) == {"n1": 200}
    clock.advance(0.1)
    assert used(cache) == {"n1": 100}
    assert cache.is_assumed(queued_pod("binding"))
    assert caplog.messages == [
        "pod default/bound was bound, but the watch did not confirm it within 30s"
    ]


def test_invalid_objects_are_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    cache = SchedulerCache()
    cache.set_node(node("bad", cpu="much"))
    cache.set_node(node("good"))
    cache.set_pod(on("bad", "good", cpu="some"))
    cache.set_pod(on("fine", "good"))
    assert used(cache)["good"] == 100
    assert "cannot count pod default/bad in" in caplog.messages


Obj = dict[str, Any]


def obj(kind: str, name: str, spec: Obj | None = None, **metadata: Any) -> Obj:
    namespaced = {} if kind == "Namespace" else {"namespace": "default"}
    return {
        "kind": kind,
        "metadata": {"name": name, "uid": name, **namespaced, **metadata},
        "spec": spec or {},
    }


def lister(*rules: str, objects: tuple[Obj, ...] = ()) -> SharedLister:
    """A lister whose informers know these objects."""
    made = SharedLister(SchedulerCache(), SharedInformerFactory(FakeApiServer()), rules)
    for informer in made.informers:
        for one in objects:
            if one["kind"] == informer.resource.kind:
                informer.store.add(one)
    return made


@pytest.mark.parametrize(
    ("rules", "watched"),
    [
        ((), []),
        (("NodeResourcesFit",), []),
        (("InterPodAffinity",), ["namespaces"]),
        (
            ("PodTopologySpread", "InterPodAffinity"),
            [
                "namespaces",
                "replicasets.apps",
                "replicationcontrollers",
                "services",
                "statefulsets.apps",
            ],
        ),
    ],
)
def test_only_needed_resources_are_watched(rules: tuple[str, ...], watched: list[str]) -> None:
    assert sorted(one.resource.qualified for one in lister(*rules).informers) == watched


def test_lister_returns_cached_nodes() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    made = SharedLister(cache, SharedInformerFactory(FakeApiServer()), ())
    assert [info.name for info in made.list()] == ["n1"]


def test_lister_returns_namespace_labels() -> None:
    made = lister(
        "InterPodAffinity",
        objects=(obj("Namespace", "a", labels={"team": "x"}), obj("Namespace", "bare")),
    )
    assert made.namespace_labels("a") == {"team": "x"}
    assert made.namespace_labels("bare") == {}
    assert made.namespace_labels("gone") is None


def test_lister_returns_selectors_of_services_and_controller() -> None:
    selector = {"matchLabels": {"tier": "web"}}
    made = lister(
        "PodTopologySpread",
        objects=(
            obj("Service", "ours", {"selector": {"app": "web"}}),
            obj("Service", "other", {"selector": {"app": "db"}}),
            obj("ReplicaSet", "web", {"selector": selector}),
        ),
    )
    mine = queued_pod("p", labels={"app": "web"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    mine["metadata"]["ownerReferences"] = [owner]
    assert list(made.spread_selectors(mine)) == [{"matchLabels": {"app": "web"}}, selector]
    mine["metadata"]["ownerReferences"] = [{**owner, "name": "gone"}]
    assert list(made.spread_selectors(mine)) == [{"matchLabels": {"app": "web"}}]


def test_unwatched_resources_are_unknown() -> None:
    assert list(lister().spread_selectors(queued_pod("p", labels={"app": "web"}))) == []
