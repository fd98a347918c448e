"""Time that tests drive by hand, without an event loop."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_micro_time, format_time
from pytest_kwait.simulator.clock import REAL, ScheduledCall, SimClock

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


class _Call:
    def __init__(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
        self._call = call
        self._args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def make(self) -> None:
        if not self.cancelled:
            self._call(*self._args)


class ManualClock(SimClock):
    """A cluster's clock that stands still until `advance` is called."""

    def __init__(self, scale: float = REAL) -> None:
        super().__init__(scale)
        self._now = 0.0
        self._order = itertools.count()
        self._calls: list[tuple[float, int, _Call]] = []

    def time(self) -> float:
        return START + self._now + self._ahead

    def monotonic(self) -> float:
        return self._now

    def stamp(self) -> str:
        return format_time(self.time())

    def micro_stamp(self) -> str:
        return format_micro_time(self.time())

    def call_later(
        self, seconds: float, call: Callable[..., object], *args: object, scaled: bool = True
    ) -> ScheduledCall:
        when = self._now + (seconds * self.scale if scaled else seconds)
        planned = _Call(call, args)
        heapq.heappush(self._calls, (when, next(self._order), planned))
        return ScheduledCall(when, planned)

    def call_soon(self, call: Callable[..., object], *args: object) -> ScheduledCall:
        return self.call_later(0.0, call, *args)

    def leap(self, seconds: float) -> None:
        """Let time pass in which nothing is called, as for a process that is stopped."""
        self._now += seconds

    def advance(self, seconds: float = 0.0) -> None:
        """Make every call that falls due within `seconds`, in order, later ones they plan too."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, planned = heapq.heappop(self._calls)
            self._now = max(self._now, when)
            planned.make()
        self._now = end
