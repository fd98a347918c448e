"""Upstream's tests of reflectors and shared informers that no other page here re-expresses.

The rest is in `test_reflector`, `test_shared_informer`, `test_resync` and `test_transform`. Left
out is what ours has not: lists from a version (the first list is a consistent read, so none is "too
large", and pages are the API layer's), types by reflection, and streams of initial events.

Source: client-go tools/cache, reflector_test.go and shared_informer_test.go.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_kwait import cache
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import (
    PATIENCE,
    Live,
    Recorder,
    Script,
    ScriptedWatch,
    event,
    expired,
    listed,
    pod_at,
    pods_of,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.cache.store import Object


def test_a_watch_that_reports_an_error_is_closed() -> None:
    """TestCloseWatchChannelOnError."""
    script, opened = Script(), list[ScriptedWatch]()
    script.lists.append(listed())
    script.watches.append((refused(500, "InternalError"),))
    watch = script.watch

    def noted(*arguments: Any, **options: Any) -> ScriptedWatch:
        opened.append(watch(*arguments, **options))
        return opened[-1]

    script.watch = noted  # type: ignore[method-assign] # to keep what was opened
    reflector = cache.Reflector(pods_of(script), cache.Indexer(), on_error=lambda error: None)
    script.on_end = reflector.stop
    reflector.run()
    assert opened[0].closed


def test_an_object_deleted_unseen_as_it_could_not_be_read_goes_with_the_next_list() -> None:
    """TestReflectorReplacesStoreOnUnsafeDelete: the error says nothing of which one it was."""
    script, store = Script(), cache.Indexer()
    unreadable = refused(
        500, "StorageReadError", "failed to prepare objects: corrupt object has been deleted"
    )
    script.lists = deque([listed(pod_at("a", 1), version=3), listed(pod_at("a", 1), version=5)])
    seen: list[bool] = []
    script.watches = deque(
        [
            (
                event("ADDED", pod_at("corrupt", 4)),
                lambda: seen.append("default/corrupt" in store),
                unreadable,
            )
        ]
    )
    reflector = cache.Reflector(pods_of(script), store, on_error=lambda error: None)
    script.on_end = reflector.stop
    reflector.run()

    assert seen == [True]
    assert script.verbs == ["list", "watch", "list", "watch"]
    assert store.list_keys() == ("default/a",)
    assert reflector.last_sync_resource_version == "5"


def test_handlers_with_and_without_resync_see_the_same_after_a_disruption(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerWatchDisruption: who is not resynced misses nothing either."""
    live = Live(pod_at("pod1", 1), pod_at("pod2", 2), clock=FakeClock(auto=False))
    informer = informer_of(live)
    without, resynced = Recorder(), Recorder()
    informer.add_event_handler(without)
    informer.add_event_handler(resynced, resync=1)
    informer.start()
    watch = live.next_watch()
    for recorder in (without, resynced):
        recorder.after(2)
    live.answer = listed(pod_at("pod2", 12), pod_at("pod3", 13), version=13)
    watch.put(expired())
    live.next_watch()

    assert without.after(5)[2:] == ["delete pod1@1", "update pod2@12", "add pod3@13"]
    assert resynced.after(5)[2:] == without.calls[2:]
    while 1.0 not in live.clock.pauses:
        live.clock.until_blocked()
    live.clock.advance(1)
    assert resynced.after(7)[5:] == ["update pod2@12", "update pod3@13"]
    assert len(without.calls) == 5


def test_errors_reach_the_error_handler(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerErrorHandling."""
    live, told = Live(), list[Exception]()
    live.answer = refused(500, "InternalError", "Access Denied")
    heard = threading.Event()

    def note(error: Exception) -> None:
        told.append(error)
        heard.set()

    informer_of(live, on_error=note).start()
    assert heard.wait(PATIENCE)
    assert [str(error) for error in told] == ["GET /api/v1/pods: 500 InternalError: Access Denied"]


def test_a_handler_may_come_while_the_informer_starts(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerInitializationRace."""
    for _ in range(20):
        informer = informer_of(Live(pod_at("a")))
        recorder = Recorder()
        adding = threading.Thread(target=informer.add_event_handler, args=(recorder,))
        adding.start()
        informer.start()
        adding.join(PATIENCE)
        assert recorder.after(1) in (["add a@1"], ["initial add a@1"])
        assert informer._handlers[0].done.wait(PATIENCE)


def test_a_handler_that_is_another_informers_or_gone_is_not_removed(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerRemoveForeignHandler, TestRemovingRemovedSharedInformer."""
    live, other = Live(pod_at("a")), Live(pod_at("a"))
    mine, theirs = informer_of(live), informer_of(other)
    recorder = Recorder()
    registration = mine.add_event_handler(recorder)
    foreign = theirs.add_event_handler(Recorder())
    mine.remove_event_handler(foreign)
    mine.start()
    recorder.after(1)
    assert theirs._handlers == [foreign]

    mine.remove_event_handler(registration)
    mine.remove_event_handler(registration)
    assert mine._handlers == []


def test_handler_can_be_registered_twice_and_removed_once(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerMultipleRegistration."""
    live, recorder, marker = Live(pod_at("a")), Recorder(), Recorder()
    informer = informer_of(live)
    first = informer.add_event_handler(recorder)
    second = informer.add_event_handler(recorder)
    informer.start()
    recorder.after(2)
    informer.remove_event_handler(first)
    informer.add_event_handler(marker)
    live.next_watch().put(event("ADDED", pod_at("b", 11)))
    marker.after(2)

    assert recorder.after(3)[2:] == ["add b@11"]
    assert (first is second, second in informer._handlers) == (False, True)


def test_removing_a_handler_from_a_stopped_informer_is_allowed(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestRemoveOnStoppedSharedInformer."""
    informer = informer_of(Live())
    registration = informer.add_event_handler(Recorder())
    informer.start()
    informer.stop()
    informer.remove_event_handler(registration)
    assert informer._handlers == []


def test_handlers_that_come_and_go_all_the_time_do_no_harm(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestSharedInformerHandlerAbuse, TestAddWhileActive, TestRemoveWhileActive."""
    live, steady = Live(), Recorder()
    informer = informer_of(live)
    informer.add_event_handler(steady)
    informer.start()
    watch = live.next_watch()
    over, problems = threading.Event(), list[BaseException]()

    def abuse(seed: int) -> None:
        dice = random.Random(seed)
        registrations: list[cache.HandlerRegistration] = []
        try:
            while not over.is_set():
                if registrations and dice.random() < 0.5:
                    informer.remove_event_handler(registrations.pop())
                else:
                    registrations.append(informer.add_event_handler(Recorder()))
                    over.wait(0.001)
        except BaseException as error:
            problems.append(error)

    abusers = [threading.Thread(target=abuse, args=(seed,)) for seed in range(3)]
    for abuser in abusers:
        abuser.start()
    for number in range(100):
        watch.put(event("ADDED", pod_at(f"p{number}", 11 + number)))
    calls = steady.after(100)
    over.set()
    for abuser in abusers:
        abuser.join(PATIENCE)

    assert calls == [f"add p{number}@{11 + number}" for number in range(100)]
    assert problems == []


def test_a_removed_handler_ends_though_its_queue_is_full(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    """TestShutdown: nothing is delivered any more, and no thread stays behind."""
    live = Live(*(pod_at(f"p{n}") for n in range(50)))
    entered, release = threading.Event(), threading.Event()
    informer = informer_of(live)
    calls: list[str] = []

    def slow(obj: Object) -> None:
        calls.append(obj["metadata"]["name"])
        entered.set()
        assert release.wait(PATIENCE)

    registration = informer.add_event_handler(add=slow)
    informer.start()
    assert entered.wait(PATIENCE)
    informer.remove_event_handler(registration)
    release.set()

    assert registration._worker.join(PATIENCE)
    assert calls == ["p0"]
