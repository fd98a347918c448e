"""Worker: a daemon thread with a name, a stop, a join with a limit, and the error that ended it.

A thread that does one thing and ends by itself needs none of that and is a plain thread: it serves
one connection, makes one call that may be abandoned, awaits one signal, or runs what has a `stop`
of its own, as a reflector. `wait.Group` is a port.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Clock


class Worker:
    """A daemon thread that pauses between rounds until it is woken or stopped.

    It starts once, and every method may be called from any thread.

    Args:
        name: the thread's name.
        run: the work; it returns by itself, or once `pause` has returned False.
        on_error: called in the thread with the error that ends it; None to leave that error to
            `threading.excepthook`.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[], object],
        clock: Clock = SYSTEM_CLOCK,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        self._run = run
        self._clock = clock
        self._on_error = on_error
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.error: Exception | None = None
        """The error that ended it; None without one."""

    @property
    def is_started(self) -> bool:
        """Return whether `start` was called."""
        return self._thread.ident is not None

    @property
    def is_alive(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._thread.is_alive()

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def start(self) -> None:
        """Start the thread; it ends at its first pause if it is stopped already.

        Raises:
            RuntimeError: it was started before.
        """
        self._thread.start()

    def wake(self) -> None:
        """End the present or the next pause."""
        self._wake.set()

    def stop(self) -> None:
        """Let the work end at its next pause; returns at once."""
        self._stopped = True
        self._wake.set()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait until woken; return False once stopped. Called by the work.

        Args:
            seconds: the maximum, by the clock; None for no limit.
        """
        if not self._stopped:
            self._clock.wait(self._wake, seconds)
            # What `wake` is called for happens before, so that the next round sees it.
            self._wake.clear()
        return not self._stopped

    def join(self, limit: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended or was never started.

        Args:
            limit: maximum seconds of real time; None for no limit.
        """
        if self.is_started and self._thread is not threading.current_thread():
            self._thread.join(limit)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._run()
        except Exception as error:  # a thread cannot raise to a caller, who reads `error`
            self.error = error
            if self._on_error is None:
                raise
            self._on_error(error)
