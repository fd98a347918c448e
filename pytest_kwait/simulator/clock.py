"""The embedded cluster's clock: real time, with the controllers' constants scaled.

Wall clock and monotonic clock run at their real pace, so that stamps, `sleep 5` in a container
and clients' own time agree. Only the pauses that controllers make are scaled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.apimachinery.times import format_micro_time, format_time
from pytest_kwait.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.exploration.exploration import Exploration

FAST = 0.05
REAL = 1.0


class _Cancellable(Protocol):
    def cancel(self) -> None: ...


class ScheduledCall:
    """A scheduled call.

    Args:
        when: the time of the monotonic clock.
        handle: the handle that cancels it.
    """

    __slots__ = ("_handle", "when")

    def __init__(self, when: float, handle: _Cancellable) -> None:
        self.when = when
        self._handle = handle

    def cancel(self) -> None:
        """Cancel the call; no-op if it was made."""
        self._handle.cancel()


class SimClock:
    """Time and timers.

    Args:
        scale: real seconds per second of a controller's constants.
        clock: the source of time.
    """

    def __init__(self, scale: float = REAL, clock: Clock = SYSTEM_CLOCK) -> None:
        self.scale = scale
        self.exploration: Exploration | None = None
        """What perturbs the cluster; None for nothing."""
        self.run: Callable[..., object] = _run
        """Makes a call that is due."""
        self._clock = clock
        self._stamped = (-1, "")
        self._ahead = 0.0
        self._jump_listeners: list[Callable[[], None]] = []

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._clock.time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Set the wall clock ahead or back; timers are not affected, listeners are called."""
        self._ahead += seconds
        for listener in self._jump_listeners:
            listener()

    def listen_to_jumps(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each jump of the wall clock."""
        self._jump_listeners.append(listener)

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()

    def stamp(self) -> str:
        """Return the current time as the API's `Time`, in seconds."""
        second = int(self.time())
        if self._stamped[0] != second:
            self._stamped = (second, format_time(second))
        return self._stamped[1]

    def micro_stamp(self) -> str:
        """Return the current time as the API's `MicroTime`."""
        return format_micro_time(self.time())

    def call_later(
        self, seconds: float, call: Callable[..., object], *args: object, scaled: bool = True
    ) -> ScheduledCall:
        """Schedule a call in the running event loop after `seconds`.

        Args:
            seconds: the delay.
            call: the function.
            args: its arguments.
            scaled: False for a delay that is no constant of the cluster (`sleep 5`, for example).
        """
        pause = seconds * self.scale if scaled else seconds
        if pause <= 0:
            return self.call_soon(call, *args)
        handle = asyncio.get_running_loop().call_later(pause, self.run, call, *args)
        return ScheduledCall(self.monotonic() + pause, handle)

    def call_soon(self, call: Callable[..., object], *args: object) -> ScheduledCall:
        """Schedule a call in the next iteration of the running event loop."""
        handle = asyncio.get_running_loop().call_soon(self.run, call, *args)
        return ScheduledCall(self.monotonic(), handle)


def _run(call: Callable[..., object], *args: object) -> None:
    call(*args)
