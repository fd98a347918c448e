"""Telling handlers of everything again, each at its own period: for what was dropped or changed.

Ported from client-go `tools/cache/shared_informer.go` (resyncCheckPeriod, shouldResync,
determineNextResync). Deliberately different: there is no common period at which all are checked,
so a handler that comes late gets the period that it asked for, not a multiple of the others'.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Clock

__all__ = ["MINIMUM_RESYNC_PERIOD", "Resyncer", "parse_resync_period"]

MINIMUM_RESYNC_PERIOD = 1.0
"""Seconds: shorter periods are made this long."""

_logger = logging.getLogger("pytest_kwait.cache")
_Listener = TypeVar("_Listener")


def parse_resync_period(period: wait.Duration | None, name: str) -> float:
    """Return a resync period in seconds; 0 for never.

    Args:
        period: None and 0 mean never; below a second it is a second, which is logged.
        name: whose it is, for the log.

    Raises:
        InvalidArgument: no duration, or a negative one.
    """
    seconds = 0.0 if period is None else wait.to_seconds(period, what="resync")
    if 0 < seconds < MINIMUM_RESYNC_PERIOD:
        _logger.warning(
            "The resync period of %s, %s, is too short: it is %s",
            name,
            wait.format_duration(seconds),
            wait.format_duration(MINIMUM_RESYNC_PERIOD),
        )
        return MINIMUM_RESYNC_PERIOD
    return seconds


class Resyncer(Generic[_Listener]):
    """Calls a function for each listener whenever its period has passed, in a thread of its own.

    The thread is there only once there is a listener with a period.

    Args:
        name: what to call the thread.
        clock: the time that periods are measured by.
        tell: called with a listener that is due; returns quickly.
    """

    def __init__(self, name: str, clock: Clock, tell: Callable[[_Listener], object]) -> None:
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._periods: dict[_Listener, float] = {}
        self._due: dict[_Listener, float] = {}
        self._running = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kwait resync of {name}")
        self._thread.daemon = True

    def add(self, listener: _Listener, period: float) -> None:
        """Call for a listener every `period` seconds from now on; 0 for never."""
        if period <= 0:
            return
        with self._lock:
            self._periods[listener] = period
            self._due[listener] = self._clock.monotonic() + period
        self._start_if_needed()
        self._wake.set()

    def remove(self, listener: _Listener) -> None:
        """Call for a listener no more."""
        with self._lock:
            self._periods.pop(listener, None)
            self._due.pop(listener, None)

    def start(self) -> None:
        """Begin; periods are counted from when their listeners came."""
        self._running = True
        self._start_if_needed()

    def stop(self) -> None:
        """End; returns at once."""
        self._stopped.set()
        self._wake.set()

    def _start_if_needed(self) -> None:
        with self._lock:
            if (
                self._running
                and self._periods
                and not self._stopped.is_set()
                and self._thread.ident is None
            ):
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            for listener in self._take_due():
                self._tell(listener)
            with self._lock:
                earliest = min(self._due.values(), default=None)
            if self._stopped.is_set():
                return
            pause = None if earliest is None else max(0.0, earliest - self._clock.monotonic())
            self._clock.wait(self._wake, pause)

    def _take_due(self) -> list[_Listener]:
        """Return the listeners whose time has come, and set their next."""
        now = self._clock.monotonic()
        with self._lock:
            due = [listener for listener, at in self._due.items() if at <= now]
            for listener in due:
                self._due[listener] = now + self._periods[listener]
        return due
