"""The clock of the machine, which a test moves on."""

from __future__ import annotations

from pytest_kwait.client.deadlines import WATCHDOG
from pytest_kwait.clock import SystemClock


class AdvancedClock(SystemClock):
    """The clock of the machine, which a test moves on."""

    def __init__(self) -> None:
        self._advanced = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._advanced

    def advance(self, seconds: float) -> None:
        """Move on; guards that are due by then cut off their requests."""
        self._advanced += seconds
        if WATCHDOG._worker is not None:
            WATCHDOG._worker.wake()
