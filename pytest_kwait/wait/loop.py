"""The loop behind every repeated call of the package, and the timers that pace it.

A timer decides the time of the next call; the context does the waiting.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol, TypeAlias

from pytest_kwait.apimachinery.arguments import (
    check_answer,
    check_flag,
    check_function,
    check_number,
)
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.wait.context import (
    Canceled,
    Context,
    DeadlineExceeded,
    ErrWaitTimeout,
    check_context,
)

ConditionFunc: TypeAlias = Callable[[], bool]
"""Returns True once done; raises to stop."""
ConditionWithContextFunc: TypeAlias = Callable[[Context], bool]
"""A `ConditionFunc` that receives the context of its caller."""
Interruption: TypeAlias = Canceled | DeadlineExceeded | ErrWaitTimeout


class Tick(enum.Enum):
    """The outcome of a pause."""

    FIRED = enum.auto()
    """The interval is over: call again."""
    LAST = enum.auto()
    """No pause will follow: call once more, then end."""
    ENDED = enum.auto()
    """No pause will follow: stop."""
    DONE = enum.auto()
    """The context ended first."""


class Timer(Protocol):
    """Decides the pauses of one loop; used by one thread, once.

    Source: util/wait/timer.go Timer.
    """

    def start(self, ctx: Context) -> None:
        """Start the first interval."""
        ...

    def wait(self, ctx: Context) -> Tick:
        """Return at the end of the interval started last, or of the context."""
        ...

    def next(self, ctx: Context) -> None:
        """Start the interval after one that fired."""
        ...

    def stop(self) -> None:
        """Release the resources of the timer after the loop."""
        ...


class NoopTimer:
    """A timer without pauses.

    Source: util/wait/timer.go noopTimer.
    """

    def start(self, ctx: Context) -> None:
        """No-op."""

    def wait(self, ctx: Context) -> Tick:
        """Fire at once, unless the context has ended."""
        return Tick.DONE if ctx.err() is not None else Tick.FIRED

    def next(self, ctx: Context) -> None:
        """No-op."""

    def stop(self) -> None:
        """No-op."""


class FixedTimer:
    """Fires on a fixed grid; at once after a call longer than `interval`.

    Ticks missed by more than one interval are dropped; the grid is kept.

    Args:
        interval: seconds, above zero.

    Source: util/wait/timer.go fixedTimer, time.Ticker of Go.
    """

    def __init__(self, interval: float) -> None:
        check_number("interval", interval)
        if interval <= 0:
            raise InvalidArgument("interval", interval, "use a number above zero")
        self.interval = interval
        self._due = 0.0

    def start(self, ctx: Context) -> None:
        """Start the grid now."""
        self._due = ctx.clock.monotonic() + self.interval

    def wait(self, ctx: Context) -> Tick:
        """Return at the next grid point, at once if one has been missed."""
        if ctx.wait(self._due - ctx.clock.monotonic()):
            return Tick.DONE
        self._due = next_on_grid(self._due, self.interval, ctx.clock.monotonic())
        return Tick.FIRED

    def next(self, ctx: Context) -> None:
        """No-op: the grid continues."""

    def stop(self) -> None:
        """No-op."""


class VariableTimer:
    """A timer that requests the length of each interval when it starts.

    Args:
        delay: returns the next interval in seconds.

    Source: util/wait/timer.go variableTimer.
    """

    def __init__(self, delay: Callable[[], float]) -> None:
        check_function("delay", delay)
        self._delay = delay
        self._due = 0.0

    def start(self, ctx: Context) -> None:
        """Start the first interval."""
        seconds = self._delay()
        check_number("result of delay", seconds)
        self._due = ctx.clock.monotonic() + seconds

    def wait(self, ctx: Context) -> Tick:
        """Return when the interval is over."""
        return Tick.DONE if ctx.wait(self._due - ctx.clock.monotonic()) else Tick.FIRED

    def next(self, ctx: Context) -> None:
        """Start the next interval now."""
        self.start(ctx)

    def stop(self) -> None:
        """No-op."""


def next_on_grid(due: float, interval: float, now: float) -> float:
    """Return the first grid point through `due` that lies after `due` and `now`."""
    missed = max(0, int((now - due) // interval))
    return due + interval * (missed + 1)


def loop_condition_until_context(
    ctx: Context,
    timer: Timer,
    immediate: bool,
    sliding: bool,
    condition: ConditionWithContextFunc,
) -> Interruption | None:
    """Call `condition` at each tick of `timer` until it is true or the loop ends.

    With `immediate` the condition is called before the first pause, and so at least once, whether
    or not the context has ended. Without, it is not called at all if the context ends before the
    first tick. It is called at most once after the context has ended, and never interrupted.

    Args:
        ctx: ends the loop; its clock passes the pauses.
        timer: decides the pauses, and may end the loop.
        immediate: call the condition before the first pause.
        sliding: a pause begins when the condition has returned; else when it is called, so that
            the interval includes the condition's own time.
        condition: the condition; its exceptions propagate.

    Raises:
        InvalidArgument: an argument of another type, or the condition returned something other
            than a bool.

    Returns:
        None once the condition is true, else the reason of the end: returned, not raised, so that
        callers can distinguish it from exceptions of the condition.

    Source: util/wait/loop.go loopConditionUntilContext.
    """
    check_context("ctx", ctx)
    check_flag("immediate", immediate)
    check_flag("sliding", sliding)
    check_function("condition", condition)
    try:
        if not sliding:
            timer.start(ctx)
        if immediate and check_result(condition(ctx)):
            return None
        if sliding:
            timer.start(ctx)
        while True:
            tick = timer.wait(ctx)
            if tick is Tick.ENDED:
                return ErrWaitTimeout()
            # A stopped loop makes at most one more call: check after every pause.
            if (error := ctx.err()) is not None:
                return error
            if not sliding:
                timer.next(ctx)
            if check_result(condition(ctx)):
                return None
            if tick is Tick.LAST:
                return ErrWaitTimeout()
            if sliding:
                timer.next(ctx)
    finally:
        timer.stop()


def check_result(result: object, what: str = "condition") -> bool:
    """Return the result of a condition, which is a bool.

    Any other object would count by its truth: Go's `(false, nil)` as done, a forgotten `return`
    as never done.

    Args:
        result: what the condition returned.
        what: the name of the condition in the error.

    Raises:
        InvalidArgument: it is no bool.
    """
    if result is True or result is False:
        return result
    check_answer(f"result of {what}", result)
    valid = "return True once done, False to be called again"
    if isinstance(result, tuple) and len(result) == 2:
        valid = f"this is Go's pair of done and error: {valid}, and raise the error"
    elif result is None:
        valid = f"{valid} (a function without a return statement returns None)"
    raise InvalidArgument(f"result of {what}", result, valid)


def raise_interruption(error: Interruption | None) -> None:
    """Raise the error that ended a loop early; no-op if its condition was met."""
    if error is not None:
        raise error
