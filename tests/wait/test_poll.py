"""Upstream's tests of Poll and its kin, of WaitFor and of the poller."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ConditionError(Exception):
    """What the conditions of these tests raise."""


def fail() -> bool:
    raise ConditionError


class Ticker:
    """A `WaitFunc` that ticks so many times at once, and then ends or stays silent."""

    def __init__(self, ticks: int, *, ends: bool = True) -> None:
        self.ticks = ticks
        self.ends = ends
        self.used = 0
        self.asked = 0
        self.closed = 0

    def __call__(self, ctx: wait.Context) -> Iterator[None]:
        self.asked += 1
        return self._run(ctx)

    def _run(self, ctx: wait.Context) -> Iterator[None]:
        try:
            for _ in range(self.ticks):
                self.used += 1
                yield
            if not self.ends:
                ctx.wait()
        finally:
            self.closed += 1


@dataclass
class Row:
    ticker: Ticker
    attempts: int
    ends_with: type[Exception] | None
    condition: Callable[[], bool] = lambda: False
    cancel_after: int = -1


WAIT_FOR = {
    "true at once": lambda: Row(Ticker(2), 1, None, lambda: True),
    "once more at the end": lambda: Row(Ticker(2), 3, wait.ErrWaitTimeout),
    "an error ends it": lambda: Row(Ticker(2), 1, ConditionError, fail),
    "cancelled before": lambda: Row(Ticker(0, ends=False), 0, wait.ErrWaitTimeout, cancel_after=0),
    "ended before, true": lambda: Row(Ticker(0), 1, None, lambda: True),
    "ended before, error": lambda: Row(Ticker(0), 1, ConditionError, fail),
    "ended before, false": lambda: Row(Ticker(0), 1, wait.ErrWaitTimeout),
    "cancelled after 2": lambda: Row(Ticker(2, ends=False), 2, wait.ErrWaitTimeout, cancel_after=2),
}


@pytest.mark.parametrize("form", ["context", "channel"])
@pytest.mark.parametrize("make", WAIT_FOR.values(), ids=WAIT_FOR)
def test_wait_for(make: Callable[[], Row], form: str) -> None:
    row = make()
    done = threading.Event()
    clock = FakeClock()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    stop: Callable[[], Any] = cancel if form == "context" else done.set
    attempts = 0
    if row.cancel_after == 0:
        stop()

    def condition(*_ctx: wait.Context) -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == row.cancel_after:
            stop()
        return row.condition()

    def run() -> None:
        if form == "context":
            wait.wait_for_with_context(ctx, row.ticker, condition)
        else:
            wait.wait_for(row.ticker, condition, done, clock=clock)

    if row.ends_with is None:
        run()
    else:
        with pytest.raises(row.ends_with) as caught:
            run()
        assert caught.type is row.ends_with
    assert attempts == row.attempts
    assert row.ticker.asked == (0 if row.cancel_after == 0 else 1)
    assert row.ticker.closed == row.ticker.asked, "what the wait func holds is let go"


def test_wait_for_takes_any_iterable() -> None:
    calls: list[int] = []

    def condition() -> bool:
        calls.append(1)
        return False

    with pytest.raises(wait.ErrWaitTimeout):
        wait.wait_for(lambda _ctx: [None, None], condition, threading.Event())
    assert len(calls) == 3


@pytest.mark.parametrize("is_met", [True, False])
def test_the_context_of_a_wait_func_ends_with_the_wait(is_met: bool) -> None:
    """Source: util/wait/wait_test.go TestWaitForClosesStopCh."""
    given: list[wait.Context] = []
    stop = threading.Event()

    def tick_once(ctx: wait.Context) -> list[None]:
        given.append(ctx)
        assert ctx.err() is None
        return [None]

    with nullcontext() if is_met else pytest.raises(wait.ErrWaitTimeout):
        wait.wait_for(tick_once, lambda: is_met, stop, clock=FakeClock())
    (ctx,) = given
    assert ctx.done.is_set()
    assert isinstance(ctx.err(), wait.Canceled)
    assert not stop.is_set()


@pytest.mark.parametrize("kind", ["function", "context"])
def test_polls_are_stopped_by_a_function_or_a_context(kind: str) -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    clock.call_later(3.5, cancel)
    stop: wait.Stop = ctx if kind == "context" else lambda: clock.monotonic() >= 3.5
    calls: list[float] = []

    def look() -> bool:
        calls.append(clock.monotonic())
        return False

    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll_until(1, look, stop, clock=clock)
    assert calls == pytest.approx([1, 2, 3])
    wait.until(look, 1, stop, clock=clock)
    assert len(calls) == 3


def test_wait_for_gives_the_condition_the_callers_context() -> None:
    ctx = wait.background(FakeClock())
    seen: list[wait.Context] = []

    def condition(given: wait.Context) -> bool:
        seen.append(given)
        return True

    wait.wait_for_with_context(ctx, Ticker(1), condition)
    assert seen == [ctx]


def test_a_poller_ticks_on_its_grid_and_ends() -> None:
    clock = FakeClock()
    ticks = iter(wait.poller("1ms", "2ms")(wait.background(clock)))
    assert [clock.monotonic() for _ in ticks] == [0.001]
    assert clock.monotonic() == 0.002


def test_poller_drops_ticks_without_a_waiting_caller() -> None:
    clock = FakeClock()
    seen: list[float] = []
    for _ in wait.poller(1, 7)(wait.background(clock)):
        seen.append(clock.monotonic())
        clock.sleep(2.5 if len(seen) == 1 else 0)
    assert seen == [1, 4, 5, 6]
    assert clock.monotonic() == 7


def test_a_poller_without_timeout_ends_with_its_context() -> None:
    clock = FakeClock()
    ctx, _ = wait.with_timeout(wait.background(clock), 3.5)
    assert [clock.monotonic() for _ in wait.poller(1, 0)(ctx)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("interval", "timeout", "message"),
    [
        (0, 1, "interval=0 is not valid"),
        ("-1s", 1, "interval='-1s' is not valid"),
        (1, "soon", "timeout='soon' is not valid"),
    ],
)
def test_a_poller_refuses_what_it_cannot_do(interval: Any, timeout: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}: "):
        wait.poller(interval, timeout)


class Calls:
    """A condition that notes when it was called, and does what it is told at its n-th call."""

    def __init__(self, clock: FakeClock, true_at: int = 0, takes: float = 0.0) -> None:
        self.clock = clock
        self.true_at = true_at
        self.takes = takes
        self.at: list[float] = []
        self.then: dict[int, Callable[[], object]] = {}

    def __call__(self, *_ctx: wait.Context) -> bool:
        self.at.append(round(self.clock.monotonic(), 6))
        self.then.get(len(self.at), int)()
        self.clock.sleep(self.takes)
        return len(self.at) == self.true_at


def test_legacy_polls_call_once_more_when_the_time_is_up() -> None:
    clock = FakeClock()
    calls = Calls(clock)
    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll("100ms", "350ms", calls, clock=clock)
    assert calls.at == [0.1, 0.2, 0.3, 0.35]


def test_immediate_legacy_polls_call_before_the_first_interval_too() -> None:
    clock = FakeClock()
    calls = Calls(clock)
    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll_immediate("100ms", "350ms", calls, clock=clock)
    assert calls.at == [0, 0.1, 0.2, 0.3, 0.35]


def test_the_timeout_of_an_immediate_poll_runs_from_the_end_of_the_first_look() -> None:
    clock = FakeClock()
    calls = Calls(clock)
    calls.then[1] = lambda: clock.sleep(5)
    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll_immediate(1, 2.5, calls, clock=clock)
    assert calls.at == [0, 6, 7, 7.5]


def test_a_legacy_poll_of_no_length_calls_once() -> None:
    clock = FakeClock()
    calls = Calls(clock)
    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll(1, 0.5, calls, clock=clock)
    assert calls.at == [0.5]


def test_a_condition_that_outlasts_the_timeout_is_called_once_more() -> None:
    clock = FakeClock()
    calls = Calls(clock, takes=3)
    with pytest.raises(wait.ErrWaitTimeout):
        wait.poll(1, 2, calls, clock=clock)
    assert calls.at == [1, 4]


def test_a_legacy_timeout_of_zero_is_none() -> None:
    clock = FakeClock()
    calls = Calls(clock, true_at=1000)
    wait.poll(1, 0, calls, clock=clock)
    assert clock.monotonic() == 1000


ENDLESS: dict[str, Callable[[Calls, threading.Event, FakeClock], None]] = {
    "poll_until": lambda c, stop, clock: wait.poll_until(1, c, stop, clock=clock),
    "poll_until_with_context": lambda c, stop, clock: wait.poll_until_with_context(
        wait.context_for_channel(stop, clock), 1, c
    ),
    "poll_infinite_with_context": lambda c, stop, clock: wait.poll_infinite_with_context(
        wait.context_for_channel(stop, clock), 1, c
    ),
    "poll_with_context": lambda c, stop, clock: wait.poll_with_context(
        wait.context_for_channel(stop, clock), 1, 0, c
    ),
    "poll_immediate_until": lambda c, stop, clock: wait.poll_immediate_until(
        1, c, stop, clock=clock
    ),
    "poll_immediate_until_with_context": (
        lambda c, stop, clock: wait.poll_immediate_until_with_context(
            wait.context_for_channel(stop, clock), 1, c
        )
    ),
    "poll_immediate_infinite_with_context": (
        lambda c, stop, clock: wait.poll_immediate_infinite_with_context(
            wait.context_for_channel(stop, clock), 1, c
        )
    ),
    "poll_immediate_with_context": lambda c, stop, clock: wait.poll_immediate_with_context(
        wait.context_for_channel(stop, clock), 1, 0, c
    ),
    "poll_infinite": lambda c, _stop, clock: wait.poll_infinite(1, c, clock=clock),
    "poll_immediate_infinite": lambda c, _stop, clock: wait.poll_immediate_infinite(
        1, c, clock=clock
    ),
}
STOPPABLE = {name: form for name, form in ENDLESS.items() if not name.endswith("infinite")}


def first_look(name: str) -> float:
    return 0 if "immediate" in name else 1


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_polls_end_with_their_condition(name: str) -> None:
    clock = FakeClock()
    calls = Calls(clock, true_at=4)
    ENDLESS[name](calls, threading.Event(), clock)
    assert calls.at == [first_look(name) + n for n in range(4)]


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_polls_end_with_an_error(name: str) -> None:
    clock = FakeClock()
    calls = Calls(clock)
    calls.then[1] = fail
    with pytest.raises(ConditionError):
        ENDLESS[name](calls, threading.Event(), clock)
    assert len(calls.at) == 1


@pytest.mark.parametrize("name", STOPPABLE)
def test_endless_polls_end_with_a_stop_as_if_timed_out(name: str) -> None:
    clock = FakeClock()
    stop = threading.Event()
    calls = Calls(clock)
    calls.then[4] = stop.set
    with pytest.raises(wait.ErrWaitTimeout):
        STOPPABLE[name](calls, stop, clock)
    assert len(calls.at) == 4


@pytest.mark.parametrize("name", STOPPABLE)
def test_a_stop_during_the_pause_ends_it(name: str) -> None:
    clock = FakeClock()
    stop = threading.Event()
    clock.call_later(2.5, stop.set)
    with pytest.raises(wait.ErrWaitTimeout):
        STOPPABLE[name](Calls(clock), stop, clock)
    assert clock.monotonic() == 2.5


@pytest.mark.parametrize("name", STOPPABLE)
def test_stopped_before_only_an_immediate_poll_looks_and_once(name: str) -> None:
    stop = threading.Event()
    stop.set()
    clock = FakeClock()
    calls = Calls(clock)
    with pytest.raises(wait.ErrWaitTimeout):
        STOPPABLE[name](calls, stop, clock)
    assert calls.at == ([0] if "immediate" in name else [])


@pytest.mark.parametrize("timeout", [wait.poll_with_context, wait.poll_immediate_with_context])
def test_context_polls_with_timeout_end_at_the_earlier_of_both(
    timeout: Callable[[wait.Context, float, float, Calls], None],
) -> None:
    clock = FakeClock()
    ctx, _ = wait.with_timeout(wait.background(clock), 2.5)
    with pytest.raises(wait.ErrWaitTimeout):
        timeout(ctx, 1, 10, Calls(clock))
    assert clock.monotonic() == 2.5
    with pytest.raises(wait.ErrWaitTimeout):
        timeout(wait.background(clock), 1, 1.5, Calls(clock))
    assert clock.monotonic() == 4.0


def test_a_conditions_own_interruption_comes_through_unchanged() -> None:
    error = wait.Canceled("of somebody else")

    def condition() -> bool:
        raise error

    with pytest.raises(wait.Canceled) as caught:
        wait.poll_immediate(1, 5, condition, clock=FakeClock())
    assert caught.value is error


@pytest.mark.parametrize(
    ("immediate", "at"), [(True, [0, 0.1, 0.2, 0.3]), (False, [0.1, 0.2, 0.3])]
)
def test_context_timeout_ends_with_the_contexts_error_and_no_last_look(
    immediate: bool, at: list[float]
) -> None:
    clock = FakeClock()
    calls = Calls(clock)
    ctx = wait.background(clock)
    with pytest.raises(wait.DeadlineExceeded, match=r"^context deadline exceeded$"):
        wait.poll_until_context_timeout(ctx, "100ms", "350ms", immediate, calls)
    assert calls.at == at
    assert clock.monotonic() == 0.35
    assert ctx.err() is None


@pytest.mark.parametrize(("immediate", "calls_made"), [(True, 1), (False, 0)])
def test_context_timeout_of_zero_has_passed(immediate: bool, calls_made: int) -> None:
    clock = FakeClock()
    calls = Calls(clock)
    with pytest.raises(wait.DeadlineExceeded):
        wait.poll_until_context_timeout(wait.background(clock), 1, 0, immediate, calls)
    assert len(calls.at) == calls_made


def test_context_timeout_returns_when_true_and_hands_down_the_deadline() -> None:
    clock = FakeClock()
    remaining: list[float] = []

    def condition(ctx: wait.Context) -> bool:
        remaining.append(ctx.deadline.remaining)
        return len(remaining) == 3

    wait.poll_until_context_timeout(wait.background(clock), 1, 5, True, condition)
    assert remaining == [5, 4, 3]


def test_the_context_of_the_condition_ends_with_the_poll() -> None:
    given: list[wait.Context] = []

    def condition(ctx: wait.Context) -> bool:
        given.append(ctx)
        assert ctx.err() is None
        return True

    wait.poll_until_context_timeout(wait.background(FakeClock()), 1, 5, True, condition)
    assert isinstance(given[0].err(), wait.Canceled)
    assert given[0].done.is_set()


@pytest.mark.parametrize("immediate", [True, False])
def test_context_cancel_ends_with_canceled(immediate: bool) -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    calls = Calls(clock)
    calls.then[3] = cancel
    with pytest.raises(wait.Canceled, match=r"^context canceled$"):
        wait.poll_until_context_cancel(ctx, 1, immediate, calls)
    assert len(calls.at) == 3


def test_context_cancel_without_interval_does_not_pause() -> None:
    clock = FakeClock()
    calls = Calls(clock, true_at=100)
    wait.poll_until_context_cancel(wait.background(clock), 0, False, calls)
    assert (len(calls.at), clock.monotonic()) == (100, 0)


def test_the_interval_includes_the_conditions_own_time() -> None:
    clock = FakeClock()
    calls = Calls(clock, true_at=4, takes=0.4)
    wait.poll_until_context_cancel(wait.background(clock), 1, False, calls)
    assert calls.at == [1, 2, 3, 4]
