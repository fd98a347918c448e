"""Events that can be awaited together: each tells who asked when it is set."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Signal"]


class Signal(threading.Event):
    """An event that is set once, for good, and calls back those who are interested.

    A thread can wait for one `threading.Event` only. Through `on_set` it waits for any of many
    with one event of its own, without polling, as Go's `select` does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._interest = threading.Lock()
        self._calls: list[Callable[[], object]] = []

    def set(self) -> None:
        """Set the event; the first time calls those who asked for it, in this thread."""
        with self._interest:
            super().set()
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def on_set(self, call: Callable[[], object]) -> Callable[[], None]:
        """Have `call` called once the event is set, at once if it is.

        Returns:
            A function that takes the interest back.
        """
        with self._interest:
            waiting = not self.is_set()
            if waiting:
                self._calls.append(call)
        if not waiting:
            call()
        return lambda: self._forget(call)

    def _forget(self, call: Callable[[], object]) -> None:
        with self._interest:
            if call in self._calls:
                self._calls.remove(call)
