from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.client.resource import JOBS, NODES, PODS, Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, Live, pod_at, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.clock import Deadline

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


class FactorySession(Live):
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
def cluster(monkeypatch: pytest.MonkeyPatch) -> FactorySession:
    cluster = FactorySession(pod_at("a"))
    monkeypatch.setattr(ApiSession, "of", staticmethod(lambda client: cluster))
    return cluster


@pytest.fixture
def make(cluster: FactorySession) -> Iterator[Callable[..., SharedInformerFactory]]:
    made: list[SharedInformerFactory] = []

    def make(*arguments: Any, **options: Any) -> SharedInformerFactory:
        made.append(SharedInformerFactory(object(), *arguments, **options))  # type: ignore[arg-type] # ApiSession.of is replaced
        return made[-1]

    yield make
    for factory in made:
        factory.stop()
        assert all(informer.join(PATIENCE) for informer in factory.informers)


def all_synced(factory: SharedInformerFactory) -> None:
    for informer in factory.informers:
        assert informer.done.wait(PATIENCE)


def test_names_of_a_resource_share_one_informer(
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
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


def test_start_starts_the_requested_informers_and_later_ones(
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
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


def test_wait_for_cache_sync_waits_for_a_start_that_is_still_to_come(
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
) -> None:
    factory = make()
    pods = factory.informer_for("pods")
    synced: list[Any] = []
    waiting = threading.Thread(target=lambda: synced.append(factory.wait_for_cache_sync()))
    waiting.start()
    cluster.clock.until_blocked()
    assert synced == []
    factory.informer_for("jobs.batch")
    factory.start()
    all_synced(factory)
    cluster.clock.advance(0.1)
    waiting.join(PATIENCE)

    assert synced == [{PODS: True, JOBS: True}]
    assert pods.has_synced()


def test_wait_for_cache_sync_says_what_was_never_started(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make()
    factory.informer_for("pods")
    context, _ = wait.with_timeout(wait.background(FakeClock()), 3.0)
    assert factory.wait_for_cache_sync(stop=context) == {PODS: False}


def test_wait_for_cache_sync_ends_with_the_factory(
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
) -> None:
    cluster.list_gate.clear()
    factory = make()
    factory.informer_for("pods")
    factory.start()
    factory.stop()
    assert factory.wait_for_cache_sync(stop=wait.background(FakeClock())) == {PODS: False}
    cluster.list_gate.set()


def test_options_are_the_factorys_unless_the_informer_has_its_own(
    make: Callable[..., SharedInformerFactory],
) -> None:
    def nodes_by_name(options: cache.ListOptions) -> None:
        if options.resource == NODES:
            options.field_selector = {"metadata.name": "n"}

    factory = make("ci", label_selector="app=web", tweak_list_options=nodes_by_name)
    mine = factory.informer_for("pods", label_selector={"app": "db"})

    assert factory.informer_for("pods").name == "pods in namespace ci with labels app=web"
    assert mine.name == "pods in namespace ci with labels app=db"
    assert factory.informer_for("pods", label_selector="app=db") is mine
    nodes = factory.informer_for(NODES)
    assert nodes.name == "nodes with labels app=web and fields metadata.name=n"

    def everywhere(options: cache.ListOptions) -> None:
        options.namespace = options.label_selector = None

    assert factory.informer_for("pods", tweak_list_options=everywhere).name == "pods"


def test_two_collections_of_one_resource_sync_together(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make()
    factory.informer_for("pods")
    factory.informer_for("pods", label_selector="app=web")
    factory.start()
    all_synced(factory)
    assert factory.wait_for_cache_sync() == {PODS: True}


def test_transform_and_resync_are_passed_on(make: Callable[..., SharedInformerFactory]) -> None:
    def bare(obj: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": obj["metadata"]}

    factory = make(transform=bare, resync="10m", custom_resync={"jobs.batch": 30, NODES: 0})
    made = {each: factory.informer_for(each) for each in (PODS, JOBS, NODES)}
    widgets = factory.informer_for("Widget", resync=5, transform=lambda obj: obj)
    factory.start()
    all_synced(factory)

    periods = [informer._default_resync for informer in (*made.values(), widgets)]
    assert periods == [600.0, 30.0, 0.0, 5.0]
    assert made[PODS].store.list() == [bare(pod_at("a"))]
    assert widgets.store.list() == [pod_at("a")]


def test_listers_of_a_factory_read_one_namespace_by_its_index(
    make: Callable[..., SharedInformerFactory],
) -> None:
    factory = make()
    pods, nodes = factory.informer_for("pods"), factory.informer_for(NODES)
    factory.start()
    all_synced(factory)

    assert pods.lister().pods("default").list() == [pod_at("a")]
    assert pods.store.list_index_func_values(cache.NAMESPACE_INDEX) == ("default",)
    assert dict(nodes.store.get_indexers()) == {}


def test_shutdown_waits_for_the_threads(make: Callable[..., SharedInformerFactory]) -> None:
    factory = make()
    informer = factory.informer_for("pods")
    factory.start()
    assert informer.done.wait(PATIENCE)
    assert factory.shutdown(PATIENCE)
    assert informer.join(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_selector": "app in web"}, r"^label_selector='app in web' is not valid: "),
        ({"field_selector": 3}, r"^field_selector=3 is not valid: "),
        ({"resync": "often"}, r"^resync='often' is not valid: "),
        ({"custom_resync": {"pods": -1}}, r"^resync=-1 is not valid: "),
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once(
    make: Callable[..., SharedInformerFactory], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make(**options)


def test_wait_for_cache_sync_of_none_is_empty(make: Callable[..., SharedInformerFactory]) -> None:
    assert make().wait_for_cache_sync() == {}


def test_wait_for_cache_sync_ends_when_the_rest_never_will(
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
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
    make: Callable[..., SharedInformerFactory], cluster: FactorySession, end: str
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
    make: Callable[..., SharedInformerFactory], cluster: FactorySession
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
