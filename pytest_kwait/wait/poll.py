"""Poll a condition every interval until it is true.

There are two families. `poll_until_context_cancel` and `poll_until_context_timeout` are current:
they raise the context's own error, and make no call after the deadline. The others keep upstream's
older contract: they raise `ErrWaitTimeout` however they end, a timeout of 0 is none, and the
condition is called once more when the time is up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from pytest_kwait.apimachinery.arguments import check_function, check_instance
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.wait.backoff import Backoff
from pytest_kwait.wait.context import (
    Context,
    ErrWaitTimeout,
    Stop,
    background,
    check_context,
    make_stop_context,
)
from pytest_kwait.wait.loop import (
    ConditionFunc,
    ConditionWithContextFunc,
    Tick,
    loop_condition_until_context,
    next_on_grid,
    raise_interruption,
)

_NO_MORE = object()

WaitFunc: TypeAlias = Callable[[Context], Iterable[None]]
"""Yields an item per call; ends when the last call is due, or with the context.
When the wait is over, the context ends, and the iterator's `close` is called if it has one."""


def poll_until_context_cancel(
    ctx: Context, interval: Duration, immediate: bool, condition: ConditionWithContextFunc
) -> None:
    """Return once `condition` is true, checking every `interval` until the context ends.

    The interval includes the time of the condition; after one that took longer, the next call
    is at once. With `immediate` the first call is before the first interval, and happens even if
    the context has ended; without, the condition may never be called. An interval of 0 is no pause.

    Raises:
        Canceled: the context was cancelled.
        DeadlineExceeded: the context's deadline has passed.

    Source: util/wait/poll.go PollUntilContextCancel.
    """
    timer = Backoff(to_seconds(interval, what="interval")).timer()
    raise_interruption(loop_condition_until_context(ctx, timer, immediate, False, condition))


def poll_until_context_timeout(
    ctx: Context,
    interval: Duration,
    timeout: Duration,
    immediate: bool,
    condition: ConditionWithContextFunc,
) -> None:
    """As `poll_until_context_cancel`, for at most `timeout`.

    A timeout of 0 has passed already: one call with `immediate`, none without. The context passed
    to the condition has the deadline, and has ended when this returns.

    Source: util/wait/poll.go PollUntilContextTimeout.
    """
    check_context("ctx", ctx)
    limited = ctx.limited(timeout)
    try:
        poll_until_context_cancel(limited, interval, immediate, condition)
    finally:
        limited.cancel()


def poll(
    interval: Duration,
    timeout: Duration,
    condition: ConditionFunc,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Return once `condition` is true: first call after one interval, last at the timeout.

    Calls that would overlap a running condition are skipped. The condition is called at least
    once, however short the timeout; a timeout of 0 is none.

    Raises:
        ErrWaitTimeout: the condition was not true in time.

    Source: util/wait/poll.go Poll.
    """
    poll_with_context(background(clock), interval, timeout, _with_context(condition))


def poll_with_context(
    ctx: Context, interval: Duration, timeout: Duration, condition: ConditionWithContextFunc
) -> None:
    """Like `poll`; the context's end is an `ErrWaitTimeout` too, without a last call.

    Source: util/wait/poll.go PollWithContext.
    """
    _poll(ctx, False, poller(interval, timeout), condition)


def poll_until(
    interval: Duration,
    condition: ConditionFunc,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """As `poll`, without timeout, until `stop` is set.

    Source: util/wait/poll.go PollUntil.
    """
    poll_until_with_context(make_stop_context(stop, clock), interval, _with_context(condition))


def poll_until_with_context(
    ctx: Context, interval: Duration, condition: ConditionWithContextFunc
) -> None:
    """As `poll_with_context`, without timeout.

    Source: util/wait/poll.go PollUntilWithContext.
    """
    _poll(ctx, False, poller(interval, 0), condition)


def poll_infinite(
    interval: Duration, condition: ConditionFunc, *, clock: Clock = SYSTEM_CLOCK
) -> None:
    """As `poll`, without timeout.

    Source: util/wait/poll.go PollInfinite.
    """
    poll_infinite_with_context(background(clock), interval, _with_context(condition))


def poll_infinite_with_context(
    ctx: Context, interval: Duration, condition: ConditionWithContextFunc
) -> None:
    """As `poll_until_with_context`.

    Source: util/wait/poll.go PollInfiniteWithContext.
    """
    _poll(ctx, False, poller(interval, 0), condition)


def poll_immediate(
    interval: Duration,
    timeout: Duration,
    condition: ConditionFunc,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Like `poll`, with a call before the first interval; the timeout starts after that call.

    Source: util/wait/poll.go PollImmediate.
    """
    poll_immediate_with_context(background(clock), interval, timeout, _with_context(condition))


def poll_immediate_with_context(
    ctx: Context, interval: Duration, timeout: Duration, condition: ConditionWithContextFunc
) -> None:
    """As `poll_immediate`; the context's end is an `ErrWaitTimeout` too.

    Source: util/wait/poll.go PollImmediateWithContext.
    """
    _poll(ctx, True, poller(interval, timeout), condition)


def poll_immediate_until(
    interval: Duration,
    condition: ConditionFunc,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Like `poll_until`, with a call before the first interval, even if `stop` is set.

    Source: util/wait/poll.go PollImmediateUntil.
    """
    ctx = make_stop_context(stop, clock)
    poll_immediate_until_with_context(ctx, interval, _with_context(condition))


def poll_immediate_until_with_context(
    ctx: Context, interval: Duration, condition: ConditionWithContextFunc
) -> None:
    """Like `poll_until_with_context`, with a first call at once, even if the context has ended.

    Source: util/wait/poll.go PollImmediateUntilWithContext.
    """
    _poll(ctx, True, poller(interval, 0), condition)


def poll_immediate_infinite(
    interval: Duration, condition: ConditionFunc, *, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Like `poll_infinite`, with a call before the first interval.

    Source: util/wait/poll.go PollImmediateInfinite.
    """
    poll_immediate_infinite_with_context(background(clock), interval, _with_context(condition))


def poll_immediate_infinite_with_context(
    ctx: Context, interval: Duration, condition: ConditionWithContextFunc
) -> None:
    """As `poll_immediate_until_with_context`.

    Source: util/wait/poll.go PollImmediateInfiniteWithContext.
    """
    _poll(ctx, True, poller(interval, 0), condition)


def poller(interval: Duration, timeout: Duration) -> WaitFunc:
    """Return a `WaitFunc` that ticks every `interval` and ends after `timeout`.

    Ticks lie on a fixed grid from the first request on. Ticks without a waiting caller are dropped,
    and so is one that coincides with the end.

    Args:
        interval: above zero.
        timeout: 0 for none.

    Source: util/wait/poll.go poller.
    """
    every = to_seconds(interval, what="interval", allow_zero=False)
    limit = to_seconds(timeout, what="timeout") or math.inf
    return lambda ctx: _PollerTicks(ctx, every, limit)


def wait_for(
    wait: WaitFunc,
    condition: ConditionFunc,
    done: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Return once `condition` is true, checking at every tick of `wait` and at its end.

    Raises:
        ErrWaitTimeout: `wait` has ended, or `done` was set; then without a last call.

    Source: util/wait/wait.go WaitFor.
    """
    wait_for_with_context(make_stop_context(done, clock, "done"), wait, _with_context(condition))


def wait_for_with_context(
    ctx: Context, wait: WaitFunc, condition: ConditionWithContextFunc
) -> None:
    """As `wait_for`, until the context has ended.

    Source: util/wait/wait.go waitForWithContext.
    """
    _poll(ctx, False, wait, condition)


def _poll(
    ctx: Context, immediate: bool, wait: WaitFunc, condition: ConditionWithContextFunc
) -> None:
    """Poll with an optional call before the first interval.

    Source: util/wait/poll.go poll.
    """
    check_function("wait", wait, "use a WaitFunc, as wait.poller(1, 30)")
    if (
        loop_condition_until_context(ctx, _WaitFuncTimer(wait), immediate, True, condition)
        is not None
    ):
        raise ErrWaitTimeout


def _with_context(condition: ConditionFunc) -> ConditionWithContextFunc:
    check_function("condition", condition)
    return lambda _ctx: condition()


class _PollerTicks(Iterator[None]):
    def __init__(self, ctx: Context, interval: float, timeout: float) -> None:
        now = ctx.clock.monotonic()
        self._ctx = ctx
        self._interval = interval
        self._due = now + interval
        self._end = now + timeout

    def __next__(self) -> None:
        now = self._ctx.clock.monotonic()
        if self._due < now:
            self._due = next_on_grid(self._due, self._interval, now)
        if self._ctx.wait(min(self._due, self._end) - now) or self._end <= self._due:
            raise StopIteration
        self._due += self._interval


class _WaitFuncTimer:
    def __init__(self, wait: WaitFunc) -> None:
        self._wait = wait
        self._ticks: Iterator[None] | None = None
        self._context: Context | None = None

    def start(self, ctx: Context) -> None:
        """No-op: `wait` calls the `WaitFunc`, and only if the context has not ended."""

    def wait(self, ctx: Context) -> Tick:
        if ctx.err() is not None:
            return Tick.DONE
        if self._ticks is None:
            self._context = ctx.child()
            ticks = self._wait(self._context)
            check_instance("answer of wait", ticks, Iterable, "return an iterable of ticks")
            self._ticks = iter(ticks)
        return Tick.LAST if next(self._ticks, _NO_MORE) is _NO_MORE else Tick.FIRED

    def next(self, ctx: Context) -> None:
        """No-op: `wait` requests the next tick."""

    def stop(self) -> None:
        if self._context is not None:
            self._context.cancel()
        close = getattr(self._ticks, "close", None)
        if close is not None:
            close()
