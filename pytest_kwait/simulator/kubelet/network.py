"""The ports of one pod, which all of its containers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.processes import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelet.runs import Session

__all__ = ["Network"]


class Network:
    """Who listens where."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[Pipe], Session]] = {}

    def listen(self, port: int, accept: Callable[[Pipe], Session]) -> bool:
        """Let `accept` serve the port; False where somebody else does."""
        if port in self._listeners:
            return False
        self._listeners[port] = accept
        return True

    def release(self, port: int) -> None:
        """Nobody listens on the port any more."""
        self._listeners.pop(port, None)

    def connect(self, port: int) -> Session | None:
        """A connection to the port; None where it is refused."""
        accept = self._listeners.get(port)
        return None if accept is None else accept(Pipe())
