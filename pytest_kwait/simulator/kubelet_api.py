"""The interface of a kubelet to the API server: logs, exec, attach, port forwarding, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Input
    from pytest_kwait.simulator.objects import Obj

LogLine = tuple[float, bytes]
"""The time of a line (seconds since the epoch), and the line with its newline if it has one."""


class LogPlace(NamedTuple):
    """The container instance that a log is of; `instance` is its id."""

    namespace: str
    pod: str
    container: str
    instance: str


class ContainerOutput(Protocol):
    """The log of a container instance."""

    def read_from(self, position: int) -> tuple[int, list[LogLine]]:
        """Return the lines from a position on, and the position after them."""


class StartError(Exception):
    """A command cannot be started.

    Args:
        why: the reason in the container runtime's words.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)


class Output(Protocol):
    """The output of a process."""

    @property
    def code(self) -> int | None:
        """The exit code; None while the process runs."""

    @property
    def failure(self) -> str:
        """Why the process could not be started; empty if it was."""

    async def take(self) -> tuple[int, bytes] | None:
        """Wait for the next piece and return it with its stream; None at the end."""


class Session(Protocol):
    """A client's connection to a process."""

    @property
    def stdin(self) -> Input | None:
        """The input; None if the process takes none."""

    @property
    def output(self) -> Output:
        """The output and exit code."""

    @property
    def stop(self) -> Callable[[], None]:
        """Ends the process, or detaches from it."""

    @property
    def resize(self) -> Callable[[int, int], None] | None:
        """Sets columns and rows of the terminal; None without a real one."""


class Ports(Protocol):
    """The ports of a pod."""

    async def connect(self, port: int) -> Session | None:
        """Connect to a port; None if the connection is refused."""


class KubeletApi(Protocol):
    """A kubelet, as the API server sees it."""

    def pods(self) -> Obj:
        """Return a PodList of the node's pods."""

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[LogLine]:
        """Return the lines that a container has logged so far."""

    def follow(self, namespace: str, pod: str, container: str) -> AsyncIterator[LogLine]:
        """Yield the lines of a container's log until it ends."""

    def container_logs(self) -> Iterator[tuple[LogPlace, ContainerOutput]]:
        """Return the logs of all containers, those of their previous instances included."""

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> Session:
        """Start a command in a container.

        Raises:
            LookupError: the container does not run.
            StartError: the program does not exist.
        """

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Session:
        """Attach to a container's program.

        Raises:
            LookupError: the container does not run.
        """

    def network_of(self, namespace: str, pod: str) -> Ports:
        """Return the ports of a running pod.

        Raises:
            LookupError: the pod does not run.
        """

    async def dial(self, address: str, port: int, *, tls: bool = False) -> Session | None:
        """Connect to an address on the node; None if the connection is refused.

        Args:
            tls: whether to speak TLS, without a check of the certificate; a simulated program
                never does.

        Raises:
            OSError: the program's TLS fails.
        """

    def find_network(self, address: str) -> Network | None:
        """Return the ports behind an address of a pod or node; None for others."""

    def list_addresses(self) -> list[tuple[str, Obj]]:
        """Return the node's pods that have an address of their own until they end, with it.

        A program may run before the pod's status has the address.
        """

    def running_pods(self) -> Obj:
        """Return a PodList of the pods with running containers."""

    def counts(self) -> dict[str, int]:
        """Return the number of containers by state."""
