"""Requests to end: the first one ends the program in good order, the second one at once."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["exit_at_once", "stop_on_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)


def stop_on_signals(stop: threading.Event) -> None:
    """From now on, SIGTERM and SIGINT set `stop`; a second one ends the process with status 1.

    Source: apiserver pkg/server/signal.go SetupSignalHandler.
    """
    # A handler may run while its own thread holds the lock of any event; this queue has none.
    arrived: SimpleQueue[int] = SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.put(number)

    def obey() -> None:
        number = arrived.get()
        _log.info("Received %s, stopping", signal.Signals(number).name)
        stop.set()
        arrived.get()
        exit_at_once(1)

    for number in _SIGNALS:
        signal.signal(number, note)
    threading.Thread(target=obey, name="kwait-scheduler-signals", daemon=True).start()


def exit_at_once(status: int) -> NoReturn:
    """End the process with what was logged written, and wait for no thread."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
