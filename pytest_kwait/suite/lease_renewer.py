"""Renewal of a Lease that this process holds: a run's, an environment's, a member's of the lock.

The Lease lasts for several renewals, so a failed one is retried at the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.errors import KwaitError
from pytest_kwait.wait.context import DeadlineExceeded
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Clock


def _continue(error: Exception) -> bool:
    return True


class LeaseRenewer:
    """Renews a Lease in a thread until it is stopped.

    Args:
        name: the thread's name.
        renew: sends the requests of one renewal.
        interval: seconds between two renewals.
        clock: the clock of these.
        on_failure: called with the error of a failed renewal; returns whether to continue.
    """

    def __init__(
        self,
        name: str,
        renew: Callable[[], object],
        interval: float,
        clock: Clock,
        on_failure: Callable[[Exception], bool] = _continue,
    ) -> None:
        self._renew = renew
        self._interval = interval
        self._on_failure = on_failure
        self._is_urgent = False
        self._worker = Worker(name, self._run, clock)

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._worker.is_stopped

    def start(self, *, at_once: bool = False) -> None:
        """Renew from now on; ends at once if it is stopped already.

        Args:
            at_once: whether the first renewal comes before the first interval.
        """
        self._is_urgent = at_once
        self._worker.start()

    def wake(self) -> None:
        """Renew now."""
        self._worker.wake()

    def stop(self) -> None:
        """Renew no more; a renewal that has begun continues."""
        self._worker.stop()

    def join(self, limit: float) -> bool:
        """Wait for the end after `stop`; return whether it has ended or was never started.

        Args:
            limit: maximum seconds of real time.
        """
        return self._worker.join(limit)

    def _run(self) -> None:
        pause = 0.0 if self._is_urgent else self._interval
        while self._worker.pause(pause):
            pause = self._interval
            try:
                self._renew()
            except (KwaitError, DeadlineExceeded) as error:
                if not self._on_failure(error):
                    return
