"""The interface of a kubelet to the API server: logs, exec, attach, port forwarding, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytest_kwait.simulator.busybox.os.streams import Input
    from pytest_kwait.simulator.objects import Obj

__all__ = ["KubeletApi", "LogLine", "Ports", "Session", "StartError"]

LogLine = tuple[float, bytes]
"""When a line was written (seconds since the epoch), and the line without its end."""


class StartError(Exception):
    """A command cannot be started.

    Args:
        why: in the container runtime's words.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)


class Output(Protocol):
    """What a process writes."""

    @property
    def code(self) -> int | None:
        """How it ended; None as long as it has not."""
        ...

    async def take(self) -> tuple[int, bytes] | None:
        """The next piece and its stream; None at the end."""
        ...


class Session(Protocol):
    """A process that somebody follows."""

    @property
    def stdin(self) -> Input | None:
        """Where to send its input; None where it takes none."""
        ...

    @property
    def output(self) -> Output:
        """Its output and how it ended."""
        ...

    @property
    def stop(self) -> Callable[[], None]:
        """Ends it, or lets go of it."""
        ...


class Ports(Protocol):
    """The ports of a pod."""

    def connect(self, port: int) -> Session | None:
        """A connection to the port; None where it is refused."""
        ...


class KubeletApi(Protocol):
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

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> Session:
        """Start a command in a container.

        Raises:
            LookupError: the container does not run.
            StartError: there is no such program.
        """
        ...

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Session:
        """Follow a container's own program.

        Raises:
            LookupError: the container does not run.
        """
        ...

    def network_of(self, namespace: str, pod: str) -> Ports:
        """The ports of a pod.

        Raises:
            LookupError: none of its containers runs.
        """
        ...

    def dial(self, address: str, port: int) -> Session | None:
        """A connection to an address on the node; None where it is refused."""
        ...

    def running_pods(self) -> Obj:
        """The PodList of what the container runtime runs."""
        ...

    def counts(self) -> dict[str, int]:
        """How many containers there are, by their state."""
        ...
