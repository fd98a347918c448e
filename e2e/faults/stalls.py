"""How long the machine kept this process from running: what no wait can be blamed for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ProcessStalls"]

STEP = 0.01
"""Seconds between two looks at the clock."""


class ProcessStalls:
    """A thread that does nothing but look at the clock, and notes when it was kept from that.

    A wait that oversleeps, or hangs on a socket, does not keep it; a machine that is busy with
    others does.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stalls")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> float:
        """Return the seconds of a time, in monotonic seconds, in which nothing here could run."""
        parts = (min(until, end) - max(since, begin) for since, until in list(self._spans))
        return sum(part for part in parts if part > 0)

    def _watch(self) -> None:
        due = SYSTEM_CLOCK.monotonic() + STEP
        while not self._over.wait(STEP):
            now = SYSTEM_CLOCK.monotonic()
            if now - due > STEP:
                self._spans.append((due, now))
            due = SYSTEM_CLOCK.monotonic() + STEP
