"""Timers: the time of the next call of a loop; the context does the waiting."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.wait.context import Context

__all__ = ["FixedTimer", "NoopTimer", "Tick", "Timer", "VariableTimer", "next_on_grid"]


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
        self._delay = delay
        self._due = 0.0

    def start(self, ctx: Context) -> None:
        """Start the first interval."""
        self._due = ctx.clock.monotonic() + self._delay()

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
