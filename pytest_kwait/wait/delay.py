"""Delay functions: the next interval as a call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.wait.loop import (
    ConditionWithContextFunc,
    loop_condition_until_context,
    raise_interruption,
)
from pytest_kwait.wait.timer import VariableTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.wait.context import Context
    from pytest_kwait.wait.timer import Timer

__all__ = ["DelayFunc"]


class DelayFunc:
    """A function that gives the seconds to wait next, able to drive a loop.

    Safe to call from one thread only, unless made so by `concurrent`.

    Args:
        delay: gives the next interval in seconds.

    Source: util/wait/delay.go DelayFunc.
    """

    def __init__(self, delay: Callable[[], float]) -> None:
        self._delay = delay

    def __call__(self) -> float:
        """Return the next interval in seconds."""
        return self._delay()

    def timer(self) -> Timer:
        """Make a timer that asks this function for every interval."""
        return VariableTimer(self._delay)

    def until(
        self, ctx: Context, immediate: bool, sliding: bool, condition: ConditionWithContextFunc
    ) -> None:
        """Return once `condition` is true, looking after each of these delays.

        Raises:
            Canceled: the context was cancelled.
            DeadlineExceeded: the context's deadline has passed.
        """
        raise_interruption(
            loop_condition_until_context(ctx, self.timer(), immediate, sliding, condition)
        )

    def concurrent(self) -> DelayFunc:
        """Make the same delays safe to ask for from several threads."""
        lock = threading.Lock()

        def delay() -> float:
            with lock:
                return self._delay()

        return DelayFunc(delay)
