"""How fast the events of a stream come, and so how long more of them may gather.

Most of what an event costs is to be woken up for it. Where events come thick several are read at
one go; the longer that lasts, the less the time of one of them matters.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.clock import Clock

__all__ = ["EventPace"]

GATHER = 0.05
"""Seconds in which the events of a busy stream gather."""

LONG_GATHER = 0.1
"""Seconds in which they gather once it has been busy for `_LONG` events on end."""

_LONG = 200
_BUSY = 8
"""So many events within `_BUSY_FOR`, and the time they were let gather, make a stream busy."""

_BUSY_FOR = 0.1
_BLOCKED = 0.0005


class EventPace:
    """How fast events come.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked = clock.monotonic()
        self._last: deque[float] = deque([-math.inf] * _BUSY, _BUSY)
        self._on_end = 0
        self._gathered = 0.0
        self.thick = False
        """Whether events come thick."""

    def gather(self, events: int = 1, *, drained: bool = False) -> float:
        """Note events that came together; return for how long to let more gather before the next.

        That pays where they come thick; whatever has gathered already is read first.

        Args:
            events: how many.
            drained: whether nothing is left to be read at once. Where nobody knows, what had to be
                waited for tells.

        Returns:
            seconds, 0 for not at all.
        """
        now = self._clock.monotonic()
        waited, self._asked = now - self._asked, now
        self.thick = now - self._last[0] < _BUSY_FOR + self._gathered
        self._on_end = self._on_end + events if self.thick else 0
        self._last.extend(itertools.repeat(now, min(events, _BUSY)))
        if not self.thick or not (drained or waited > _BLOCKED):
            self._gathered = 0.0
        else:
            self._gathered = GATHER if self._on_end < _LONG else LONG_GATHER
        return self._gathered

    def record_wakeup(self) -> None:
        """Note that the next event is asked for now."""
        self._asked = self._clock.monotonic()
