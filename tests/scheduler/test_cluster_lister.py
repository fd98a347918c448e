from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.scheduler.cache import SchedulerCache
from pytest_kwait.scheduler.cluster_lister import SharedLister
from tests.scheduler.fakes import FakeServer, node, pod

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
    made = SharedLister(SchedulerCache(), SharedInformerFactory(FakeServer()), rules)
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
def test_only_what_the_rules_look_at_is_watched(rules: tuple[str, ...], watched: list[str]) -> None:
    assert sorted(one.resource.qualified for one in lister(*rules).informers) == watched


def test_nodes_are_those_of_the_cache() -> None:
    cache = SchedulerCache()
    cache.set_node(node("n1"))
    made = SharedLister(cache, SharedInformerFactory(FakeServer()), ())
    assert [info.name for info in made.list()] == ["n1"]


def test_labels_of_namespaces() -> None:
    made = lister(
        "InterPodAffinity",
        objects=(obj("Namespace", "a", labels={"team": "x"}), obj("Namespace", "bare")),
    )
    assert made.namespace_labels("a") == {"team": "x"}
    assert made.namespace_labels("bare") == {}
    assert made.namespace_labels("gone") is None


def test_selectors_of_services_and_of_the_controller() -> None:
    selector = {"matchLabels": {"tier": "web"}}
    made = lister(
        "PodTopologySpread",
        objects=(
            obj("Service", "ours", {"selector": {"app": "web"}}),
            obj("Service", "other", {"selector": {"app": "db"}}),
            obj("ReplicaSet", "web", {"selector": selector}),
        ),
    )
    mine = pod("p", labels={"app": "web"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    mine["metadata"]["ownerReferences"] = [owner]
    assert list(made.spread_selectors(mine)) == [{"matchLabels": {"app": "web"}}, selector]
    mine["metadata"]["ownerReferences"] = [{**owner, "name": "gone"}]
    assert list(made.spread_selectors(mine)) == [{"matchLabels": {"app": "web"}}]


def test_what_is_not_watched_is_not_known() -> None:
    assert list(lister().spread_selectors(pod("p", labels={"app": "web"}))) == []
