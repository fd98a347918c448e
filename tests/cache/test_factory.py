from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.api.resource import JOBS, NODES, PODS, Resource
from pytest_kwait.api.session import Session
from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.testing import FakeClock

from .fakes import PATIENCE, Live, pod, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.api.objects import ObjectList
    from pytest_kwait.clock import Deadline

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


class Cluster(Live):
    """A session that also knows what names mean."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.resolved: list[tuple[str, float]] = []
        self.listed: list[tuple[str, str | None, Any, Any]] = []
        self.refused: set[Resource] = set()

    def resolve(self, kind: str, *, deadline: Deadline) -> Resource:
        self.resolved.append((kind, deadline.remaining))
        known = {"pods": PODS, "Pod": PODS, "jobs.batch": JOBS, "Widget": WIDGETS}
        if kind not in known:
            raise InvalidArgument("kind", kind, "a kind")
        return known[kind]

    def list(self, resource: Resource, namespace: str | None = None, **more: Any) -> ObjectList:
        self.listed.append(
            (resource.plural, namespace, more["label_selector"], more["field_selector"])
        )
        if resource in self.refused:
            raise refused()
        return super().list(resource, namespace, type=more["type"])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(pod("a"))
    monkeypatch.setattr(Session, "of", staticmethod(lambda client: cluster))
    return cluster


@pytest.fixture
def make(cluster: Cluster) -> Iterator[Callable[..., SharedInformerFactory]]:
    made: list[SharedInformerFactory] = []

    def make(*arguments: Any, **options: Any) -> SharedInformerFactory:
        made.append(SharedInformerFactory(object(), *arguments, **options))  # type: ignore[arg-type] # Session.of is replaced
        return made[-1]

    yield make
    for factory in made:
        factory.stop()
        assert all(informer.join(PATIENCE) for informer in factory.informers)


def all_synced(factory: SharedInformerFactory) -> None:
    for informer in factory.informers:
        assert informer.done.wait(PATIENCE)


def test_one_informer_per_resource_however_it_is_named(
    make: Callable[..., SharedInformerFactory], cluster: Cluster
) -> None:
    factory = make("ci")

    pods = factory.informer_for("pods")

    assert factory.informer_for(PODS) is pods
    assert factory.informer_for("Pod") is pods
    assert factory.informer_for("Widget").name == "widgets.example.com in namespace ci"
    assert len(factory.informers) == 2
    assert cluster.resolved == [("pods", 30.0), ("Pod", 30.0), ("Widget", 30.0)]


def test_unknown_resource_is_the_servers_to_refuse(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make()
    with pytest.raises(InvalidArgument, match="kind='gadgets'"):
        factory.informer_for("gadgets")
    assert factory.informers == ()


def test_start_starts_what_was_asked_for_and_later_the_rest(
    make: Callable[..., SharedInformerFactory], cluster: Cluster
) -> None:
    factory = make("ci", label_selector="app=web", field_selector={"spec.nodeName": "n"})
    pods = factory.informer_for("pods")
    factory.start()
    nodes = factory.informer_for(NODES)
    started = (pods.started, nodes.started)
    all_synced_first = pods.done.wait(PATIENCE)
    factory.start()
    all_synced(factory)

    assert started == (True, False)
    assert all_synced_first
    assert cluster.listed == [
        ("pods", "ci", "app=web", {"spec.nodeName": "n"}),
        ("nodes", None, "app=web", {"spec.nodeName": "n"}),
    ]


def test_wait_for_cache_sync_maps_the_started_informers(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make()
    factory.informer_for("pods")
    factory.informer_for("jobs.batch")
    factory.start()
    factory.informer_for("Widget")
    for resource in (PODS, JOBS):
        assert factory.informer_for(resource).done.wait(PATIENCE)

    assert factory.wait_for_cache_sync() == {PODS: True, JOBS: True}


def test_wait_for_cache_sync_of_none_is_empty(make: Callable[..., SharedInformerFactory]) -> None:
    assert make().wait_for_cache_sync() == {}


def test_wait_for_cache_sync_ends_when_the_rest_never_will(
    make: Callable[..., SharedInformerFactory], cluster: Cluster
) -> None:
    cluster.refused.add(JOBS)
    factory = make()
    pods, jobs = factory.informer_for("pods"), factory.informer_for("jobs.batch")
    factory.start()
    assert pods.done.wait(PATIENCE)
    cluster.clock.until_blocked()  # the refused one, in its pause

    assert factory.wait_for_cache_sync() == {PODS: True, JOBS: False}
    assert jobs.permanent_error is not None


@pytest.mark.parametrize("end", ["timeout", "stop"])
def test_wait_for_cache_sync_ends_in_time(
    make: Callable[..., SharedInformerFactory], cluster: Cluster, end: str
) -> None:
    cluster.list_gate.clear()
    factory = make()
    factory.informer_for("pods")
    factory.start()
    clock = FakeClock()
    context, _ = wait.with_timeout(wait.background(clock), 3.0 if end == "stop" else 100.0)

    synced = factory.wait_for_cache_sync(
        timeout=100.0 if end == "stop" else 3.0,
        stop=context,
    )
    cluster.list_gate.set()

    assert synced == {PODS: False}
    assert clock.monotonic() == 3.0


def test_factory_is_awaited_like_an_informer(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make("ci")
    factory.informer_for("pods")
    never = wait.background(FakeClock())

    with pytest.raises(WaitTimeout) as caught:
        cache.wait_for_cache_sync(factory, stop=never, timeout=1)
    factory.start()
    all_synced(factory)

    assert str(caught.value) == "caches not synced after 1s: pods in namespace ci (not started)"
    assert cache.wait_for_cache_sync(factory)


def test_stop_stops_all_and_returns_at_once(
    make: Callable[..., SharedInformerFactory], cluster: Cluster
) -> None:
    cluster.list_gate.clear()
    factory = make()
    informer = factory.informer_for("pods")
    factory.start()
    assert cluster.listing.wait(PATIENCE)

    factory.stop()
    factory.start()

    assert informer.stopped
    with pytest.raises(RuntimeError) as caught:
        factory.informer_for("pods")
    assert str(caught.value) == "the informer factory was stopped, make a new one"
    cluster.list_gate.set()


def test_with_block_starts_and_stops(make: Callable[..., SharedInformerFactory]) -> None:
    factory = make()
    informer = factory.informer_for("pods")
    with factory as entered:
        assert entered is factory
        assert informer.done.wait(PATIENCE)
    assert informer.stopped
