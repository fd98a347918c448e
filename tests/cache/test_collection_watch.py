"""List and watch of one collection, by the outcomes it reports and the next steps it is given."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.cache.collection_watch import (
    CollectionWatch,
    CollectionWatches,
    Outcome,
    Recovery,
    VeryShortWatchError,
)
from pytest_kwait.clock import Deadline
from tests.cache.fakes import (
    PATIENCE,
    Live,
    Script,
    event,
    expired,
    listed,
    pod_at,
    pods_of,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.client.responses import Item, WatchEvent


class RecordingSubscriber:
    """A subscriber that records its calls, and raises when it gets the object `poison`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_list(self, items: Sequence[Item], resource_version: str, requested_at: float) -> None:
        names = [item.object["metadata"]["name"] for item in items]
        self.calls.append(f"list {names} @{resource_version}")

    def on_events(self, events: Sequence[WatchEvent]) -> None:
        for each in events:
            name = each.object["metadata"]["name"]
            if name == "poison":
                raise LookupError(name)
            self.calls.append(f"{each.type} {name}")

    def on_error(self, verb: str, error: Exception) -> None:
        self.calls.append(f"{verb}: {error}")

    def on_end(self, error: BaseException) -> None:
        self.calls.append(f"end: {error!r}")


class Watching:
    """A collection watch of a script, stopped when the script has no answer left."""

    def __init__(
        self, script: Script, decide: Callable[[Outcome], Recovery] | None = None, **options: Any
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._decide = decide or (lambda outcome: Recovery(relist=outcome.error is not None))
        lister_watcher = pods_of(script)
        options.setdefault("min_watch_timeout", 300.0)
        self.watch = CollectionWatch(
            lister_watcher, send_list=lister_watcher.list, decide=self._record, **options
        )
        script.on_end = self.watch.stop

    def _record(self, outcome: Outcome) -> Recovery:
        self.outcomes.append(outcome)
        return self._decide(outcome)

    def subscribe(self) -> RecordingSubscriber:
        recorder = RecordingSubscriber()
        deadline = Deadline.after(1000.0, self.watch.lister_watcher.clock)
        assert self.watch.subscribe(recorder, deadline) is not None
        return recorder


def test_every_subscriber_gets_the_list_and_all_events() -> None:
    script = Script()
    script.lists.append(listed(pod_at("a"), version=10))
    script.watches.append((event("ADDED", pod_at("b", 11)), event("DELETED", pod_at("a", 12))))
    watching = Watching(script)
    recorders = [watching.subscribe(), watching.subscribe()]
    watching.watch.run()

    for recorder in recorders:
        assert recorder.calls == ["list ['a'] @10", "ADDED b", "DELETED a"]
    assert watching.watch.resource_version == "12"


def test_outcomes_tell_short_watches_and_their_events() -> None:
    script = Script()
    error = refused(0, "ConnectionReset", "reset by peer")
    script.lists.extend([listed(version=10), listed(version=20), listed(version=30)])
    script.watches.extend(
        [
            (5.0,),
            (event("ADDED", pod_at("a", 11)),),
            (event("ADDED", pod_at("b", 12)), error),
            (0.5,),
        ]
    )
    watching = Watching(script)
    watching.watch.run()

    outcomes = [(each.verb, each.is_short, each.events) for each in watching.outcomes]
    assert outcomes == [
        ("list", False, 0),
        ("watch", False, 0),
        ("watch", True, 1),
        ("watch", True, 1),
        ("list", False, 0),
        ("watch", True, 0),
        ("list", False, 0),
    ]
    assert [each.error for each in watching.outcomes[:5]] == [None, None, None, error, None]
    short = watching.outcomes[5].error
    assert isinstance(short, VeryShortWatchError)
    assert str(short) == "the watch of pods ended after 0.500 s without any event"


def test_next_step_is_that_of_the_policy() -> None:
    script = Script()
    script.lists.extend([listed(version=10), listed(version=20)])
    script.watches.extend([(5.0, expired()), (5.0, expired())])
    steps = [Recovery(), Recovery(pause=7.0), Recovery(relist=True, pause=9.0), Recovery()]
    watching = Watching(script, lambda _: steps.pop(0))
    watching.watch.run()

    assert [(call.verb, call.at, call.resource_version) for call in script.calls] == [
        ("list", 0.0, ""),
        ("watch", 0.0, "10"),
        ("watch", 12.0, "10"),
        ("list", 26.0, ""),
        ("watch", 26.0, "20"),
    ]


def test_error_of_the_policy_ends_it_for_all_subscribers() -> None:
    script = Script()
    script.lists.append(refused())

    def decide(outcome: Outcome) -> Recovery:
        assert outcome.error is not None
        raise outcome.error

    watching = Watching(script, decide)
    recorders = [watching.subscribe(), watching.subscribe()]
    watching.watch.run()

    for recorder in recorders:
        assert recorder.calls == [f"end: {refused()!r}"]
    assert watching.watch.stopped


def test_error_of_a_subscriber_ends_it_for_all_subscribers() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append((event("ADDED", pod_at("poison", 11)),))
    watching = Watching(script)
    recorders = [watching.subscribe(), watching.subscribe()]
    watching.watch.run()

    for recorder in recorders:
        assert recorder.calls == ["list [] @10", "end: LookupError('poison')"]


def test_errors_that_are_retried_reach_all_subscribers() -> None:
    script = Script()
    script.lists.extend([refused(503, "ServiceUnavailable", "later"), listed()])
    watching = Watching(script)
    recorder = watching.subscribe()
    watching.watch.run()

    assert recorder.calls == [
        "list: GET /api/v1/pods: 503 ServiceUnavailable: later",
        "list [] @10",
    ]


def test_watch_without_minimum_ends_when_the_next_list_is_due() -> None:
    script = Script()
    script.lists.extend([listed(version=10), listed(version=20)])
    script.watches.extend([(200.0,), (100.0,)])
    watching = Watching(script, min_watch_timeout=None, relist_interval=300.0)
    watching.watch.run()

    calls = [
        (call.verb, call.at, call.arguments.get("timeout_seconds")) for call in script.calls[:5]
    ]
    assert calls == [
        ("list", 0.0, None),
        ("watch", 0.0, 300),
        ("watch", 200.0, 100),
        ("list", 300.0, None),
        ("watch", 300.0, 300),
    ]
    limits = [call.deadline.at for call in script.calls[1:3] if call.deadline is not None]
    assert limits == [305.0, 305.0]


def test_lists_are_limited_by_the_latest_deadline_of_the_subscribers() -> None:
    script = Script()
    watching = Watching(script)
    for seconds in (5.0, 20.0):
        watching.watch.subscribe(RecordingSubscriber(), Deadline.after(seconds, script.clock))
    watching.watch.run(Deadline.after(600.0, script.clock))

    assert script.calls[0].deadline is not None
    assert script.calls[0].deadline.at == 20.0


def test_stopped_and_failing_ones_take_no_subscriber() -> None:
    script = Script()
    script.lists.extend([refused(), listed()])
    late: list[object] = []

    def decide(outcome: Outcome) -> Recovery:
        late.append(
            watching.watch.subscribe(RecordingSubscriber(), Deadline.after(9.0, script.clock))
        )
        return Recovery(relist=outcome.error is not None)

    watching = Watching(script, decide)
    watching.watch.run()

    assert late[0] is None
    assert watching.watch.stopped
    assert (
        watching.watch.subscribe(RecordingSubscriber(), Deadline.after(9.0, script.clock)) is None
    )


@pytest.mark.parametrize("last", [False, True])
def test_leaving_ends_it_only_with_the_last_subscription(last: bool) -> None:
    script = Script()
    watching = Watching(script)
    deadline = Deadline.after(9.0, script.clock)
    first = watching.watch.subscribe(RecordingSubscriber(), deadline)
    assert first is not None
    if not last:
        watching.subscribe()

    assert first.close_if_shared() is not last
    assert not watching.watch.stopped
    first.close()
    assert watching.watch.stopped is last


def test_shared_ones_are_made_once_and_end_with_their_last_subscription() -> None:
    live, here = Live(pod_at("a")), CollectionWatches()
    made: list[CollectionWatch] = []

    def make(lister_watcher: Any) -> CollectionWatch:
        made.append(
            CollectionWatch(
                lister_watcher,
                send_list=lister_watcher.list,
                decide=lambda _: Recovery(),
                min_watch_timeout=300.0,
            )
        )
        return made[-1]

    deadline = Deadline.after(None, live.clock)
    recorders = [RecordingSubscriber(), RecordingSubscriber()]
    subscriptions = [
        here.subscribe(pods_of(live, "ci"), make, recorder, deadline) for recorder in recorders
    ]
    other = here.subscribe(pods_of(live, "other"), make, RecordingSubscriber(), deadline)
    assert len(made) == len(here.open) == 2
    for subscription in (*subscriptions, other):
        subscription.close()
    assert all(each.stopped for each in made)
    for thread in threading.enumerate():
        if thread.name == "kwait-watch-pods":
            thread.join(PATIENCE)
    assert here.open == {}
