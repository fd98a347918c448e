"""Upstream's tests of the reflector, and every way in which the official informer fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_kwait import wait
from pytest_kwait.cache import Reflector, VeryShortWatchError
from pytest_kwait.cache.collection_watch import WATCH_INACTIVITY
from pytest_kwait.cache.listwatch import SHARED_WATCHES
from pytest_kwait.client.watch import Watch
from pytest_kwait.clock import Deadline
from tests.cache.fakes import (
    Live,
    Script,
    bookmark,
    connection_refused,
    event,
    expired,
    listed,
    pod_at,
    pods_of,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.client.responses import Item, ObjectList, WatchEvent
    from pytest_kwait.errors import ApiError
    from pytest_kwait.testing import FakeClock


class Told:
    """A store that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def replace(self, items: Sequence[Item], resource_version: str) -> None:
        names = [item.object["metadata"]["name"] for item in items]
        self.calls.append(("replace", (names, resource_version)))

    def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
        self.calls.append(("add", obj["metadata"]["name"]))

    def update(self, obj: Mapping[str, Any], raw: bytes) -> None:
        self.calls.append(("update", obj["metadata"]["name"]))

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> None:
        self.calls.append(("delete", obj["metadata"]["name"]))

    def bookmark(self, resource_version: str) -> None:
        self.calls.append(("bookmark", resource_version))


def reflector_of(script: Script, store: Told | None = None, **options: Any) -> Reflector:
    """A reflector that stops when the script has no answer left."""
    options.setdefault("on_error", lambda error: None)
    reflector = Reflector(pods_of(script), store or Told(), **options)
    script.on_end = reflector.stop
    return reflector


def pauses(script: Script) -> list[float]:
    return [pause for pause in script.clock.pauses if pause > 0]


def in_steps(pause: float, least: float) -> bool:
    """Whether a pause is one of the backoff: jitter makes it longer, up to double."""
    return least <= pause <= 2 * least


def test_lists_then_watches_from_the_list() -> None:
    script, told = Script(), Told()
    script.lists.append(listed(pod_at("a"), pod_at("b"), version=10))
    script.watches.append(
        (
            event("ADDED", pod_at("c", 11)),
            event("MODIFIED", pod_at("a", 12)),
            event("DELETED", pod_at("b", 13)),
            bookmark(20),
        )
    )

    reflector = reflector_of(script, told)
    reflector.run()

    assert told.calls == [
        ("replace", (["a", "b"], "10")),
        ("add", "c"),
        ("update", "a"),
        ("delete", "b"),
        ("bookmark", "20"),
    ]
    assert [(call.verb, call.resource_version) for call in script.calls] == [
        ("list", ""),
        ("watch", "10"),
        ("watch", "20"),  # after a clean end it goes on where it was, without a list
    ]
    assert reflector.last_sync_resource_version == "20"
    assert reflector.last_error is None
    assert pauses(script) == []


def test_a_list_of_a_part_precedes_the_watch_of_the_whole() -> None:
    script, told = Script(), Told()
    script.watches.append((event("ADDED", pod_at("c", 11)),))
    limits: list[float] = []

    def list_part(deadline: Deadline) -> ObjectList:
        limits.append(deadline.remaining)
        return listed(pod_at("a"), version=10)

    reflector = reflector_of(script, told, send_list=list_part, list_timeout=11.0)
    reflector.run()

    assert told.calls == [("replace", (["a"], "10")), ("add", "c")]
    assert [(call.verb, call.resource_version) for call in script.calls] == [
        ("watch", "10"),
        ("watch", "11"),
    ]
    assert limits == [11.0]


def test_a_refreshed_reflector_lists_again() -> None:
    script, told = Script(), Told()
    script.lists += [listed(pod_at("a"), version=10), listed(pod_at("b"), version=12)]
    reflector = reflector_of(script, told)
    script.watches.append((reflector.refresh,))
    reflector.run()
    assert [call.verb for call in script.calls] == ["list", "watch", "list", "watch"]
    assert [names for _, (names, _) in told.calls] == [["a"], ["b"]]


def test_asks_for_what_the_list_watch_names() -> None:
    class Trimmed:
        """Stands for a TypedDict."""

    script = Script()
    script.lists.append(listed())
    narrowed = pods_of(
        script, "ci", label_selector={"app": "web"}, field_selector="spec.nodeName=n"
    )
    reflector = Reflector(narrowed.with_type(Trimmed), Told(), inactivity=7.0, list_timeout=11.0)
    script.on_end = reflector.stop

    reflector.run()

    [asked, watched] = script.calls
    for call in (asked, watched):
        assert call.arguments["namespace"] == "ci"
        assert call.arguments["labels"] == {"app": "web"}
        assert call.arguments["fields"] == "spec.nodeName=n"
        assert call.arguments["type"] is Trimmed
    assert watched.arguments["inactivity"] == 7.0
    assert asked.deadline is not None
    assert asked.deadline.remaining == 11.0
    assert reflector.name == "pods in namespace ci with labels app=web and fields spec.nodeName=n"


def test_watch_times_out_on_the_server_between_five_and_ten_minutes_and_here_soon_after() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.extend([(2.0,)] * 30)

    reflector_of(script).run()

    watches = [call for call in script.calls if call.verb == "watch"]
    timeouts = [call.arguments["timeout_seconds"] for call in watches]
    assert all(300 <= timeout < 600 for timeout in timeouts)
    assert len(set(timeouts)) > 10
    for call, timeout in zip(watches, timeouts, strict=True):
        assert call.deadline is not None
        assert call.deadline.at == call.at + timeout + 30.0


def test_watch_that_reaches_its_own_limit_goes_on_where_it_was() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append((400.0, wait.DeadlineExceeded("over")))  # type: ignore[arg-type] # raised like an ApiError

    reflector = reflector_of(script)
    reflector.run()

    assert script.verbs == ["list", "watch", "watch"]
    assert reflector.last_error is None
    assert pauses(script) == []


@pytest.mark.parametrize("gone", [expired(), refused(410, "Gone", "gone")])
def test_410_lists_at_once(gone: ApiError) -> None:
    script = Script()
    script.lists.extend([listed(version=10), listed(version=50)])
    script.watches.extend([(5.0, gone), (bookmark(60), 5.0)])

    reflector_of(script).run()

    assert [(call.verb, call.resource_version) for call in script.calls] == [
        ("list", ""),
        ("watch", "10"),
        ("list", ""),
        ("watch", "50"),
        ("watch", "60"),
    ]
    assert pauses(script) == []


def test_410_again_and_again_backs_off() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append((expired(),))
    script.repeat = True

    with pytest.raises(wait.DeadlineExceeded):
        reflector_of(script).run(Deadline.after(60.0, script.clock))

    assert script.calls[2].at == 0.0  # the first time at once
    assert in_steps(script.calls[4].at, 0.8)
    assert script.verbs.count("list") < 10


def test_410_after_progress_is_a_first_one_again() -> None:
    script = Script()
    script.lists.extend([listed(), listed(), listed(), listed()])
    script.watches.extend([(expired(),), (bookmark(11), expired()), (bookmark(12), expired())])

    reflector_of(script).run()

    assert script.verbs == ["list", "watch"] * 4
    assert pauses(script) == []


@pytest.mark.parametrize(
    "error", [connection_refused(), refused(429, "TooManyRequests", "too many")]
)
def test_busy_or_restarting_server_is_watched_again_later_without_a_list(error: ApiError) -> None:
    script = Script()
    script.lists.append(listed(version=10))
    script.watches.extend([(bookmark(15), error), (error,), (error,), (bookmark(16), 3.0)])

    reflector_of(script).run()

    assert [(call.verb, call.resource_version) for call in script.calls] == [
        ("list", ""),
        ("watch", "10"),
        ("watch", "15"),
        ("watch", "15"),
        ("watch", "15"),
        ("watch", "16"),
    ]
    for pause, least in zip(pauses(script), (0.8, 1.6, 3.2), strict=True):
        assert in_steps(pause, least)


def test_retry_after_makes_the_pause_longer() -> None:
    script = Script()
    busy = refused(429, "TooManyRequests", "too many")
    busy.retry_after = 17.0
    script.lists.append(listed())
    script.watches.extend([(busy,)])

    reflector_of(script).run()

    assert pauses(script) == [17.0]


def test_connection_lost_after_a_while_goes_on_where_it_was_at_once() -> None:
    script = Script()
    script.lists.append(listed(version=10))
    reset = refused(0, "ConnectionReset", "reset by peer")
    silent = refused(0, "WatchInactive", "nothing came for 150s")
    script.watches.extend([(event("ADDED", pod_at("a", 12)), reset), (150.0, silent)])
    errors: list[Exception] = []

    reflector_of(script, on_error=errors.append).run()

    assert [(call.verb, call.resource_version) for call in script.calls] == [
        ("list", ""),
        ("watch", "10"),
        ("watch", "12"),
        ("watch", "12"),
    ]
    assert pauses(script) == []
    assert errors == [reset, silent]


def test_connection_lost_at_once_backs_off_and_lists() -> None:
    script = Script()
    script.lists.extend([listed(), listed()])
    script.watches.extend([(refused(0, "ConnectionReset", "reset by peer"),)])

    reflector_of(script).run()

    assert script.verbs == ["list", "watch", "list", "watch"]
    [pause] = pauses(script)
    assert in_steps(pause, 0.8)


def test_clean_end_without_event_within_a_second_backs_off_and_lists() -> None:
    script = Script()
    script.lists.extend([listed(), listed()])
    script.watches.extend([(0.25,), (bookmark(11),)])
    errors: list[Exception] = []

    reflector_of(script, on_error=errors.append).run()

    assert script.verbs == ["list", "watch", "list", "watch", "watch"]
    [pause] = pauses(script)
    assert in_steps(pause, 0.8)
    [error] = errors
    assert isinstance(error, VeryShortWatchError)
    assert str(error) == "the watch of pods ended after 0.250 s without any event"


def test_clean_end_after_a_second_is_none_of_them() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.extend([(1.0,), (1.0,)])

    reflector_of(script).run()

    assert script.verbs == ["list", "watch", "watch", "watch"]
    assert pauses(script) == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((refused(403),), id="403"),
        pytest.param((refused(500, "InternalError", "boom"),), id="500"),
        pytest.param((refused(503, "ServiceUnavailable", "later"),), id="503"),
        pytest.param((refused(200, "NotJSON", "expected an event"),), id="undecodable"),
        pytest.param((), id="clean close"),
        pytest.param((expired(),), id="410 line"),
        pytest.param((connection_refused(),), id="refused"),
        pytest.param((refused(429, "TooManyRequests", "too many"),), id="429"),
    ],
)
def test_broken_watch_costs_less_than_a_request_per_second(answer: tuple[ApiError, ...]) -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append(answer)
    script.repeat = True

    with pytest.raises(wait.DeadlineExceeded):
        reflector_of(script).run(Deadline.after(600.0, script.clock))

    assert 20 < len(script.calls) < 120  # two for each pause, of up to a minute


@pytest.mark.parametrize("error", [refused(), connection_refused(), expired()])
def test_broken_list_backs_off(error: ApiError) -> None:
    script = Script()
    script.lists.append(error)
    script.repeat = True

    reflector = reflector_of(script)
    with pytest.raises(wait.DeadlineExceeded):
        reflector.run(Deadline.after(600.0, script.clock))

    assert set(script.verbs) == {"list"}
    assert len(script.calls) < 60
    assert reflector.last_error is error
    assert reflector.failures_in_row == len(script.calls)


def test_pauses_double_up_to_the_cap_and_reset_after_two_minutes() -> None:
    script = Script()
    script.lists.append(refused())
    script.repeat = True
    even = wait.Backoff(duration=0.8, factor=2.0, jitter=0.0, steps=38, cap=30.0)

    with pytest.raises(wait.DeadlineExceeded):
        reflector_of(script, backoff=even).run(Deadline.after(200.0, script.clock))

    assert [round(pause, 6) for pause in pauses(script)[:10]] == [
        *(0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0),
        0.8,
    ]


def test_list_that_takes_too_long_is_a_failure() -> None:
    script = Script()
    slow = wait.DeadlineExceeded("GET /api/v1/pods: no complete answer within 60s")
    script.lists.extend([slow, listed()])
    errors: list[Exception] = []

    reflector_of(script, on_error=errors.append).run()

    assert script.verbs == ["list", "list", "watch"]
    assert errors == [slow]


def test_last_error_is_there_until_things_go_well() -> None:
    script = Script()
    forbidden, broken = refused(), refused(500, "InternalError", "boom")
    script.lists.extend([forbidden, listed(), listed()])
    seen: list[Exception | None] = []
    script.watches.extend([(broken,), (lambda: see(), bookmark(11), lambda: see())])
    reflector = reflector_of(script, on_error=lambda error: seen.append(error))

    def see() -> None:
        seen.append(reflector.last_error)

    reflector.run()

    assert seen == [forbidden, broken, None, None]
    assert reflector.failures_in_row == 0


def test_relist_interval_lists_though_the_watch_is_fine() -> None:
    script = Script()
    script.lists.extend([listed(version=10), listed(version=90)])
    over = wait.DeadlineExceeded("over")
    script.watches.extend([(bookmark(20), 30.0), (30.0, over)])  # type: ignore[list-item] # raised like an ApiError

    reflector_of(script, relist_interval=60.0).run()

    assert [(call.verb, call.at) for call in script.calls] == [
        ("list", 0.0),
        ("watch", 0.0),
        ("watch", 30.0),
        ("list", 60.0),
        ("watch", 60.0),
    ]
    limits = [call.deadline.at for call in script.calls if call.verb == "watch" and call.deadline]
    assert limits == [60.0, 60.0, 120.0]


def test_deadline_limits_every_request_and_ends_the_run() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append((9.0,))
    script.repeat = True

    with pytest.raises(wait.DeadlineExceeded):
        reflector_of(script).run(Deadline.after(20.0, script.clock))

    assert [call.deadline.at for call in script.calls if call.deadline] == [20.0] * 4


def test_stop_from_the_store_ends_the_run_after_that_event() -> None:
    script = Script()
    script.lists.append(listed())
    script.watches.append((event("ADDED", pod_at("a", 11)), event("ADDED", pod_at("b", 12))))

    class Once(Told):
        def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
            super().add(obj, raw)
            reflector.stop()

    told = Once()
    reflector = reflector_of(script, told)
    reflector.run()

    assert told.calls[1:] == [("add", "a")]
    assert script.verbs == ["list", "watch"]
    assert reflector.stopped


def test_events_that_arrive_together_are_one_batch() -> None:
    told = Told()
    reflector = reflector_of(Script(), told, on_batch=lambda: told.calls.append(("batch", None)))
    reflector.on_events([event("ADDED", pod_at("a", 11)), event("DELETED", pod_at("b", 12))])
    reflector.on_events([event("MODIFIED", pod_at("a", 13))])

    batch = ("batch", None)
    assert told.calls == [("add", "a"), ("delete", "b"), batch, ("update", "a"), batch]


def test_stop_from_the_store_ends_a_batch() -> None:
    class Once(Told):
        def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
            super().add(obj, raw)
            reflector.stop()

    told = Once()
    reflector = reflector_of(Script(), told)
    reflector.on_events([event("ADDED", pod_at("a", 11)), event("ADDED", pod_at("b", 12))])

    assert told.calls == [("add", "a")]


class Arriving(Watch):
    """A watch of single events, after pauses.

    Args:
        pauses: the seconds before each event.
    """

    def __init__(self, clock: FakeClock, pauses: Sequence[float]) -> None:
        self._ended = True
        self._clock = clock
        self._pauses = list(pauses)
        self.drains: list[bool] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, *, drain: bool = True) -> list[WatchEvent]:
        self.drains.append(drain)
        if not self._pauses:
            return []
        self._clock.sleep(self._pauses.pop(0))
        return [event("ADDED", pod_at("a", 10 + len(self.drains)))]


def test_all_that_has_arrived_is_read_after_an_event_that_was_there() -> None:
    script = Script()
    script.lists.append(listed())
    stream = Arriving(script.clock, [0.2, 0.0, 0.0, 0.2])
    told = Told()
    reflector = reflector_of(script, told)

    def watch(*_: Any, **__: Any) -> Arriving:
        if stream.drains:
            reflector.stop()
        return stream

    script.watch = watch  # type: ignore[method-assign, assignment]
    reflector.run()

    assert told.calls[1:] == [("add", "a")] * 4
    assert stream.drains == [False, False, True, True, False]


def test_stopped_before_it_runs_it_asks_nothing() -> None:
    script = Script()
    reflector = reflector_of(script)
    reflector.stop()

    reflector.run()

    assert script.calls == []


def test_stop_while_the_watch_is_being_opened_closes_it() -> None:
    live = Live()
    opened: list[Any] = []

    class StopsMeanwhile(Live):
        def watch(self, *args: Any, **kwargs: Any) -> Any:
            reflector.stop()
            opened.append(live.watch(*args, **kwargs))
            return opened[0]

    reflector = Reflector(pods_of(StopsMeanwhile()), Told())
    reflector.run()

    assert opened[0].closed.is_set()


def test_stop_during_the_list_drops_its_answer() -> None:
    class StopsMeanwhile(Script):
        def list(self, *args: Any, **kwargs: Any) -> Any:
            reflector.stop()
            return super().list(*args, **kwargs)

    script, told = StopsMeanwhile(), Told()
    script.lists.append(listed(pod_at("a")))
    reflector = reflector_of(script, told)
    reflector.run()

    assert told.calls == []
    assert script.verbs == ["list"]


@pytest.mark.parametrize("culprit", ["store", "on_error"])
def test_exceptions_of_store_and_error_handler_end_the_run(culprit: str) -> None:
    class EnoughError(Exception):
        pass

    class Raises(Told):
        def bookmark(self, resource_version: str) -> None:
            raise EnoughError

    def give_up(error: Exception) -> None:
        raise EnoughError from error

    script = Script()
    script.lists.append(listed())
    script.watches.append((bookmark(11),) if culprit == "store" else (refused(),))

    with pytest.raises(EnoughError):
        reflector_of(script, Raises(), on_error=give_up).run()


def test_unknown_event_is_reported_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    script, told = Script(), Told()
    script.lists.append(listed())
    script.watches.append((event("RENAMED", pod_at("a", 11)), event("ADDED", pod_at("b", 12))))

    reflector_of(script, told).run()

    assert told.calls[1:] == [("add", "b")]
    assert caplog.messages == ["Unknown event 'RENAMED' while watching pods"]


def test_failures_are_logged_without_an_error_handler(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    script.lists.extend([refused(), listed(), listed()])
    script.watches.extend([(expired(),), (refused(500, "InternalError", "boom"),)])

    with caplog.at_level(logging.INFO, "pytest_kwait.cache"):
        reflector_of(script, on_error=None).run()

    assert caplog.messages == [
        "Failed to list pods: GET /api/v1/pods: 403 Forbidden: no pods for you",
        "Failed to watch pods: GET /api/v1/pods: 500 InternalError: boom",
    ]


def test_a_watch_is_lost_after_as_long_a_silence_as_that_of_a_wait() -> None:
    """Half a minute longer than the servers' bookmarks are apart."""
    script = Script()
    script.lists.append(listed())
    reflector = Reflector(pods_of(script), Told())
    script.on_end = reflector.stop
    reflector.run()

    assert script.calls[1].arguments["inactivity"] == WATCH_INACTIVITY == 90.0


def test_a_half_open_watch_is_opened_again_where_it_was_once_it_is_noticed() -> None:
    script, told = Script(), list[Exception]()
    silent = refused(0, "WatchInactive", "nothing came for 90s")
    script.lists.append(listed(pod_at("a", 1), version=10))
    script.watches.extend(
        [(bookmark(20), 90.0, silent), (event("ADDED", pod_at("b", 21)), 90.0, silent), ()]
    )
    store = Told()
    reflector = Reflector(pods_of(script), store, on_error=told.append)
    script.on_end = reflector.stop
    reflector.run()

    assert [(call.verb, call.at, call.resource_version) for call in script.calls[:3]] == [
        ("list", 0.0, ""),
        ("watch", 0.0, "10"),
        ("watch", 90.0, "20"),
    ]
    assert told[:2] == [silent, silent]


@pytest.mark.parametrize("publishes", [True, False])
def test_a_watch_is_shared_or_kept_to_itself(publishes: bool) -> None:
    script = Script()
    script.lists.append(listed(version=10))
    script.watches.append((event("ADDED", pod_at("a", 11)),))
    pods = pods_of(script)
    followed: list[bool] = []

    class Following(Told):
        def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
            follower = SHARED_WATCHES.follow(
                script, pods.collection, "10", deadline=Deadline.after(1, script.clock), shape=None
            )
            followed.append(follower is not None)

    reflector = reflector_of(script, Following(), publishes=publishes)
    reflector.run()
    assert followed == [publishes]
