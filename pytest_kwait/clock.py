"""Time, and the only module that reads or sleeps it.

Everything else takes a `Clock`, so that tests drive time by hand, and hands a `Deadline` down to
whatever it calls, so that one limit holds for the whole way to the server and back.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading

_LONGEST_PAUSE = 24 * 3600.0
"""Seconds of one call of the system, as asyncio's; limits of the platforms start at 24 days."""

_RECHECK_INTERVAL = 0.1
"""Seconds between two checks whether a paused clock continues."""


class Clock(Protocol):
    """The time source of waits."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back, whatever is done to the wall clock."""
        ...

    def time(self) -> float:
        """Seconds since the epoch, as the wall clock has it: for display and for the API only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once for zero or less."""
        ...

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Return True once `event` is set, False after `timeout` seconds (None: no limit)."""
        ...


class SystemClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once for zero or less."""
        if seconds <= _LONGEST_PAUSE:
            if seconds > 0:
                time.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            time.sleep(min(remaining, _LONGEST_PAUSE))

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Return True once `event` is set, False after `timeout` seconds (None: no limit)."""
        if timeout is None or timeout <= _LONGEST_PAUSE:
            return event.wait(timeout)
        end = time.monotonic() + timeout
        while not event.wait(min(timeout, _LONGEST_PAUSE)):
            timeout = end - time.monotonic()
            if timeout <= 0:
                return False
        return True


SYSTEM_CLOCK: Clock = SystemClock()


class PausableClock:
    """A clock that can be paused; waits on it do not expire meanwhile.

    Args:
        clock: the underlying clock; the wall clock is never paused.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lost = 0.0
        self._stopped_at: float | None = None

    def stop(self) -> None:
        """Stand still from now on; nothing if it does already."""
        if self._stopped_at is None:
            self._stopped_at = self._clock.monotonic()

    def resume(self) -> None:
        """Continue from the pause; no-op if not paused."""
        stopped_at, self._stopped_at = self._stopped_at, None
        if stopped_at is not None:
            self._lost += self._clock.monotonic() - stopped_at

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, but for those for which it was stopped."""
        now = self._stopped_at
        return (self._clock.monotonic() if now is None else now) - self._lost

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._clock.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock; at once for zero or less."""
        end = self.monotonic() + seconds
        while (remaining := end - self.monotonic()) > 0:
            self._clock.sleep(remaining if self._stopped_at is None else _RECHECK_INTERVAL)

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Return True once `event` is set, False after `timeout` seconds of this clock."""
        if timeout is None:
            return self._clock.wait(event)
        end = self.monotonic() + timeout
        while not self._clock.wait(
            event, timeout if self._stopped_at is None else _RECHECK_INTERVAL
        ):
            timeout = end - self.monotonic()
            if timeout <= 0:
                return False
        return True


TEST_CLOCK = PausableClock()
"""The clock of waits in tests; paused while a debugger is active."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock after which nothing may go on.

    Args:
        at: the moment in the clock's monotonic seconds; `math.inf` for no limit.
        clock: the clock that `at` belongs to.
    """

    at: float
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def after(cls, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> Deadline:
        """The moment `seconds` from now; None for no limit."""
        return cls(math.inf if seconds is None else clock.monotonic() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero; `math.inf` without a limit."""
        return max(0.0, self.at - self.clock.monotonic())

    @property
    def expired(self) -> bool:
        """Return whether no time is left."""
        return self.clock.monotonic() >= self.at

    def at_most(self, seconds: float) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, self.clock.monotonic() + seconds), self.clock)


async def async_sleep(seconds: float) -> None:
    """Let other tasks of the event loop run for `seconds`."""
    import asyncio  # costs 40 ms, and every wait of a suite reads this module

    await asyncio.sleep(seconds)
