"""Groups: start several threads and wait for all of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.wait.context import Context

__all__ = ["Group"]


class Group:
    """Starts functions in threads of their own and waits for all of them.

    Source: util/wait/wait.go Group.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[Exception] = []
        self._lock = threading.Lock()

    def start(self, f: Callable[[], object]) -> None:
        """Call `f` in a new thread, which does not keep the process alive."""
        thread = threading.Thread(target=self._run, args=(f,), daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def start_with_channel(
        self, stop: threading.Event, f: Callable[[threading.Event], object]
    ) -> None:
        """Call `f(stop)` in a new thread; it should return once `stop` is set."""
        self.start(lambda: f(stop))

    def start_with_context(self, ctx: Context, f: Callable[[Context], object]) -> None:
        """Call `f(ctx)` in a new thread; it should return once the context has ended."""
        self.start(lambda: f(ctx))

    def wait(self) -> None:
        """Return once every function started so far has returned; at once if there was none.

        Raises:
            Exception: the exception of a single failed function.
            ExceptionGroup: the exceptions of several failed functions.
        """
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()
        with self._lock:
            errors, self._errors = self._errors, []
        if len(errors) > 1:
            raise ExceptionGroup(f"{len(errors)} functions of a group failed", errors)
        for error in errors:
            raise error

    def _run(self, f: Callable[[], object]) -> None:
        try:
            f()
        except Exception as error:  # raised by `wait`: a thread has no caller
            with self._lock:
                self._errors.append(error)
