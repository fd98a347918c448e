from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from pytest_kwait import cache
from pytest_kwait.cache import listwatch
from pytest_kwait.cache.collection_watch import WATCH_INACTIVITY
from pytest_kwait.cache.listwatch import (
    EventFilter,
    ResourceCollection,
    SharedEvent,
    SharedWatch,
    SharedWatches,
    SharedWatchFollower,
    parse_resource_version,
)
from pytest_kwait.cache.shared_informer import ObjectMetadata
from pytest_kwait.client.resource import JOBS, NODES, PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.cache.fakes import (
    PATIENCE,
    Live,
    LiveWatch,
    bookmark,
    connection_refused,
    event,
    expired,
    listed,
    pod_at,
    pods_of,
    raw,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.errors import ApiError

EVERYTHING = ResourceCollection.of(PODS, None, None, None)
CI = ResourceCollection.of(PODS, "ci", None, None)
WEB = ResourceCollection.of(PODS, "ci", "app=web", None)
ONE = ResourceCollection.of(PODS, "ci", None, "metadata.name=a")


def shown(type: str, name: str = "a", namespace: str = "ci", **labels: str) -> SharedEvent:
    obj = pod_at(name, 5, namespace=namespace)
    obj["metadata"]["labels"] = labels
    bare = {"metadata": {key: obj["metadata"][key] for key in ("name", "namespace", "uid")}}
    return SharedEvent(type, bare, raw(obj), 5)


def passing(
    narrow: ResourceCollection, wide: ResourceCollection, *, by_labels: bool = True
) -> EventFilter:
    passing = narrow.filter_from(wide, by_labels=by_labels)
    assert passing is not None
    return passing


def test_same_collection_in_another_notation_passes_unfiltered() -> None:
    written = ResourceCollection.of(PODS, "ci", {"app": "web"}, {"metadata.name": "a"})
    same = ResourceCollection.of(PODS, "ci", "app=web", "metadata.name=a")
    assert written == same
    assert passing(written, same)(shown("ADDED", "other")) == "ADDED"


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (CI, ResourceCollection.of(PODS, "other", None, None)),
        (EVERYTHING, CI),
        (CI, WEB),
        (ONE, ResourceCollection.of(PODS, "ci", None, "metadata.name=b")),
        (CI, ONE),
        (CI, ResourceCollection.of(JOBS, "ci", None, None)),
        (ResourceCollection.of(PODS, "ci", None, "spec.nodeName=n"), CI),
        (ResourceCollection.of(PODS, "ci", None, "metadata.name=a,spec.nodeName=n"), CI),
        (ResourceCollection.of(PODS, "ci", None, "metadata.name!=a"), CI),
        (ResourceCollection.of(PODS, "ci", "app=db", None), WEB),
    ],
)
def test_collection_outside_of_a_watch_cannot_follow_it(
    narrow: ResourceCollection, wide: ResourceCollection
) -> None:
    assert narrow.filter_from(wide, by_labels=True) is None


def test_namespace_and_name_are_filtered_by_the_object() -> None:
    in_ci = passing(CI, EVERYTHING)
    assert in_ci(shown("ADDED")) == "ADDED"
    assert in_ci(shown("DELETED", namespace="other")) is None
    one = passing(ONE, EVERYTHING)
    assert one(shown("MODIFIED")) == "MODIFIED"
    assert one(shown("MODIFIED", "b")) is None
    node = ResourceCollection.of(NODES, None, None, "metadata.name=n")
    assert (
        passing(node, ResourceCollection.of(NODES, None, None, None))(shown("ADDED", "n"))
        == "ADDED"
    )


def test_labels_are_filtered_on_request_only() -> None:
    assert WEB.filter_from(CI, by_labels=False) is None
    web = passing(WEB, EVERYTHING)
    assert web(shown("ADDED", app="web")) == "ADDED"
    assert web(shown("ADDED", "b", app="db")) is None
    assert web(shown("ADDED", app="web", namespace="other")) is None


def test_object_that_ceases_to_match_is_deleted_once() -> None:
    web = passing(WEB, CI)
    told: list[Any] = [
        web(shown(type, app=app))
        for type, app in (
            ("MODIFIED", "web"),
            ("MODIFIED", "db"),
            ("MODIFIED", "db"),
            ("MODIFIED", "web"),
            ("MODIFIED", "db"),
            ("DELETED", "db"),
        )
    ]
    assert told == ["MODIFIED", "DELETED", None, "MODIFIED", "DELETED", None]
    assert web._reported_gone == set()  # type: ignore[attr-defined] # what it remembers must not grow


def test_deletion_of_a_possibly_matching_object_is_reported() -> None:
    web = passing(WEB, CI)
    assert web(shown("DELETED", "x", app="web")) == "DELETED"
    # Its deletion is in another state than that in which it was listed.
    assert web(shown("DELETED", "y", app="db")) == "DELETED"
    assert web(shown("ADDED", "z", app="db")) is None
    assert web(shown("DELETED", "z", app="db")) is None


PODS_OF_CI = ResourceCollection.of(PODS, "default", None, None)
ALL_PODS = ResourceCollection.of(PODS, None, None, None)


@pytest.fixture
def here() -> SharedWatches:
    return SharedWatches()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def publish(here: SharedWatches, clock: FakeClock, version: str = "10") -> SharedWatch:
    published = here.publish("session", PODS_OF_CI, version, clock=clock, silence=90.0)
    assert published is not None
    return published


def follow(
    here: SharedWatches, clock: FakeClock, version: str = "10", seconds: float = 1000.0, **more: Any
) -> SharedWatchFollower | None:
    return here.follow(
        more.pop("session", "session"),
        more.pop("collection", PODS_OF_CI),
        version,
        deadline=Deadline.after(seconds, clock),
        shape=more.pop("shape", None),
        **more,
    )


def show(published: SharedWatch, type: str, obj: dict[str, Any]) -> None:
    published.broadcast(type, obj, raw(obj), obj["metadata"]["resourceVersion"])


def take(feed: SharedWatchFollower | None, count: int) -> list[str]:
    assert feed is not None
    events = [next(feed) for _ in range(count)]
    return [f"{each.type} {each.object['metadata']['resourceVersion']}" for each in events]


def test_follower_gets_the_events_after_its_list(here: SharedWatches, clock: FakeClock) -> None:
    published = publish(here, clock)
    show(published, "ADDED", pod_at("a", 11))
    show(published, "MODIFIED", pod_at("a", 12))
    late, later = follow(here, clock, "11"), follow(here, clock, "14")
    show(published, "ADDED", pod_at("b", 13))
    show(published, "DELETED", pod_at("b", 14))
    show(published, "BOOKMARK", {"metadata": {"resourceVersion": "20"}})

    assert take(late, 4) == ["MODIFIED 12", "ADDED 13", "DELETED 14", "BOOKMARK 20"]
    assert take(later, 1) == ["BOOKMARK 20"]


def test_events_before_the_published_version_are_not_kept(
    here: SharedWatches, clock: FakeClock
) -> None:
    published = publish(here, clock)
    assert follow(here, clock, "9") is None
    for version in range(11, 11 + listwatch._RECENT + 2):
        show(published, "MODIFIED", pod_at("a", version))
    assert follow(here, clock, "11") is None
    assert len(take(follow(here, clock, "12"), listwatch._RECENT)) == listwatch._RECENT


def test_follower_of_a_narrower_collection_gets_fewer_events(
    here: SharedWatches, clock: FakeClock
) -> None:
    published = publish(here, clock)
    named = ResourceCollection.of(PODS, "default", None, "metadata.name=b")
    feed = follow(here, clock, collection=named, shape=ObjectMetadata)
    show(published, "ADDED", pod_at("a", 11))
    show(published, "ADDED", pod_at("b", 12, spec={"big": True}))

    assert feed is not None
    (shown,) = [next(feed)]
    assert shown.object == {"kind": "Pod", "metadata": pod_at("b", 12)["metadata"]}
    assert shown.raw == raw(pod_at("b", 12, spec={"big": True}))


@pytest.mark.parametrize(
    "other", [{"session": "another"}, {"collection": ALL_PODS}, {"version": "x"}]
)
def test_other_sessions_collections_and_versions_are_not_followed(
    here: SharedWatches, clock: FakeClock, other: dict[str, Any]
) -> None:
    publish(here, clock)
    assert follow(here, clock, **other) is None


def test_a_collection_is_published_once(here: SharedWatches, clock: FakeClock) -> None:
    first = publish(here, clock)
    assert here.publish("session", PODS_OF_CI, "10", clock=clock, silence=None) is None
    assert here.publish("session", ALL_PODS, "10", clock=clock, silence=None) is not None
    first.end()
    first.end()
    assert publish(here, clock) is not first
    assert here.publish("session", PODS_OF_CI, "abc", clock=clock, silence=None) is None


def test_the_narrower_of_two_is_followed(here: SharedWatches, clock: FakeClock) -> None:
    here.publish("session", ALL_PODS, "10", clock=clock, silence=None)
    narrow = publish(here, clock)
    feed = follow(here, clock)
    assert feed is not None
    assert feed._watch is narrow


@pytest.mark.parametrize(
    "second",
    [
        pod_at("b", 11),
        pod_at("b", 10),
        pod_at("b", "opaque"),
        {"metadata": {"resourceVersion": ""}},
    ],
)
def test_versions_that_do_not_grow_end_it(
    here: SharedWatches, clock: FakeClock, second: dict[str, Any]
) -> None:
    published = publish(here, clock)
    feed = follow(here, clock)
    show(published, "ADDED", pod_at("a", 11))
    show(published, "ADDED", second)
    show(published, "ADDED", pod_at("c", 12))

    assert take(feed, 1) == ["ADDED 11"]
    assert published.ended
    with pytest.raises(StopIteration):
        take_next(feed)
    assert follow(here, clock) is None


def take_next(feed: SharedWatchFollower | None) -> Any:
    assert feed is not None
    return feed.__next__()


def test_silence_ends_it_and_lets_the_follower_go(here: SharedWatches, clock: FakeClock) -> None:
    published = publish(here, clock)
    feed = follow(here, clock)
    clock.advance(89)
    show(published, "BOOKMARK", {"metadata": {"resourceVersion": "11"}})
    assert take(feed, 1) == ["BOOKMARK 11"]

    with pytest.raises(StopIteration):
        take_next(feed)
    assert clock.monotonic() == 89 + 90
    assert published.ended


def test_the_deadline_of_a_follower_is_its_own(here: SharedWatches, clock: FakeClock) -> None:
    published = publish(here, clock)
    feed = follow(here, clock, seconds=5.0)
    with pytest.raises(DeadlineExceeded):
        take_next(feed)
    assert clock.monotonic() == 5.0
    assert not published.ended


def test_closing_ends_the_reading_and_the_telling(here: SharedWatches) -> None:
    clock = FakeClock(auto=False)
    published = publish(here, clock)
    feed = follow(here, clock)
    assert feed is not None
    read: list[Any] = []
    with feed:
        reader = threading.Thread(target=lambda: read.extend(feed))
        reader.start()
        clock.until_blocked()
        feed.close()
        reader.join(PATIENCE)
    show(published, "ADDED", pod_at("a", 11))

    assert read == []
    assert not reader.is_alive()
    assert list(feed._queue) == []


def test_forked_child_has_no_shared_watches(here: SharedWatches, clock: FakeClock) -> None:
    publish(here, clock)
    here.reset_after_fork()
    assert follow(here, clock) is None


@pytest.mark.parametrize(
    ("version", "number"),
    [("1", 1), ("0", None), ("", None), ("-1", None), ("1.5", None), ("٣", None), ("x", None)],
)
def test_versions_are_numbers_or_nothing(version: str, number: int | None) -> None:
    assert parse_resource_version(version) == number


Inform: TypeAlias = Any


@pytest.fixture
def inform() -> Iterator[Callable[..., cache.SharedInformer]]:
    made: list[cache.SharedInformer] = []

    def inform(session: Any, namespace: str | None = None, **more: Any) -> cache.SharedInformer:
        informer = cache.SharedInformer(pods_of(session, namespace, **more))
        made.append(informer)
        informer.start()
        assert informer.done.wait(PATIENCE)
        return informer

    yield inform
    for informer in made:
        informer.stop()
        assert informer.join(PATIENCE)
    assert listwatch.SHARED_WATCHES._of_session == {}


def leading(live: Live, inform: Inform) -> tuple[cache.SharedInformer, LiveWatch]:
    """An informer that watches, and its watch."""
    return inform(live), live.next_watch()


def test_informers_of_the_same_have_one_watch(inform: Inform) -> None:
    live = Live(pod_at("a", 1))
    _, watch = leading(live, inform)
    other, narrow = inform(live), inform(live, "default")
    watch.put(event("ADDED", pod_at("b", 11)))
    watch.put(event("DELETED", pod_at("a", 12)))
    watch.put(event("ADDED", pod_at("c", 13, namespace="other")))

    until(lambda: other.last_sync_resource_version == "13")
    assert other.store.list_keys() == ("default/b", "other/c")
    until(lambda: narrow.store.list_keys() == ("default/b",))
    assert live.watch_count == 1
    assert live.list_count == 3


def test_a_follower_goes_on_where_it_was_when_the_leader_stops(inform: Inform) -> None:
    live = Live(pod_at("a", 1))
    leader, watch = leading(live, inform)
    other, third = inform(live), inform(live)
    watch.put(event("ADDED", pod_at("b", 11)))
    watch.put(bookmark(15))
    until(lambda: other.last_sync_resource_version == third.last_sync_resource_version == "15")
    versions: list[str] = []
    opened = live.watch

    def noted(resource: Any, namespace: Any = None, **more: Any) -> LiveWatch:
        versions.append(more["resource_version"])
        return opened(resource, namespace, **more)

    live.watch = noted  # type: ignore[method-assign] # to see where it goes on
    leader.stop()
    again = live.next_watch()
    again.put(event("ADDED", pod_at("c", 16)))
    until(lambda: "default/c" in other.store and "default/c" in third.store)

    assert versions == ["15"]
    assert live.watch_count == 2
    assert live.list_count == 3
    assert (other.last_error, third.last_error) == (None, None)


@pytest.mark.parametrize("trouble", [connection_refused(), expired()])
def test_a_follower_does_not_wait_for_a_leader_in_trouble(
    inform: Inform, trouble: ApiError
) -> None:
    live = Live(pod_at("a", 1))
    _, watch = leading(live, inform)
    other = inform(live)
    live.list_gate.clear()
    watch.put(trouble)
    again = live.next_watch()
    again.put(event("ADDED", pod_at("b", 11)))
    until(lambda: "default/b" in other.store)
    live.list_gate.set()


def test_the_leaders_watch_is_opened_again_and_followed_on(inform: Inform) -> None:
    live = Live(pod_at("a", 1))
    _, watch = leading(live, inform)
    other = inform(live)
    watch.put(event("ADDED", pod_at("b", 11)))
    until(lambda: other.last_sync_resource_version == "11")
    live.clock.advance(300)
    watch.put(None)
    live.next_watch().put(event("ADDED", pod_at("c", 12)))
    until(lambda: "default/c" in other.store)
    assert (live.watch_count, live.list_count) == (2, 2)


def test_informer_with_an_older_list_lists_once_more(inform: Inform) -> None:
    live = Live(pod_at("a", 1))
    live.answer = listed(pod_at("a", 1), version=20)
    _, watch = leading(live, inform)
    live.answer = listed(pod_at("a", 1), version=19)
    other = inform(live)
    until(lambda: live.list_count == 3)
    # As old as before: it watches for itself, rather than to list for ever.
    mine = live.next_watch()
    mine.put(event("ADDED", pod_at("b", 21)))
    watch.put(event("ADDED", pod_at("b", 21)))
    until(lambda: "default/b" in other.store)
    assert (live.watch_count, live.list_count) == (2, 3)


def test_a_leader_that_is_silent_is_left(inform: Inform) -> None:
    live = Live(pod_at("a", 1))
    leading(live, inform)
    other = inform(live)
    live.clock.until_blocked()
    live.clock.advance(WATCH_INACTIVITY)
    live.next_watch().put(event("ADDED", pod_at("b", 11)))
    until(lambda: "default/b" in other.store)
