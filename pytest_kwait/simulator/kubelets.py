"""What the API server asks of a node's kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["Execution", "Kubelet", "LogLine"]

Execution = tuple[int, bytes, bytes]
"""How a command ended: exit code, standard output, standard error."""

LogLine = tuple[float, bytes]
"""When a line was written (seconds since the epoch), and the line without its end."""


class Kubelet(Protocol):
    """A node's agent, as far as the API server speaks with it."""

    def pods(self) -> Obj:
        """The PodList of what the node runs."""
        ...

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[LogLine]:
        """What a container has written so far."""
        ...

    def follow(self, namespace: str, pod: str, container: str) -> AsyncIterator[LogLine]:
        """What a container writes from its first line until it ends."""
        ...

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str]
    ) -> Execution | Awaitable[Execution]:
        """Run a command in a container, at once or while others go on."""
        ...
