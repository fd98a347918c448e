"""The embedded cluster's clock: real time, with the controllers' constants scaled.

Wall clock and monotonic clock run at their real pace, so that stamps, `sleep 5` in a container
and clients' own time agree. Only the pauses that controllers make are scaled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_kwait.apimachinery.times import format_micro_time, format_time
from pytest_kwait.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAST", "REAL", "SimClock", "Timer"]

T = TypeVar("T")

FAST = 0.05
REAL = 1.0


class _Cancellable(Protocol):
    def cancel(self) -> None: ...


class Timer:
    """A call that will be made later, until it is cancelled.

    Args:
        when: the moment of the monotonic clock.
        handle: what cancels it, for example the event loop's own handle.
    """

    __slots__ = ("_handle", "when")

    def __init__(self, when: float, handle: _Cancellable) -> None:
        self.when = when
        self._handle = handle

    def cancel(self) -> None:
        """Do not make the call; nothing happens if it was made."""
        self._handle.cancel()


class SimClock:
    """Time and timers.

    Args:
        scale: what a second of a controller's constants takes in real seconds.
        clock: where time comes from.
    """

    def __init__(self, scale: float = REAL, clock: Clock = SYSTEM_CLOCK) -> None:
        self.scale = scale
        self.may_suspend: Callable[[], bool] = _never
        """Whether what is called may have to be laid aside while somebody else answers."""
        self._shared: dict[type, object] = {}
        self._clock = clock
        self._stamped = (-1, "")
        self._ahead = 0.0

    def get_shared(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the cluster's only object of a class, made on first use."""
        found = self._shared.get(kind)
        if not isinstance(found, kind):
            found = self._shared[kind] = make()
        return found

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._clock.time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Set the cluster's wall clock ahead, or back; what has been waited for goes on."""
        self._ahead += seconds

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()

    def stamp(self) -> str:
        """The present as the API's `Time`, cut to seconds."""
        second = int(self.time())
        if self._stamped[0] != second:
            self._stamped = (second, format_time(second))
        return self._stamped[1]

    def micro_stamp(self) -> str:
        """The present as the API's `MicroTime`."""
        return format_micro_time(self.time())

    def call_later(
        self, seconds: float, call: Callable[..., object], *args: object, scaled: bool = True
    ) -> Timer:
        """Make the call in the running event loop after `seconds`.

        Args:
            seconds: the pause; a controller's constant unless `scaled` is False.
            call: what to call.
            args: the call's arguments.
            scaled: False for pauses that are no constant of the cluster (`sleep 5`, for example).
        """
        pause = seconds * self.scale if scaled else seconds
        if pause <= 0:
            return self.call_soon(call, *args)
        handle = asyncio.get_running_loop().call_later(pause, self._call, call, *args)
        return Timer(self.monotonic() + pause, handle)

    def call_soon(self, call: Callable[..., object], *args: object) -> Timer:
        """Make the call in the next turn of the running event loop."""
        handle = asyncio.get_running_loop().call_soon(self._call, call, *args)
        return Timer(self.monotonic(), handle)

    def _call(self, call: Callable[..., object], *args: object) -> None:
        if self.may_suspend():
            # Not at import: hardly any cluster has webhooks.
            from pytest_kwait.simulator.suspendable import SuspendableTask, raise_error

            SuspendableTask(lambda: call(*args), raise_error)
        else:
            call(*args)


def _never() -> bool:
    return False
