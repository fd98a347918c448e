"""Who leads, told in the order in which it was seen, by a thread that nothing waits for."""

from __future__ import annotations

import logging
import queue
import threading
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NewLeaderNotifier"]

_log = logging.getLogger(__name__)


class NewLeaderNotifier:
    """Calls back once for each leader that is not the one before, one call after the other.

    A call that takes long holds up those after it and nothing else; one that raises is logged.
    Upstream starts a thread for each, in no order.

    Args:
        callback: what to call; None for nothing.
        name: of the lock, for the log.
    """

    def __init__(self, callback: Callable[[str], object] | None, name: str) -> None:
        self._callback = callback
        self._name = name
        self._leader = ""
        self._seen: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def report_leader(self, leader: str) -> None:
        """Note who leads now; empty for nobody."""
        if leader == self._leader:
            return
        self._leader = leader
        if self._callback is None:
            return
        self._seen.put(leader)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kwait-new-leader", daemon=True)
            self._thread.start()

    def close(self, patience: float) -> None:
        """Return once all that was seen is told, or `patience` seconds have passed."""
        if self._thread is not None:
            self._seen.put(None)
            self._thread.join(patience)

    def _run(self) -> None:
        while (leader := self._seen.get()) is not None and self._callback is not None:
            wait.handle_crash(partial(self._callback, leader), self._failed)()

    def _failed(self, error: Exception) -> None:
        _log.error("on_new_leader has failed on lock %s", self._name, exc_info=error)
