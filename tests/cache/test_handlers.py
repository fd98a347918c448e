from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache
from pytest_kwait.cache.handlers import HandlerRegistration
from tests.cache.fakes import PATIENCE, pod_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.cache.store import Object


class RecordingHandler:
    """A handler that writes down its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        self.threads.add(threading.current_thread().name)
        self.calls.append(("add", obj["metadata"]["name"], is_in_initial_list))

    def on_update(self, old: Object, new: Object) -> None:
        versions = (old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"])
        self.calls.append(("update", new["metadata"]["name"], *versions))

    def on_delete(self, obj: Object) -> None:
        unknown = isinstance(obj, cache.DeletedFinalStateUnknown)
        self.calls.append(("delete", obj["metadata"]["name"], unknown))


@pytest.fixture
def recorder() -> RecordingHandler:
    return RecordingHandler()


@pytest.fixture
def registration(recorder: RecordingHandler) -> Iterator[HandlerRegistration]:
    registration = HandlerRegistration(recorder, "handler 1 of pods")
    yield registration
    registration.stop()


def all_delivered(registration: HandlerRegistration) -> None:
    registration.end_initial_list()
    assert registration.done.wait(PATIENCE)


def test_handler_hears_every_change_in_order_in_its_own_thread(
    recorder: RecordingHandler, registration: HandlerRegistration
) -> None:
    store = cache.Store()
    for delta in store.add(pod_at("a", 1)):
        registration.notify(delta, initial=True)
    for change in (
        store.add(pod_at("b", 2)),
        store.update(pod_at("a", 3)),
        store.delete(pod_at("a", 4)),
    ):
        registration.notify(change[0])
    for delta in store.replace([], "9"):
        registration.notify(delta)
    registration.start()
    all_delivered(registration)

    assert recorder.calls == [
        ("add", "a", True),
        ("add", "b", False),
        ("update", "a", "1", "3"),
        ("delete", "a", False),
        ("delete", "b", True),
    ]
    assert recorder.threads == {"kwait handler 1 of pods"}


def test_handler_has_synced_once_it_was_called_for_the_initial_list(
    registration: HandlerRegistration,
) -> None:
    before = registration.has_synced()
    registration.start()
    all_delivered(registration)

    assert not before
    assert registration.has_synced()
    assert cache.is_done(registration)
    assert repr(registration) == "<handler handler 1 of pods>"


def test_functions_may_be_left_out() -> None:
    added: list[Object] = []
    only_add = cache.ResourceEventHandlerFuncs(add=added.append)
    only_delete = cache.ResourceEventHandlerFuncs(delete=added.append)

    for handler in (only_add, only_delete):
        handler.on_add(pod_at("a"), True)
        handler.on_update(pod_at("a"), pod_at("b"))
    only_delete.on_delete(pod_at("c"))
    only_add.on_delete(pod_at("d"))

    assert [obj["metadata"]["name"] for obj in added] == ["a", "c"]


def test_update_function_gets_both_states() -> None:
    seen: list[tuple[Object, Object]] = []
    handler = cache.ResourceEventHandlerFuncs(update=lambda old, new: seen.append((old, new)))

    handler.on_update(pod_at("a", 1), pod_at("a", 2))

    assert seen == [(pod_at("a", 1), pod_at("a", 2))]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (True, True, [("update", "a", "1", "2")]),
        (False, True, [("add", "a", False)]),
        (True, False, [("delete", "a", False)]),
        (False, False, []),
    ],
)
def test_filter_turns_updates_into_what_they_mean(
    recorder: RecordingHandler, before: bool, after: bool, expected: list[Any]
) -> None:
    handler = cache.FilteringResourceEventHandler(lambda obj: bool(obj["passes"]), recorder)

    handler.on_update(pod_at("a", 1, passes=before), pod_at("a", 2, passes=after))

    assert recorder.calls == expected


@pytest.mark.parametrize(
    ("passes", "expected"), [(True, [("add", "a", True), ("delete", "a", False)]), (False, [])]
)
def test_filter_passes_on_additions_and_deletions(
    recorder: RecordingHandler, passes: bool, expected: list[Any]
) -> None:
    handler = cache.FilteringResourceEventHandler(lambda obj: passes, recorder)

    handler.on_add(pod_at("a"), True)
    handler.on_delete(pod_at("a"))

    assert recorder.calls == expected


def test_stopped_handler_is_not_called_for_what_was_queued() -> None:
    store, called = cache.Store(), list[dict[str, Any]]()

    def stop_after_first(obj: Object) -> None:
        called.append(obj)
        registration.stop()
        ended.set()

    ended = threading.Event()
    registration = HandlerRegistration(cache.ResourceEventHandlerFuncs(stop_after_first), "one")
    for name in ("a", "b"):
        registration.notify(store.add(pod_at(name))[0])
    registration.end_initial_list()
    registration.start()
    assert ended.wait(PATIENCE)
    assert registration._worker.join(PATIENCE)

    assert [obj["metadata"]["name"] for obj in called] == ["a"]
    assert not registration.has_synced()


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3)])
def test_handler_that_raises_is_logged_and_called_again(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    store, called = cache.Store(), list[str]()

    def fail_first(obj: Object) -> None:
        called.append(obj["metadata"]["name"])
        if len(called) == 1:
            raise error

    registration = HandlerRegistration(cache.ResourceEventHandlerFuncs(fail_first), "watcher")
    for name in ("a", "b"):
        registration.notify(store.add(pod_at(name))[0])
    registration.start()
    all_delivered(registration)
    registration.stop()

    assert called == ["a", "b"]
    assert registration.last_error is error
    assert caplog.messages == ["Handler watcher failed on ADDED default/a"]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error
