"""SIGUSR1: what is pending, told on demand, where nobody else has taken the signal."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SignalHandler"]


class SignalHandler:
    """Calls a function when SIGUSR1 comes, until it is restored.

    Python's own `signal.getsignal` knows nothing of handlers that were put in below it, as
    `faulthandler.register` does: the system is asked who has the signal.

    Args:
        tell: called in the main thread, in the midst of anything: it must take no lock.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell: Callable[[], object] | None = tell
        self._handler: int | None = None

    def install(self) -> None:
        """Take the signal if it is free; only the main thread can, others leave it as it is."""
        number = getattr(signal, "SIGUSR1", None)
        if (
            number is None
            or self._handler is not None
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(number) is not signal.SIG_DFL
            or _handler_of(number) != 0
        ):
            return
        signal.signal(number, self._told)
        self._handler = _handler_of(number)

    def restore(self) -> None:
        """Give the signal back, unless somebody has taken it from us meanwhile."""
        self._tell = None
        if self._handler is None:
            return
        # Bound methods are equal, not the same.
        ours = signal.getsignal(signal.SIGUSR1) == self._told
        if ours and _handler_of(signal.SIGUSR1) == self._handler:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    def _told(self, number: int, frame: Any) -> None:
        if self._tell is not None:
            self._tell()


def _handler_of(number: int) -> int | None:
    """Return the address of the handler that the system calls; 0 for none, None if not known."""
    import ctypes

    interpreter = getattr(ctypes, "pythonapi", None)
    if interpreter is None:
        return None
    find = interpreter.PyOS_getsig
    find.restype = ctypes.c_void_p
    return find(number) or 0
