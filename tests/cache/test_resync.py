"""Upstream's tests of resync periods, TestListenerResyncPeriods among them, and more."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, Live, event, pod_at, pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Heard:
    """A handler that counts its updates and can be awaited."""

    def __init__(self) -> None:
        self.updates: list[str] = []
        self._called = threading.Condition()

    def on_add(self, obj: dict[str, Any], is_in_initial_list: bool) -> None: ...

    def on_update(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        versions = [each["metadata"]["resourceVersion"] for each in (old, new)]
        with self._called:
            self.updates.append(f"{new['metadata']['name']} {'->'.join(versions)}")
            self._called.notify_all()

    def on_delete(self, obj: dict[str, Any]) -> None: ...

    def take(self, count: int) -> list[str]:
        with self._called:
            assert self._called.wait_for(lambda: len(self.updates) >= count, PATIENCE)
            taken, self.updates = self.updates, []
            return taken


@pytest.fixture
def live() -> Live:
    return Live(pod_at("pod1", 1), pod_at("pod2", 2), clock=FakeClock(auto=False))


@pytest.fixture
def informer(live: Live) -> Iterator[cache.SharedInformer]:
    informer = cache.SharedInformer(pods_of(live), resync=3600)
    yield informer
    informer.stop()
    assert informer.join(PATIENCE)
    assert informer._resync._worker.join(PATIENCE)


ALL = ["pod1 1->1", "pod2 2->2"]


def test_each_handler_resyncs_at_its_own_period(live: Live, informer: cache.SharedInformer) -> None:
    never, two, three = Heard(), Heard(), Heard()
    for heard, period in ((never, 0), (two, 2), (three, "3s")):
        informer.add_event_handler(heard, resync=period)
    informer.start()
    assert informer.done.wait(PATIENCE)
    live.clock.until_blocked()

    live.clock.advance(2)
    assert two.take(2) == ALL
    assert (never.updates, three.updates) == ([], [])
    live.clock.until_blocked()
    live.clock.advance(1)
    assert three.take(2) == ALL
    assert (never.updates, two.updates) == ([], [])
    live.clock.until_blocked()
    live.clock.advance(3)
    assert (two.take(2), three.take(2)) == (ALL, ALL)
    assert never.updates == []


def test_a_late_handler_gets_the_period_it_asks_for(
    live: Live, informer: cache.SharedInformer
) -> None:
    informer.add_event_handler(Heard())
    informer.start()
    assert informer.done.wait(PATIENCE)
    live.clock.until_blocked()
    late = Heard()
    informer.add_event_handler(late, resync=5)
    while live.clock.pauses[-1] != 5.0:
        live.clock.until_blocked()

    live.clock.advance(5)
    assert late.take(2) == ALL


def test_the_informers_period_is_that_of_handlers_without_one(
    live: Live, informer: cache.SharedInformer
) -> None:
    heard = Heard()
    informer.add_event_handler(heard)
    informer.start()
    assert informer.done.wait(PATIENCE)
    live.clock.until_blocked()
    live.clock.advance(3600)
    assert heard.take(2) == ALL


def test_resync_sends_the_present_state_of_the_store(
    live: Live, informer: cache.SharedInformer
) -> None:
    heard = Heard()
    informer.add_event_handler(heard, resync=2)
    informer.start()
    live.next_watch().put(event("MODIFIED", pod_at("pod1", 11)))
    assert heard.take(1) == ["pod1 1->11"]
    live.clock.until_blocked()
    live.clock.advance(2)
    assert heard.take(2) == ["pod1 11->11", "pod2 2->2"]


def test_resync_waits_for_the_first_list(live: Live, informer: cache.SharedInformer) -> None:
    heard = Heard()
    live.list_gate.clear()
    registration = informer.add_event_handler(heard, resync=2)
    informer.start()
    assert live.listing.wait(PATIENCE)
    live.clock.until_blocked()
    pauses = live.clock.pauses.count(2.0)
    live.clock.advance(2)
    while live.clock.pauses.count(2.0) == pauses:  # until the period's end has been handled
        live.clock.until_blocked()
    live.list_gate.set()
    assert registration.done.wait(PATIENCE)
    assert heard.updates == []


def test_removed_handler_is_not_resynced(live: Live, informer: cache.SharedInformer) -> None:
    gone, there = Heard(), Heard()
    registration = informer.add_event_handler(gone, resync=2)
    informer.add_event_handler(there, resync=2)
    informer.start()
    assert informer.done.wait(PATIENCE)
    live.clock.until_blocked()
    informer.remove_event_handler(registration)
    live.clock.advance(2)
    assert there.take(2) == ALL
    assert gone.updates == []


def test_without_a_period_there_is_no_thread(live: Live) -> None:
    informer = cache.SharedInformer(pods_of(live))
    informer.add_event_handler(Heard())
    informer.start()
    assert informer.done.wait(PATIENCE)
    assert not informer._resync._worker.is_started
    informer.stop()


def test_less_than_a_second_is_a_second(caplog: pytest.LogCaptureFixture, live: Live) -> None:
    informer = cache.SharedInformer(pods_of(live))
    with caplog.at_level(logging.WARNING, "pytest_kwait.cache"):
        informer.add_event_handler(Heard(), resync="500ms", name="mine")
    assert caplog.messages == ["The resync period of mine of pods, 500ms, is too short: it is 1s"]
    assert list(informer._resync._periods.values()) == [1.0]


def test_a_negative_period_is_refused(live: Live) -> None:
    informer = cache.SharedInformer(pods_of(live))
    with pytest.raises(InvalidArgument, match=r"^resync=-1 is not valid"):
        informer.add_event_handler(Heard(), resync=-1)
    with pytest.raises(InvalidArgument, match=r"^resync='often' is not valid"):
        cache.SharedInformer(pods_of(live), resync="often")
