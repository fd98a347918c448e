from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, Live, connection_refused, listed, pod_at, pods_of, refused

if TYPE_CHECKING:
    from collections.abc import Iterator


class Synced:
    """A `has_synced` that is true from the n-th call on; 0 for never."""

    def __init__(self, on_call: int = 1) -> None:
        self.on_call = on_call
        self.calls = 0

    def __call__(self) -> bool:
        self.calls += 1
        return 0 < self.on_call <= self.calls


class Informed:
    """What a wait sees of an informer."""

    def __init__(
        self,
        name: str,
        *,
        synced: bool = False,
        started: bool = True,
        last_error: ApiError | None = None,
        permanent: bool = False,
    ) -> None:
        self.name = name
        self.synced = synced
        self.started = started
        self.last_error = last_error
        self.permanent_error = last_error if permanent else None

    def has_synced(self) -> bool:
        return self.synced


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def never(clock: FakeClock) -> wait.Context:
    return wait.background(clock)


def test_signature_is_the_agreed_one() -> None:
    signature = inspect.signature(cache.wait_for_cache_sync)
    assert [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in signature.parameters.values()
    ] == [
        ("synced", inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.empty),
        ("name", inspect.Parameter.KEYWORD_ONLY, None),
        ("stop", inspect.Parameter.KEYWORD_ONLY, None),
        ("timeout", inspect.Parameter.KEYWORD_ONLY, None),
    ]


def test_nothing_to_wait_for_is_true() -> None:
    assert cache.wait_for_cache_sync() is True


def test_synced_caches_return_at_once(clock: FakeClock, never: wait.Context) -> None:
    assert cache.wait_for_cache_sync(Synced(), Synced(), stop=never) is True
    assert clock.pauses == []


def test_asks_every_100_ms_until_all_say_so_in_one_pass(
    clock: FakeClock, never: wait.Context
) -> None:
    slow, quick = Synced(4), Synced(1)

    assert cache.wait_for_cache_sync(slow, quick, stop=never)

    assert (slow.calls, quick.calls) == (4, 1)  # a pass ends with the first that is not
    assert clock.monotonic() == pytest.approx(0.3)
    assert pytest.approx([0.1] * 3) == clock.pauses


def test_stop_that_is_set_already_still_asks_once() -> None:
    stop = threading.Event()
    stop.set()
    synced, unsynced = Synced(), Synced(0)

    assert cache.wait_for_cache_sync(synced, stop=stop) is True
    assert cache.wait_for_cache_sync(unsynced, stop=stop) is False
    assert (synced.calls, unsynced.calls) == (1, 1)


def test_stop_ends_the_wait_at_once(clock: FakeClock) -> None:
    context, cancel = wait.with_cancel(wait.background(clock))
    clock.call_later(7.25, cancel)

    assert cache.wait_for_cache_sync(Synced(0), stop=context) is False
    assert clock.monotonic() == 7.25


def test_stop_by_a_context_that_runs_out_is_false(clock: FakeClock) -> None:
    context, _ = wait.with_timeout(wait.background(clock), 3.0)

    assert cache.wait_for_cache_sync(Synced(0), stop=context) is False


def test_time_out_names_those_that_are_not_synced(never: wait.Context) -> None:
    def my_cache_is_ready() -> bool:
        return False

    with pytest.raises(WaitTimeout) as caught:
        cache.wait_for_cache_sync(
            Informed("pods in namespace ci", last_error=connection_refused()),
            Informed("jobs.batch", synced=True),
            Informed("nodes", started=False),
            Informed("secrets").has_synced,
            my_cache_is_ready,
            stop=never,
            timeout="1m30s",
        )

    assert str(caught.value) == (
        "caches not synced after 1m30s: pods in namespace ci (last error: GET /api/v1/pods: "
        "ConnectionRefused: connection refused), nodes (not started), secrets, "
        "test_time_out_names_those_that_are_not_synced.<locals>.my_cache_is_ready"
    )
    assert isinstance(caught.value, TimeoutError)


def test_default_limit_is_that_of_a_pod_start(clock: FakeClock, never: wait.Context) -> None:
    with pytest.raises(WaitTimeout) as caught:
        cache.wait_for_cache_sync(Informed("pods"), stop=never)

    assert str(caught.value) == "caches not synced after 5m0s: pods"
    assert clock.monotonic() == cache.CACHE_SYNC_TIMEOUT == 300.0


def test_timeout_of_zero_asks_once(never: wait.Context) -> None:
    synced = Synced(2)

    with pytest.raises(WaitTimeout):
        cache.wait_for_cache_sync(synced, Synced(0), stop=never, timeout=0)
    assert cache.wait_for_cache_sync(Synced(1), stop=never, timeout=0)


def test_sync_at_the_last_moment_counts(never: wait.Context) -> None:
    assert cache.wait_for_cache_sync(Synced(2), stop=never, timeout=0.05)


def test_refused_list_ends_the_wait_at_once(clock: FakeClock, never: wait.Context) -> None:
    message = 'pods is forbidden: User "ci" cannot list resource "pods" in the namespace "x"'
    forbidden = refused(403, "Forbidden", message)

    with pytest.raises(WaitFailed) as caught:
        cache.wait_for_cache_sync(
            Synced(0),
            Informed("pods in namespace x", last_error=forbidden, permanent=True),
            stop=never,
        )

    assert str(caught.value) == (
        "the cache of pods in namespace x cannot sync: list failed: GET /api/v1/pods: "
        f"403 Forbidden: {message}"
    )
    assert caught.value.__cause__ is forbidden
    assert clock.pauses == []


def test_refused_watch_of_what_has_synced_is_no_failure(never: wait.Context) -> None:
    refused_later = Informed("pods", synced=True, last_error=refused(), permanent=True)

    assert cache.wait_for_cache_sync(Synced(3), refused_later, stop=never)


def test_exceptions_of_sync_functions_propagate() -> None:
    def fail() -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cache.wait_for_cache_sync(fail)


@pytest.mark.parametrize("wrong", [True, None, "pods", Informed, 3])
def test_argument_without_sync_state_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.wait_for_cache_sync(wrong)
    assert str(caught.value) == (
        f"synced={wrong!r} is not valid: an informer, an informer factory or a has_synced function"
    )


def cache_is_warm() -> Any:
    return None


def test_function_that_returns_no_bool_is_refused(never: wait.Context) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.wait_for_cache_sync(cache_is_warm, stop=never)
    assert str(caught.value) == (
        "result of has_synced of cache_is_warm=None is not valid: return True once done, False to "
        "be called again (a function without a return statement returns None)"
    )


def test_a_function_stops_the_wait() -> None:
    assert not cache.wait_for_cache_sync(lambda: False, stop=lambda: True)


def test_stop_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.wait_for_cache_sync(stop=5)  # type: ignore[arg-type] # the mistake that is tested
    assert str(caught.value) == (
        "stop=5 is not valid: use a threading.Event, a wait.Context, or a function without "
        "arguments"
    )


def test_bad_timeout_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^timeout='soon' is not valid: "):
        cache.wait_for_cache_sync(timeout="soon")


@pytest.mark.parametrize("form", ["argument", "function"])
def test_named_wait_logs_that_it_waits_and_that_it_is_done(
    form: str, never: wait.Context, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "pytest_kwait.cache"):
        if form == "argument":
            assert cache.wait_for_cache_sync(Synced(2), name="my-controller", stop=never)
        else:
            assert cache.wait_for_named_cache_sync("my-controller", Synced(2), stop=never)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", 'Waiting for caches to sync controller="my-controller"'),
        ("INFO", 'Caches are synced controller="my-controller"'),
    ]


@pytest.mark.parametrize(
    ("stopped", "informed", "error"),
    [
        (True, Informed("pods"), None),
        (False, Informed("pods"), WaitTimeout),
        (False, Informed("pods", last_error=refused(), permanent=True), WaitFailed),
    ],
    ids=["stopped", "timed out", "refused"],
)
def test_named_wait_logs_that_it_could_not(
    stopped: bool,
    informed: Informed,
    error: type[KwaitError] | None,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    context, cancel = wait.with_cancel(wait.background(clock))
    if stopped:
        cancel()

    with caplog.at_level("INFO", "pytest_kwait.cache"):
        if error is None:
            assert cache.wait_for_named_cache_sync("me", informed, stop=context) is False
        else:
            with pytest.raises(error):
                cache.wait_for_named_cache_sync("me", informed, stop=context, timeout=1)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", 'Waiting for caches to sync controller="me"'),
        ("ERROR", 'Unable to sync caches controller="me"'),
    ]


@pytest.fixture
def informers() -> Iterator[list[cache.SharedInformer]]:
    made: list[cache.SharedInformer] = []
    yield made
    for informer in made:
        informer.stop()
        assert informer.join(PATIENCE)


def test_real_informers_and_their_handlers_sync(informers: list[cache.SharedInformer]) -> None:
    informers += [cache.SharedInformer(pods_of(Live(pod_at("a")))) for _ in range(2)]
    heard: list[Any] = []
    handler = informers[0].add_event_handler(add=heard.append)
    for informer in informers:
        informer.start()
        assert informer.done.wait(PATIENCE)
    assert handler.done.wait(PATIENCE)

    assert cache.wait_for_cache_sync(informers[0], informers[1].has_synced, handler)
    assert len(heard) == 1


def test_real_informer_that_is_refused_fails_the_wait(
    informers: list[cache.SharedInformer],
) -> None:
    live, failed = Live(), threading.Event()
    live.answer = refused(404, "NotFound", "the server could not find the requested resource")
    informer = cache.SharedInformer(pods_of(live, "ci"), on_error=lambda error: failed.set())
    informers.append(informer)
    informer.start()
    assert failed.wait(PATIENCE)

    with pytest.raises(WaitFailed) as caught:
        cache.wait_for_cache_sync(informer)

    assert str(caught.value) == (
        "the cache of pods in namespace ci cannot sync: list failed: GET /api/v1/pods: "
        "404 NotFound: the server could not find the requested resource"
    )


def test_real_informer_that_is_not_started_is_said_so() -> None:
    live = Live(clock=FakeClock())
    live.answer = listed()

    with pytest.raises(WaitTimeout) as caught:
        cache.wait_for_cache_sync(cache.SharedInformer(pods_of(live)), timeout=2)

    assert str(caught.value) == "caches not synced after 2s: pods (not started)"


def test_an_informer_is_named_once_with_its_handlers_and_factory() -> None:
    live = Live(clock=FakeClock())
    live.answer = listed()
    informer, other = cache.SharedInformer(pods_of(live)), cache.SharedInformer(pods_of(live, "ci"))
    handlers = [informer.add_event_handler(add=print), informer.add_event_handler(name="mine")]
    alone = other.add_event_handler(add=print)

    with pytest.raises(WaitTimeout) as caught:
        cache.wait_for_cache_sync(informer, *handlers, informer.has_synced, alone, timeout=2)

    assert str(caught.value) == (
        "caches not synced after 2s: pods (not started), handler 1 of pods in namespace ci "
        "(not started)"
    )


def test_a_handler_of_a_refused_informer_fails_the_wait(
    informers: list[cache.SharedInformer],
) -> None:
    live, failed = Live(), threading.Event()
    live.answer = refused()
    informer = cache.SharedInformer(pods_of(live), on_error=lambda error: failed.set())
    informers.append(informer)
    handler = informer.add_event_handler(add=print)
    informer.start()
    assert failed.wait(PATIENCE)

    with pytest.raises(WaitFailed, match=r"^the cache of pods cannot sync: list failed: GET "):
        cache.wait_for_cache_sync(handler)
