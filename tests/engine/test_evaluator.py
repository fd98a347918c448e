"""Batched events: each is evaluated, and only the last reason is formatted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import JOBS, PODS
from pytest_kwait.client.responses import Item, WatchEvent
from pytest_kwait.clock import Deadline
from pytest_kwait.engine import waiter
from pytest_kwait.engine.condition import LazyPending, Pending
from pytest_kwait.engine.evaluator import Evaluator
from pytest_kwait.engine.object_sinks import ObjectCounter
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.retry import ErrorLog
from pytest_kwait.engine.waiter import SourceSubscriber, WatchMode, wait_for_condition
from pytest_kwait.framework.job.wait import wait_for_job_pods_running
from pytest_kwait.framework.objects.wait import general_condition
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.objects import created_job, job_pod

if TYPE_CHECKING:
    from collections.abc import Callable

RAW = b"{}"


class Unheard:
    """A share in a stream that says nothing."""

    def close(self) -> None:
        pass

    def close_if_shared(self) -> bool:
        return True


class Told:
    """A wait for Running pods of a job, told of its changes by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        monkeypatch.setattr(waiter, "subscribe", lambda *_: Unheard())
        session = FakeSession()
        condition = condition_of(wait_for_job_pods_running)("ci-1", "sleepers", count)
        self.evaluator = Evaluator(condition, WaitSettings(timeout=60.0), session.clock)
        deadline = Deadline.after(60.0, session.clock)
        self.mode = WatchMode(session, self.evaluator, deadline, ErrorLog(session.clock))
        self.mode._follow_sources()
        made = created_job(spec={"parallelism": count, "completions": count})
        for resource, items in ((JOBS, [Item(made, RAW)]), (PODS, [])):
            (source,) = (each for each in condition.sources() if each.resource is resource)
            self.pods = SourceSubscriber(self.mode, source)
            self.pods.on_list(items, "1", 0.0)

    def change(self, *changes: tuple[str, dict[str, Any]]) -> list[str]:
        """Tell of changes that come together; return what is recorded of them."""
        recorded = self.evaluator.timeline.changes
        self.pods.on_events([WatchEvent(kind, obj, RAW) for kind, obj in changes])
        return [change.text for change in self.evaluator.timeline.first[recorded:]]


def test_result_of_a_batch_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 3)
    assert told.change(("ADDED", job_pod("a")), ("ADDED", job_pod("b", "Pending"))) == [
        "1 of 3 pods Running: 1 Running, 1 Pending"
    ]
    assert told.change(("MODIFIED", job_pod("b"))) == ["2 of 3 pods Running: 2 Running"]
    assert told.change() == []


def test_condition_met_within_a_batch_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 1)
    assert told.change(("ADDED", job_pod("a")), ("MODIFIED", job_pod("a", "Succeeded"))) == ["met"]
    assert told.mode._step()[0] is not None


def test_only_the_last_verdict_of_a_batch_is_formatted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(monkeypatch, 3)
    summed_up: list[ObjectCounter] = []
    summary = ObjectCounter.summary

    def counted(self: ObjectCounter) -> str:
        summed_up.append(self)
        return summary(self)

    monkeypatch.setattr(ObjectCounter, "summary", counted)
    told.change(*[("ADDED", job_pod(name, "Pending")) for name in "abcdefg"])
    assert len(summed_up) == 1


def test_a_change_after_the_last_verdict_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 3)
    other = told.mode._sources[0]
    told.pods._queue(told.mode.enter_event, WatchEvent("ADDED", job_pod("a"), RAW))
    told.mode._subscriptions.pop(other)
    SourceSubscriber(told.mode, other)._queue(
        told.mode.enter_event, WatchEvent("MODIFIED", created_job(), RAW)
    )
    assert told.change() == ["1 of 3 pods Running: 1 Running"]


def test_lazy_pending_equals_pending_with_the_same_reason() -> None:
    count = 1
    progress = LazyPending(lambda: f"{count} of 3")
    assert progress == Pending("1 of 3")
    assert Pending("1 of 3") == progress
    assert progress != Pending("2 of 3")
    assert hash(progress) == hash(Pending("1 of 3"))
    assert not progress.absent
    assert repr(progress) == "LazyPending(reason='1 of 3', absent=False)"
    count = 2
    assert progress.reason == "2 of 3"
    assert progress != "2 of 3"


@pytest.mark.parametrize(
    ("count", "skipped"), [(2, False), (11, False), (12, True)], ids=["few", "most", "more"]
)
def test_user_code_is_called_for_each_of_ten_changes(
    monkeypatch: pytest.MonkeyPatch, count: int, *, skipped: bool
) -> None:
    subscribers: list[SourceSubscriber] = []

    def read(call: Callable[..., None], *args: object) -> None:
        """Call a method in a thread of its own, as readers of watches do."""
        reader = threading.Thread(target=call, args=args)
        reader.start()
        reader.join()

    def take(
        _session: object, _source: object, subscriber: SourceSubscriber, *_: object
    ) -> Unheard:
        subscribers.append(subscriber)
        read(subscriber.on_list, [Item(job_pod("a", "0"), RAW)], "1", 0.0)
        return Unheard()

    seen: list[str] = []

    def is_first_change(pod: dict[str, Any]) -> bool:
        seen.append(pod["status"]["phase"])
        if len(seen) == 1:
            changes = [job_pod("a", str(number)) for number in range(1, count + 1)]
            events = [WatchEvent("MODIFIED", changed, RAW) for changed in changes]
            read(subscribers[0].on_events, events)
        return seen[-1] == str(count)

    monkeypatch.setattr(waiter, "subscribe", take)
    wait_for_condition(
        FakeSession(),
        general_condition("ci-1", "pod/a", is_first_change).on([PODS]),
        WaitSettings(timeout=60.0),
    )

    assert seen == [str(number) for number in range(count + 1) if not (skipped and number == 1)]
