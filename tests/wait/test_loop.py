"""Upstream's loop_test.go, on a clock that moves itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.loop import loop_condition_until_context

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECOND = 1e-6


class ConditionError(Exception):
    """What the conditions of these tests raise."""


def fail(_attempt: int) -> bool:
    raise ConditionError


def live(clock: FakeClock) -> tuple[wait.Context, wait.CancelFunc]:
    return wait.with_cancel(wait.background(clock))


def cancelled(clock: FakeClock) -> tuple[wait.Context, wait.CancelFunc]:
    ctx, cancel = live(clock)
    cancel()
    return ctx, cancel


def past_deadline(clock: FakeClock) -> tuple[wait.Context, wait.CancelFunc]:
    ctx, cancel = wait.with_timeout(wait.background(clock), "1ms")
    clock.advance(0.002)
    return ctx, cancel


def one_second(clock: FakeClock) -> tuple[wait.Context, wait.CancelFunc]:
    return wait.with_timeout(wait.background(clock), 1)


@dataclass
class Row:
    attempts: int
    ends_with: type[Exception] | None = None
    condition: Callable[[int], bool] = lambda _attempt: False
    context: Callable[[FakeClock], tuple[wait.Context, wait.CancelFunc]] = live
    immediate: bool = False
    sliding: bool = False
    cancel_after: int = 0
    takes: float = 0.0
    backoff: wait.Backoff | None = None


SEMANTICS = {
    "successful at once": Row(1, condition=lambda _attempt: True),
    "successful later": Row(2, condition=lambda attempt: attempt > 1),
    "successful much later": Row(100, condition=lambda attempt: attempt >= 100),
    "an error ends it": Row(1, ConditionError, fail),
    "cancelled before: no call": Row(0, wait.Canceled, context=cancelled),
    "cancelled before, immediate, success": Row(
        1, None, lambda _attempt: True, cancelled, immediate=True
    ),
    "cancelled before, immediate, error wins": Row(
        1, ConditionError, fail, cancelled, immediate=True
    ),
    "cancelled before, immediate: one call": Row(
        1, wait.Canceled, context=cancelled, immediate=True
    ),
    "cancelled after 5": Row(5, wait.Canceled, cancel_after=5),
    "cancelled after 5, immediate": Row(5, wait.Canceled, cancel_after=5, immediate=True),
    "deadline passed, immediate: one call": Row(
        1, wait.DeadlineExceeded, context=past_deadline, immediate=True
    ),
    "deadline passed: no call": Row(0, wait.DeadlineExceeded, context=past_deadline),
    "deadline before the second call": Row(
        1,
        wait.DeadlineExceeded,
        context=one_second,
        immediate=True,
        backoff=wait.Backoff(duration=2),
    ),
    "long condition, not sliding": Row(
        4,
        None,
        lambda attempt: attempt >= 4,
        one_second,
        immediate=True,
        takes=0.2,
        backoff=wait.Backoff(duration=0.2, jitter=0.001),
    ),
    "long condition, sliding": Row(
        3,
        wait.DeadlineExceeded,
        lambda attempt: attempt >= 4,
        one_second,
        immediate=True,
        sliding=True,
        takes=0.2,
        backoff=wait.Backoff(duration=0.2, jitter=0.001),
    ),
}


@pytest.mark.parametrize("row", SEMANTICS.values(), ids=SEMANTICS)
def test_semantics(row: Row) -> None:
    clock = FakeClock()
    ctx, cancel = row.context(clock)
    timer = (row.backoff or wait.Backoff(MICROSECOND)).timer()
    attempts = 0

    def condition(_ctx: wait.Context) -> bool:
        nonlocal attempts
        attempts += 1
        try:
            answer = row.condition(attempts)
            clock.sleep(0 if answer else row.takes)
            return answer
        finally:
            if attempts == row.cancel_after:
                cancel()

    ended: Exception | None
    try:
        ended = loop_condition_until_context(ctx, timer, row.immediate, row.sliding, condition)
    except ConditionError as error:
        ended = error
    assert (attempts, type(ended) if ended else None) == (row.attempts, row.ends_with)


def test_without_immediate_the_first_call_comes_after_the_interval() -> None:
    clock = FakeClock(auto=False)
    called: list[float] = []

    def condition(_ctx: wait.Context) -> bool:
        called.append(clock.monotonic())
        raise ConditionError

    def run() -> None:
        timer = wait.Backoff(duration=1).timer()
        loop_condition_until_context(wait.background(clock), timer, False, True, condition)

    group = wait.Group()
    group.start(run)
    clock.until_blocked()
    clock.advance(0.999)
    assert called == []
    clock.advance(0.002)
    with pytest.raises(ConditionError):
        group.wait()
    assert called == [pytest.approx(1.001)]


@pytest.mark.parametrize(
    ("immediate", "sliding", "asked", "waited"),
    [
        (False, False, [1.0, 2.0], [1.0]),  # not sliding: the second begins before the call
        (True, False, [1.0], []),
        (False, True, [1.0], [1.0]),
        (True, True, [], []),
    ],
)
def test_the_delays_asked_for_are_the_delays_waited(
    immediate: bool, sliding: bool, asked: list[float], waited: list[float]
) -> None:
    clock = FakeClock()
    delays: list[float] = []
    delay = wait.Backoff(duration=1, steps=2, factor=2).delay_func()

    def recorded() -> float:
        delays.append(delay())
        return delays[-1]

    wait.DelayFunc(recorded).until(wait.background(clock), immediate, sliding, lambda _ctx: True)
    assert (delays, clock.pauses) == (asked, waited)


@pytest.mark.parametrize(
    ("backoff", "kind", "least", "most"),
    [
        (wait.Backoff(duration=0.001, jitter=1.0), wait.VariableTimer, 0.010, 0.020),
        (wait.Backoff(duration=0.001), wait.FixedTimer, 0.010, 0.010),
        (wait.Backoff(), wait.NoopTimer, 0, 0),
    ],
)
def test_the_timer_fits_the_backoff(
    backoff: wait.Backoff, kind: type, least: float, most: float
) -> None:
    clock = FakeClock()
    attempts = 0

    def condition(_ctx: wait.Context) -> bool:
        nonlocal attempts
        attempts += 1
        return attempts >= 10

    timer = backoff.timer()
    assert type(timer) is kind
    ctx = wait.background(clock)
    assert loop_condition_until_context(ctx, timer, False, False, condition) is None
    assert least - 1e-9 <= clock.monotonic() <= most + 1e-9


def test_a_fixed_timer_looks_at_once_after_a_slow_look_and_drops_what_was_missed() -> None:
    clock = FakeClock()
    called: list[float] = []

    def condition(_ctx: wait.Context) -> bool:
        called.append(clock.monotonic())
        clock.sleep(2.5 if len(called) == 1 else 0)
        return len(called) == 4

    timer = wait.Backoff(duration=1).timer()
    loop_condition_until_context(wait.background(clock), timer, False, False, condition)
    assert called == [1, 3.5, 4, 5]


def test_a_noop_timer_still_notices_the_end_of_its_context() -> None:
    ctx, cancel = live(FakeClock())
    calls: list[int] = []

    def condition(_ctx: wait.Context) -> bool:
        calls.append(1)
        if len(calls) == 3:
            cancel()
        return False

    ended = loop_condition_until_context(ctx, wait.NoopTimer(), False, False, condition)
    assert (len(calls), type(ended)) == (3, wait.Canceled)


def test_the_timer_is_stopped_however_the_loop_ends() -> None:
    stopped: list[str] = []

    class Watched(wait.FixedTimer):
        def stop(self) -> None:
            stopped.append("stopped")

    ctx = wait.background(FakeClock())
    loop_condition_until_context(ctx, Watched(1), False, False, lambda _ctx: True)
    with pytest.raises(ConditionError):
        loop_condition_until_context(ctx, Watched(1), True, False, lambda _ctx: fail(1))
    assert stopped == ["stopped", "stopped"]


@pytest.mark.parametrize("immediate", [True, False])
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            (False, None),
            "result of condition=(False, None) is not valid: this is Go's pair of done and error: "
            "return True once done, False to be called again, and raise the error",
        ),
        (
            None,
            "result of condition=None is not valid: return True once done, False to be called "
            "again (a function without a return statement returns None)",
        ),
        (
            1,
            "result of condition=1 is not valid: return True once done, False to be called again",
        ),
    ],
)
def test_a_result_other_than_a_bool_is_refused(result: Any, text: str, immediate: bool) -> None:
    poll = wait.poll_immediate if immediate else wait.poll
    with pytest.raises(InvalidArgument) as caught:
        poll(0.1, 0.5, lambda: result, clock=FakeClock())
    assert str(caught.value) == text
    assert not isinstance(caught.value, wait.ErrWaitTimeout)
    with pytest.raises(InvalidArgument):
        wait.exponential_backoff(wait.Backoff(steps=2), lambda: result, clock=FakeClock())


def test_concurrent_delays_are_the_same_delays() -> None:
    delay = wait.Backoff(duration=1, factor=2, steps=3).delay_func().concurrent()
    assert [delay() for _ in range(3)] == [1, 2, 4]


def test_delay_func_until_raises_the_end_of_its_context() -> None:
    ctx, _ = past_deadline(FakeClock())
    with pytest.raises(wait.DeadlineExceeded, match=r"^context deadline exceeded$"):
        wait.Backoff(duration=1, jitter=0.5).delay_func().until(
            ctx, False, False, lambda _ctx: True
        )
