"""User code under a hard limit: lookups of users, which nothing can interrupt."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Deadline

_Result = TypeVar("_Result")

_RECHECK_INTERVAL = 0.5
"""Seconds between two checks of a deadline, whose clock stands still in a debugger."""


class UserCode:
    """Runs the user code of one wait in threads, abandoned when the deadline passes.

    A thread has the context variables of the caller. After an abandoned call no other is made:
    user code is never called twice at the same time.
    """

    def __init__(self) -> None:
        self.hangs = False
        """True once a call was abandoned."""

    def run(self, call: Callable[[], _Result], deadline: Deadline) -> _Result:
        """Return the result of a call; its exceptions propagate, those of pytest too.

        Raises:
            DeadlineExceeded: this call did not return in time, or an earlier one.
        """
        if self.hangs:
            raise DeadlineExceeded
        results: list[_Result] = []
        errors: list[BaseException] = []

        def run_call() -> None:
            try:
                results.append(call())
            except BaseException as error:  # such as pytest.fail
                errors.append(error)

        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(run_call,), name="kwait-user-code", daemon=True
        )
        thread.start()
        while thread.is_alive() and not deadline.expired:
            thread.join(min(deadline.remaining, _RECHECK_INTERVAL))
        if thread.is_alive():
            self.hangs = True
            raise DeadlineExceeded
        for error in errors:
            raise error
        return results[0]
