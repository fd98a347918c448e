"""Test doubles for suites that test their own waits without waiting."""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FakeClock"]

_NANOSECONDS = 1_000_000_000
_REAL_TIMEOUT = 10.0
_RECHECK_INTERVAL = 0.001


class FakeClock:
    """A `Clock` whose time moves only by `advance`.

    With `auto` (the default, for tests of one thread) every `sleep` and `wait` moves the time on
    itself and returns at once. Without it they block their thread until `advance` is called by
    another. Time is kept in whole nanoseconds, so that ten steps of 0.1 s are one second exactly.

    Args:
        start: the first value of `monotonic`, in seconds.
        epoch: the first value of `time`, in seconds since the epoch.
        auto: whether sleeping moves the time on.
    """

    def __init__(
        self, *, start: float = 0.0, epoch: float = 1_767_225_600.0, auto: bool = True
    ) -> None:
        self.auto = auto
        self.pauses: list[float] = []
        """The seconds of all `sleep` and limited `wait` calls, in order."""
        self._epoch = epoch - start
        self._now = _nanoseconds(start)
        self._moved = threading.Condition()
        self._blocked = 0
        self._calls: list[tuple[int, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Seconds from `start` on."""
        return self._now / _NANOSECONDS

    def time(self) -> float:
        """Seconds since the epoch: moves together with `monotonic`."""
        return self._epoch + self.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed; at once for zero or less."""
        self.wait(threading.Event(), max(0.0, seconds))

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Return True once `event` is set, False once `timeout` seconds have passed.

        Raises:
            AssertionError: nothing can end the wait, or nothing did for ten seconds of real time.
        """
        if timeout is not None:
            self.pauses.append(timeout)
        if event.is_set() or (timeout is not None and timeout <= 0):
            return event.is_set()
        end = None if timeout is None else self._now + _nanoseconds(timeout)
        return self._run_until(event, end) if self.auto else self._block_until(event, end)

    def advance(self, seconds: float) -> None:
        """Advance by `seconds`: run calls of `call_later` that are due, wake sleepers."""
        self._move_to(self._now + _nanoseconds(seconds))

    def call_later(self, seconds: float, call: Callable[[], object]) -> None:
        """Call `call` when `seconds` have passed, in the thread that moves the time."""
        with self._moved:
            due = self._now + _nanoseconds(seconds)
            heapq.heappush(self._calls, (due, next(self._order), call))

    @property
    def blocked(self) -> int:
        """The number of threads blocked in `sleep` or `wait`; always 0 with `auto`."""
        return self._blocked

    def until_blocked(self, threads: int = 1) -> None:
        """Return once at least that many threads are held in `sleep` or `wait`.

        Raises:
            AssertionError: they were not within ten seconds of real time.
        """
        with self._moved:
            if not self._moved.wait_for(lambda: self._blocked >= threads, _REAL_TIMEOUT):
                raise AssertionError(
                    f"{self._blocked} of {threads} threads reached the clock in {_REAL_TIMEOUT:g} s"
                )

    def _run_until(self, event: threading.Event, end: int | None) -> bool:
        while not event.is_set():
            due = self._next_call()
            if due is not None and (end is None or due <= end):
                self._move_to(due)
            elif end is None:
                return _wait_for_thread(event)
            else:
                self._move_to(end)
                break
        return event.is_set()

    def _block_until(self, event: threading.Event, end: int | None) -> bool:
        with self._moved:
            self._blocked += 1
            self._moved.notify_all()
        try:
            for _ in range(int(_REAL_TIMEOUT / _RECHECK_INTERVAL)):
                if event.is_set() or (end is not None and self._now >= end):
                    return event.is_set()
                event.wait(_RECHECK_INTERVAL)
        finally:
            with self._moved:
                self._blocked -= 1
        raise AssertionError(f"the clock was not moved on within {_REAL_TIMEOUT:g} s")

    def _next_call(self) -> int | None:
        with self._moved:
            return self._calls[0][0] if self._calls else None

    def _move_to(self, moment: int) -> None:
        while True:
            with self._moved:
                if not self._calls or self._calls[0][0] > moment:
                    self._now = max(self._now, moment)
                    return
                due, _, call = heapq.heappop(self._calls)
                self._now = max(self._now, due)
            call()


def _nanoseconds(seconds: float) -> int:
    """Whole nanoseconds; at least one for any time above zero, so that waiting always moves on."""
    return max(1, round(seconds * _NANOSECONDS)) if seconds > 0 else round(seconds * _NANOSECONDS)


def _wait_for_thread(event: threading.Event) -> bool:
    """Wait in real time: with no limit and nothing planned, only another thread can set `event`."""
    if not event.wait(_REAL_TIMEOUT):
        raise AssertionError(
            f"a wait without limit: the event was not set within {_REAL_TIMEOUT:g} s"
        )
    return True
