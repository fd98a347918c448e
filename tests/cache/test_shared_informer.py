"""Upstream's tests of shared informers, and one for each defect of the official client's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.cache.shared_informer import ObjectMetadata
from pytest_kwait.client.resource import Resource
from pytest_kwait.client.responses import Item, ObjectList
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import (
    PATIENCE,
    Live,
    Recorder,
    bookmark,
    connection_refused,
    event,
    expired,
    listed,
    pod_at,
    pods_of,
    raw,
    refused,
)

if TYPE_CHECKING:
    from pytest_kwait.cache.store import Object


Inform: TypeAlias = Callable[..., cache.SharedInformer]


@pytest.fixture
def inform(informer_of: Inform) -> Inform:
    def inform(session: Any, *handlers: Any, **options: Any) -> cache.SharedInformer:
        informer = informer_of(session, **options)
        for handler in handlers:
            informer.add_event_handler(handler)
        informer.start()
        return informer

    return inform


def synced(informer: cache.SharedInformer) -> None:
    assert informer.done.wait(PATIENCE)


def test_store_and_handlers_follow_list_and_watch(inform: Inform) -> None:
    live, recorder = Live(pod_at("a", 1), pod_at("b", 2)), Recorder()
    informer = inform(live, recorder)
    watch = live.next_watch()

    watch.put(event("ADDED", pod_at("c", 11)))
    watch.put(event("MODIFIED", pod_at("a", 12)))
    watch.put(event("DELETED", pod_at("b", 13)))
    calls = recorder.after(5)

    assert calls == ["initial add a@1", "initial add b@2", "add c@11", "update a@12", "delete b@13"]
    assert informer.store.list() == [pod_at("a", 12), pod_at("c", 11)]
    assert informer.has_synced()
    assert informer.last_sync_resource_version == "13"
    assert (informer.started, informer.stopped, informer.last_error) == (True, False, None)
    assert repr(informer) == "<informer of pods>"


def test_has_synced_means_that_the_initial_list_is_in_the_store(inform: Inform) -> None:
    live = Live(pod_at("a"))
    live.list_gate.clear()
    informer = inform(live)
    assert live.listing.wait(PATIENCE)

    before = (informer.has_synced(), informer.last_sync_resource_version)
    live.list_gate.set()
    synced(informer)

    assert before == (False, "")
    assert informer.store.list() == [pod_at("a")]


def test_handler_sees_the_change_in_the_store(inform: Inform) -> None:
    live, seen = Live(pod_at("a", 1)), list[Any]()
    told = threading.Event()
    informer = inform(live)
    watch = live.next_watch()

    def look(obj: Object) -> None:
        seen.append(informer.store.get(obj))
        told.set()

    informer.add_event_handler(delete=look)
    watch.put(event("DELETED", pod_at("a", 11)))
    assert told.wait(PATIENCE)

    assert seen == [None]


def test_late_handler_gets_the_present_objects(inform: Inform) -> None:
    live, early, late = Live(pod_at("a", 1)), Recorder(), Recorder()
    informer = inform(live, early)
    watch = live.next_watch()
    watch.put(event("ADDED", pod_at("b", 11)))
    early.after(2)

    registration = informer.add_event_handler(late)
    assert registration.done.wait(PATIENCE)
    told = list(late.calls)
    watch.put(event("MODIFIED", pod_at("a", 12)))

    assert told == ["initial add a@1", "initial add b@11"]
    assert late.after(3)[2] == "update a@12"
    assert early.after(3) == ["initial add a@1", "add b@11", "update a@12"]


def test_each_handler_has_its_own_has_synced(inform: Inform) -> None:
    live, gate = Live(pod_at("a")), threading.Event()
    informer = inform(live)
    slow = informer.add_event_handler(add=lambda obj: gate.wait(PATIENCE), name="slow")
    quick = informer.add_event_handler(Recorder())
    assert quick.done.wait(PATIENCE)

    before = (informer.has_synced(), slow.has_synced())
    gate.set()

    assert before == (True, False)
    assert slow.done.wait(PATIENCE)
    assert (slow.name, quick.name) == ("slow of pods", "handler 2 of pods")


def test_handler_that_raises_does_not_hold_up_others(
    inform: Inform, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(obj: Object) -> None:
        raise ValueError(obj["metadata"]["name"])

    live, recorder = Live(pod_at("a", 1)), Recorder()
    informer = inform(live)
    failing = informer.add_event_handler(add=fail, name="failing")
    informer.add_event_handler(recorder)
    live.next_watch().put(event("ADDED", pod_at("b", 11)))
    recorder.after(2)
    assert failing.done.wait(PATIENCE)

    assert "Handler failing of pods failed on ADDED default/a" in caplog.messages
    assert isinstance(failing.last_error, ValueError)


def test_removed_handler_is_not_called(inform: Inform) -> None:
    live, staying, leaving = Live(), Recorder(), Recorder()
    informer = inform(live, staying)
    registration = informer.add_event_handler(leaving)
    foreign = inform(Live()).add_event_handler(Recorder())
    watch = live.next_watch()
    watch.put(event("ADDED", pod_at("a", 11)))
    leaving.after(1)

    informer.remove_event_handler(registration)
    informer.remove_event_handler(registration)
    informer.remove_event_handler(foreign)
    watch.put(event("ADDED", pod_at("b", 12)))

    assert staying.after(2) == ["add a@11", "add b@12"]
    assert leaving.calls == ["add a@11"]


@pytest.mark.parametrize("end", ["stop", "remove"])
def test_thread_of_a_handler_ends_with_it(inform: Inform, end: str) -> None:
    informer = inform(Live())
    registration = informer.add_event_handler(Recorder())
    assert registration.done.wait(PATIENCE)

    if end == "stop":
        informer.stop()
    else:
        informer.remove_event_handler(registration)
    assert registration._worker.join(PATIENCE)


def test_nobody_can_change_what_others_see(inform: Inform) -> None:
    live, recorder = Live(pod_at("a", 1)), Recorder()
    informer = inform(live)
    spoiler = informer.add_event_handler(add=lambda obj: obj.clear())
    assert spoiler.done.wait(PATIENCE)
    informer.store.list()[0].clear()

    informer.add_event_handler(recorder)

    assert recorder.after(1) == ["initial add a@1"]
    assert informer.store.list() == [pod_at("a", 1)]


def test_410_tells_only_what_changed_meanwhile(inform: Inform) -> None:
    live, recorder = Live(pod_at("same", 1), pod_at("changed", 2), pod_at("gone", 3)), Recorder()
    informer = inform(live, recorder)
    watch = live.next_watch()
    live.answer = listed(pod_at("same", 1), pod_at("changed", 50), pod_at("new", 60), version=70)

    watch.put(expired())
    live.next_watch()

    assert recorder.after(6) == [
        *("initial add same@1", "initial add changed@2", "initial add gone@3"),
        *("delete gone@3", "update changed@50", "add new@60"),
    ]
    assert informer.last_sync_resource_version == "70"


def test_recreated_object_is_not_an_update(inform: Inform) -> None:
    live, recorder = Live(pod_at("a", 1, uid="first")), Recorder()
    inform(live, recorder)
    watch = live.next_watch()
    live.answer = listed(pod_at("a", 50, uid="second"), version=70)

    watch.put(expired())

    assert recorder.after(3) == ["initial add a@1", "delete a@1", "add a@50"]


def test_watch_is_opened_again_where_it_ended(inform: Inform) -> None:
    live, recorder = Live(), Recorder()
    informer = inform(live, recorder)
    watch = live.next_watch()

    watch.put(bookmark(30))
    watch.put(None)
    live.next_watch().put(event("ADDED", pod_at("a", 31)))

    assert recorder.after(1) == ["add a@31"]
    assert (live.list_count, live.watch_count) == (1, 2)
    assert informer.last_sync_resource_version == "31"


def test_stop_returns_at_once_and_ends_the_watch(inform: Inform) -> None:
    live = Live()
    informer = inform(live)
    watch = live.next_watch()

    informer.stop()

    assert watch.closed.is_set()
    assert informer.join(PATIENCE)
    assert informer.stopped


def test_stop_during_the_initial_list_opens_no_watch(inform: Inform) -> None:
    live = Live(pod_at("a"))
    live.list_gate.clear()
    informer = inform(live)
    assert live.listing.wait(PATIENCE)

    informer.stop()  # returns although the list does not
    live.list_gate.set()

    assert informer.join(PATIENCE)
    assert live.watch_count == 0
    assert not informer.has_synced()


def test_stop_right_after_start(inform: Inform) -> None:
    for _ in range(20):
        live = Live()
        informer = inform(live)
        informer.stop()
        assert informer.join(PATIENCE)
        assert live.watch_count == 0 or live.next_watch().closed.is_set()


def test_stop_from_a_handler(inform: Inform) -> None:
    live, stopped = Live(pod_at("a")), threading.Event()
    informer = inform(live)

    def stop(obj: Object) -> None:
        informer.stop()
        stopped.set()

    informer.add_event_handler(add=stop)

    assert stopped.wait(PATIENCE)
    assert informer.join(PATIENCE)


def test_stop_from_many_threads(inform: Inform) -> None:
    informer = inform(Live())
    group = wait.Group()
    for _ in range(8):
        group.start(informer.stop)

    group.wait()

    assert informer.join(PATIENCE)


def test_stopped_informer_stays_stopped(inform: Inform) -> None:
    informer = inform(Live())
    informer.stop()

    with pytest.raises(RuntimeError) as start:
        informer.start()
    with pytest.raises(RuntimeError) as add:
        informer.add_event_handler(Recorder())

    assert str(start.value) == "the informer of pods was stopped, make a new one"
    assert str(add.value) == "the informer of pods was stopped, it calls no handlers"


def test_start_again_while_it_runs_does_nothing(inform: Inform) -> None:
    live = Live()
    informer = inform(live)
    informer.start()
    live.next_watch()

    assert live.list_count == 1


def test_with_block_starts_and_stops() -> None:
    live = Live()
    with cache.SharedInformer(pods_of(live)) as informer:
        synced(informer)
        watch = live.next_watch()

    assert watch.closed.wait(PATIENCE)
    assert informer.join(PATIENCE)


def test_error_is_surfaced_until_the_list_succeeds(inform: Inform) -> None:
    clock, live, failed = FakeClock(auto=False), Live(), threading.Event()
    live.clock = clock
    trouble = live.answer = connection_refused()
    informer = inform(live, on_error=lambda error: failed.set())
    assert failed.wait(PATIENCE)
    clock.until_blocked()
    seen = (informer.last_error, informer.permanent_error, informer.has_synced())

    live.answer = listed()
    clock.advance(2.0)
    synced(informer)
    live.next_watch()

    assert seen == (trouble, None, False)
    assert informer.last_error is None


def test_refused_list_is_a_permanent_error(inform: Inform) -> None:
    live, failed = Live(), threading.Event()
    forbidden = live.answer = refused()
    informer = inform(live, on_error=lambda error: failed.set())
    assert failed.wait(PATIENCE)

    assert informer.permanent_error is forbidden


def test_a_list_refused_right_after_an_outage_is_a_permanent_error_if_that_holds(
    inform: Inform,
) -> None:
    clock, live = FakeClock(auto=False), Live()
    failures: Queue[Exception] = Queue()
    live.clock = clock
    live.answer = connection_refused()
    informer = inform(live, on_error=failures.put)
    failures.get(timeout=PATIENCE)
    permanent = []
    for seconds in (2.0, 6.0):
        live.answer = refused()
        clock.until_blocked()
        clock.advance(seconds)
        assert failures.get(timeout=PATIENCE) is live.answer
        permanent.append(informer.permanent_error)

    assert permanent == [None, live.answer]


def test_error_that_ends_the_thread_is_kept_and_logged(
    inform: Inform, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = InvalidArgument("label_selector", 3, "a text")

    class Refuses(Live):
        def list(self, *args: Any, **kwargs: Any) -> ObjectList:
            raise wrong

    informer = inform(Refuses())
    assert informer.join(PATIENCE)

    assert informer.last_error is wrong
    assert informer.permanent_error is wrong
    assert caplog.messages == ["The informer of pods ended"]


def test_object_without_name_is_left_out(inform: Inform, caplog: pytest.LogCaptureFixture) -> None:
    live, recorder = Live(pod_at("a", 1), {"metadata": {"uid": "x"}}), Recorder()
    informer = inform(live, recorder)
    watch = live.next_watch()
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        watch.put(event(kind, {"kind": "Pod", "metadata": {"uid": "x", "resourceVersion": "11"}}))
    watch.put(event("ADDED", pod_at("b", 12)))

    assert recorder.after(2) == ["initial add a@1", "add b@12"]
    assert len(caplog.messages) == 4
    assert caplog.messages[0] == (
        "An object without metadata.name was left out: {'metadata': {'uid': 'x'}}"
    )
    assert informer.last_error is None


def test_listed_objects_say_their_type_as_watched_ones_do(inform: Inform) -> None:
    bare = {key: value for key, value in pod_at("a", 1).items() if key == "metadata"}
    live = Live()
    live.answer = ObjectList([Item(bare, b" " + raw(bare))], "10")
    informer = inform(live)
    synced(informer)

    assert informer.store.list() == [pod_at("a", 1)]


def test_custom_resources_are_like_built_in_ones() -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget", namespaced=False)
    live: Any = Live()
    bare = {"metadata": {"name": "w", "uid": "u", "resourceVersion": "1"}, "spec": {"size": 3}}
    live.answer = ObjectList([Item(bare, raw(bare))], "10")

    with cache.SharedInformer(cache.ListWatch(live, widgets)) as informer:
        synced(informer)
        [widget] = informer.store.list()

    assert informer.name == "widgets.example.com"
    assert widget == {"apiVersion": "example.com/v1", "kind": "Widget", **bare}
    assert informer.join(PATIENCE)


def test_indexes_cover_what_came_before_and_after(inform: Inform) -> None:
    def by_phase(obj: Object) -> list[str]:
        return [obj["status"]["phase"]]

    live, recorder = Live(pod_at("a", 1, status={"phase": "Pending"})), Recorder()
    informer = inform(live, recorder, indexers={"phase": by_phase})
    watch = live.next_watch()
    informer.add_indexers({cache.NAMESPACE_INDEX: cache.meta_namespace_index_func})
    watch.put(event("MODIFIED", pod_at("a", 11, status={"phase": "Running"})))
    recorder.after(2)

    assert informer.store.list_index_func_values("phase") == ("Running",)
    assert informer.store.index_keys("namespace", "default") == ("default/a",)


def test_only_metadata_of_unread_objects_is_decoded(inform: Inform) -> None:
    asked: list[Any] = []

    class Asked(Live):
        def list(self, *args: Any, **kwargs: Any) -> ObjectList:
            asked.append(kwargs["type"])
            return super().list(*args, **kwargs)

    informer = inform(Asked(pod_at("a", 1, spec={"nodeName": "n"})))
    synced(informer)

    assert asked == [ObjectMetadata]
    assert set(ObjectMetadata.__annotations__) == {"kind", "metadata"}
    assert informer.store.list() == [pod_at("a", 1, spec={"nodeName": "n"})]
