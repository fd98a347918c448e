"""System calls, processes and signals.

A program is a generator of system calls (sleep, read, write, listen, wait) that returns its
exit code. The process table decides how long a second is and which process runs next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_kwait.simulator.busybox.os.files import FileSystem

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.fds import OpenFile
    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Pipe, Sink
    from pytest_kwait.simulator.clock import ScheduledCall

SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
    "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16,
    "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24,
    "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "POLL": 29, "PWR": 30, "SYS": 31,
}  # fmt: skip

_IGNORED_SIGNALS = frozenset({17, 18, 23, 28})
_STOP_SIGNALS = frozenset({19, 20, 21, 22})


class NonlocalExit(Exception):
    """Base of exceptions that unwind nested programs of a process."""


class ProcessWriteError(NonlocalExit):
    """A write failed because no space is left; `str` is the reason."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Sleep for real `seconds`; `math.inf` until killed."""

    seconds: float


@dataclass(slots=True)
class Write:
    """Write `data` to a file descriptor; sets `error` on failure."""

    stream: int
    data: bytes
    error: str = ""


@dataclass(slots=True)
class Read:
    """Read from a pipe or file descriptor into `data`; empty at the end.

    Args:
        source: a pipe, or a file descriptor.
        most: the most bytes.
        line: whether to stop after a line.
        signals: whether a handled signal ends the wait and sets `interrupted`.
        seconds: the time limit; sets `late` when it is over.
    """

    source: Pipe | int
    most: int = 1 << 16
    line: bool = False
    signals: bool = False
    seconds: float | None = None
    data: bytes = b""
    error: str = ""
    interrupted: bool = False
    late: bool = False


@dataclass(slots=True)
class Listen:
    """Serve connections to a port of the pod, each with a process made by `serve`.

    Sets `error` if the port is taken.
    """

    port: int
    context: ProcessContext
    serve: Callable[[ProcessContext, Pipe], Process]
    error: str = ""


@dataclass(slots=True)
class Await:
    """Wait until `done` returns True; it is checked whenever a process ends or reads.

    Args:
        done: the condition.
        signals: whether a handled signal ends the wait.
        seconds: the time limit.
    """

    done: Callable[[], bool]
    signals: bool = False
    seconds: float | None = None


@dataclass(slots=True)
class Call:
    """Run another program in this process; sets `code`."""

    process: Process
    code: int = 0

    def run(self) -> Process:
        """Run the program and record its exit code."""
        self.code = yield from self.process
        return self.code


class ComputeStep:
    """A step of computation."""

    __slots__ = ()


STEP = ComputeStep()

Effect = Await | Call | Listen | Sleep | Read | ComputeStep | Write
Process = Generator[Effect, None, int]


class Processes(Protocol):
    """The processes of a container, as its programs see them."""

    @property
    def account(self) -> MemoryAccount:
        """The container's memory."""

    def start(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, name: str,
        fds: dict[int, OpenFile], *, parent: int = 0, sink: Sink | None = None, now: bool = False,
    ) -> Task:  # fmt: skip
        """Start a process that owns `fds`."""

    def find(self, pid: int) -> Task | None:
        """Return a running process by its number."""

    def all(self) -> list[Task]:
        """Return the running processes, oldest first."""

    def stop(self, task: Task, code: int) -> None:
        """End a process at once."""

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal; False if there is no such process."""

    def handles(self, pid: int, number: int = 15) -> bool:
        """Return whether a process handles a signal itself."""


class ProcessCredentials(NamedTuple):
    """A user by its number, and its groups.

    Args:
        groups: supplementary groups.
        is_privileged: whether its container has all rights on the node.
    """

    number: int = 0
    group: int = 0
    groups: tuple[int, ...] = ()
    is_privileged: bool = False


ROOT = ProcessCredentials()


@dataclass(slots=True)
class ProcessContext:
    """The container and process that a program runs in.

    Args:
        now: returns seconds since the epoch.
        env: the environment variables.
        files: the container's files.
        hostname: the pod's host name.
        tty: whether stdin is a terminal.
        cwd: the working directory.
        fds: the open files.
        network: the pod's network.
        user: the user and its groups.
    """

    now: Callable[[], float]
    env: dict[str, str] = field(default_factory=dict)
    files: FileSystem = field(default_factory=lambda: FileSystem(lambda: 0.0))
    hostname: str = "localhost"
    tty: bool = False
    cwd: str = "/"
    fds: dict[int, OpenFile] = field(default_factory=dict)
    _tasks: Processes | None = None
    _task: Task | None = None
    network: Network | None = None
    user: ProcessCredentials = ROOT

    @property
    def tasks(self) -> Processes:
        """The processes of the container."""
        if self._tasks is None:
            raise RuntimeError("this program runs outside of a container")
        return self._tasks

    @property
    def task(self) -> Task:
        """The process that runs the program."""
        if self._task is None:
            raise RuntimeError("this program runs outside of a process")
        return self._task

    def resolve_path(self, name: str) -> str:
        """Return the absolute path of a name."""
        return self.files.join_path(self.cwd, name)

    def for_task(self, tasks: Processes, task: Task, fds: dict[int, OpenFile]) -> ProcessContext:
        """Return the context of another process with its own files."""
        return ProcessContext(
            self.now, self.env, self.files, self.hostname, self.tty, self.cwd, fds, tasks, task,
            self.network, self.user,
        )  # fmt: skip

    def with_env(self, env: dict[str, str]) -> ProcessContext:
        """Return a context with other variables."""
        return ProcessContext(
            self.now, env, self.files, self.hostname, self.tty, self.cwd, self.fds, self._tasks,
            self._task, self.network, self.user,
        )  # fmt: skip


def parse_signal(text: str) -> int | None:
    """Return the number of a signal by name or number; None if it is unknown."""
    if text.isdigit():
        return int(text) if int(text) < 65 else None
    return SIGNALS.get(text.upper().removeprefix("SIG"))


class ForkError(Exception):
    """The container has too many processes."""


class Interrupted(NonlocalExit):
    """Ctrl-C at the shell's terminal."""


@dataclass(slots=True, eq=False)
class Task:
    """A process.

    Args:
        pid: its number.
        parent: the number of its parent.
        name: its command line.
        stack: its program, and the programs nested in it.
        fds: its open files.
        sink: notified of its end.
    """

    pid: int
    parent: int
    name: str
    stack: list[Process]
    fds: dict[int, OpenFile]
    sink: Sink | None = None
    code: int | None = None
    timer: ScheduledCall | None = None
    limit: ScheduledCall | None = None
    awaits: Await | None = None
    reads: Read | None = None
    stopped: bool = False
    queued: bool = False
    signalled: int = 0
    pending_exit_code: int | None = None
    error: NonlocalExit | None = None
    handler: Callable[[int], bool] | None = None
    """Handles a signal; False to take the default action."""
    traps: Callable[[int], bool] | None = None
    """Returns whether a signal would be handled."""
    on_end: list[Callable[[], None]] = field(default_factory=list)

    def end_by(self, signal: str) -> int:
        """End by a signal after the current step; return the exit code."""
        self.signalled = SIGNALS[signal]
        self.pending_exit_code = 128 + self.signalled
        return self.pending_exit_code

    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self.code is not None


def is_fatal(task: Task, number: int) -> bool:
    """Return whether the default action of a signal ends a process; some stop it instead."""
    task.stopped = task.stopped or number in _STOP_SIGNALS
    return number not in _IGNORED_SIGNALS and number not in _STOP_SIGNALS
