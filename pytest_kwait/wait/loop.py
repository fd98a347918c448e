"""The loop behind every repeated call of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pytest_kwait.wait.context import Context
from pytest_kwait.wait.errors import Canceled, DeadlineExceeded, ErrWaitTimeout
from pytest_kwait.wait.timer import Tick

if TYPE_CHECKING:
    from pytest_kwait.wait.timer import Timer

__all__ = [
    "ConditionFunc",
    "ConditionWithContextFunc",
    "loop_condition_until_context",
    "raise_interruption",
]

ConditionFunc: TypeAlias = Callable[[], bool]
"""Returns True once done; raises to stop."""
ConditionWithContextFunc: TypeAlias = Callable[[Context], bool]
"""A `ConditionFunc` that receives the context of its caller."""
Interruption: TypeAlias = Canceled | DeadlineExceeded | ErrWaitTimeout


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

    Returns:
        None once the condition is true, else the reason of the end: returned, not raised, so that
        callers can distinguish it from exceptions of the condition.

    Source: util/wait/loop.go loopConditionUntilContext.
    """
    try:
        if not sliding:
            timer.start(ctx)
        if immediate and condition(ctx):
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
            if condition(ctx):
                return None
            if tick is Tick.LAST:
                return ErrWaitTimeout()
            if sliding:
                timer.next(ctx)
    finally:
        timer.stop()


def raise_interruption(error: Interruption | None) -> None:
    """Raise the error that ended a loop early; no-op if its condition was met."""
    if error is not None:
        raise error
