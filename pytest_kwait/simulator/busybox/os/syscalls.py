"""System calls, processes and signals.

A program is a generator of system calls (sleep, read, write, listen, wait) that returns its
exit code: the process table decides how long a second is and which process runs next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.busybox.os.files import FileSystem

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.fds import OpenFile
    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Pipe, Sink
    from pytest_kwait.simulator.clock import Timer

__all__ = [
    "SIGNALS",
    "STEP",
    "Await",
    "Call",
    "Effect",
    "ForkError",
    "Interrupted",
    "Listen",
    "NonlocalExit",
    "Process",
    "ProcessContext",
    "ProcessWriteError",
    "Processes",
    "Read",
    "Sleep",
    "Step",
    "Task",
    "Write",
    "is_fatal",
    "parse_signal",
]


class NonlocalExit(Exception):
    """What leaves the programs that a process runs within each other, up to who expects it."""


class ProcessWriteError(NonlocalExit):
    """What a program writes cannot be kept; `str` is why."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing happens for `seconds` (of the wall clock; `math.inf`: until killed)."""

    seconds: float


@dataclass(slots=True)
class Write:
    """`data` goes to the open file of that number; `error` says why it could not."""

    stream: int
    data: bytes
    error: str = ""


@dataclass(slots=True)
class Read:
    """The process waits for bytes from `source`; they are in `data` then, none at the end.

    Args:
        source: a pipe, or the number of an open file.
        most: so many bytes at most.
        line: one line at most.
        signals: whether a signal that is handled ends the wait, with `interrupted` set.
        seconds: how long it waits at most; `late` is set when that is over.
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
    """Connections to `port` of the pod start a process each, made by `serve`.

    Its input is what the client sends, its output goes to the client. `error` says why the port
    cannot be had, and is empty where it can.
    """

    port: int
    context: ProcessContext
    serve: Callable[[ProcessContext, Pipe], Process]
    error: str = ""


@dataclass(slots=True)
class Await:
    """The process waits until `done` holds, asked whenever another process has ended or read.

    Args:
        done: what is awaited.
        signals: whether a signal that is handled ends the wait.
        seconds: how long it waits at most.
    """

    done: Callable[[], bool]
    signals: bool = False
    seconds: float | None = None


@dataclass(slots=True)
class Call:
    """Another program is run in this process's place until it returns `code`."""

    process: Process
    code: int = 0

    def run(self) -> Process:
        """Run it, and keep how it ends."""
        self.code = yield from self.process
        return self.code


class Step:
    """The process has done something that takes no time but its own."""

    __slots__ = ()


STEP = Step()

Effect = Await | Call | Listen | Sleep | Read | Step | Write
Process = Generator[Effect, None, int]


class Processes(Protocol):
    """The processes of a container, as its programs see them."""

    @property
    def account(self) -> MemoryAccount:
        """The container's memory."""
        ...

    def start(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, name: str,
        fds: dict[int, OpenFile], *, parent: int = 0, sink: Sink | None = None, now: bool = False,
    ) -> Task:  # fmt: skip
        """Start a process that owns `fds`."""
        ...

    def find(self, pid: int) -> Task | None:
        """Return a running process by its number."""
        ...

    def all(self) -> list[Task]:
        """Return the running processes, oldest first."""
        ...

    def stop(self, task: Task, code: int) -> None:
        """End a process at once."""
        ...

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal; False if there is no such process."""
        ...

    def handles(self, pid: int, number: int = 15) -> bool:
        """Whether a process handles a signal itself."""
        ...


@dataclass(slots=True)
class ProcessContext:
    """What a program sees of its container and of the process that it runs in.

    Args:
        now: seconds since the epoch.
        env: the variables it was started with.
        files: shared by everything that runs in the container.
        hostname: the pod's host name.
        tty: whether somebody sits at a terminal.
        cwd: the folder it is in.
        fds: its open files by their numbers.
        tasks: the processes of the container.
        task: the process that it runs in.
        network: what can be connected to.
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

    @property
    def tasks(self) -> Processes:
        """The processes of the container."""
        if self._tasks is None:
            raise RuntimeError("this program runs outside of a container")
        return self._tasks

    @property
    def task(self) -> Task:
        """The process that the program runs in."""
        if self._task is None:
            raise RuntimeError("this program runs outside of a process")
        return self._task

    def path(self, name: str) -> str:
        """The absolute path of a name."""
        return self.files.join_path(self.cwd, name)

    def of(self, tasks: Processes, task: Task, fds: dict[int, OpenFile]) -> ProcessContext:
        """The same, seen by another process with files of its own."""
        return ProcessContext(
            self.now, self.env, self.files, self.hostname, self.tty, self.cwd, fds, tasks, task,
            self.network,
        )  # fmt: skip

    def with_env(self, env: dict[str, str]) -> ProcessContext:
        """The same process with other variables."""
        return ProcessContext(
            self.now, env, self.files, self.hostname, self.tty, self.cwd, self.fds, self._tasks,
            self._task, self.network,
        )  # fmt: skip


SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
    "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16,
    "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24,
    "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "POLL": 29, "PWR": 30, "SYS": 31,
}  # fmt: skip


def parse_signal(text: str) -> int | None:
    """The number of a signal that is named or numbered; None where there is none."""
    if text.isdigit():
        return int(text) if int(text) < 65 else None
    return SIGNALS.get(text.upper().removeprefix("SIG"))


_IGNORED_SIGNALS = frozenset({17, 18, 23, 28})
_STOP_SIGNALS = frozenset({19, 20, 21, 22})


class ForkError(Exception):
    """The container has as many processes as it may have."""


class Interrupted(NonlocalExit):
    """Ctrl-C at the shell's terminal."""


@dataclass(slots=True, eq=False)
class Task:
    """One process.

    Args:
        pid: its number in the container.
        parent: that of the one that started it.
        name: what it was started as.
        stack: its program, and those that are called within each other.
        fds: its open files.
        sink: told of its end.
    """

    pid: int
    parent: int
    name: str
    stack: list[Process]
    fds: dict[int, OpenFile]
    sink: Sink | None = None
    code: int | None = None
    timer: Timer | None = None
    limit: Timer | None = None
    awaits: Await | None = None
    reads: Read | None = None
    stopped: bool = False
    queued: bool = False
    signalled: int = 0
    pending_exit_code: int | None = None
    error: NonlocalExit | None = None
    handler: Callable[[int], bool] | None = None
    """Told of a signal: whether it takes care of it."""
    traps: Callable[[int], bool] | None = None
    """Asked whether it would do something about a signal."""
    on_end: list[Callable[[], None]] = field(default_factory=list)

    def end_by(self, signal: str) -> int:
        """Let it end by a signal of its own once it has done what it does; with which code."""
        self.signalled = SIGNALS[signal]
        self.pending_exit_code = 128 + self.signalled
        return self.pending_exit_code

    def ended(self) -> bool:
        """Whether it is over."""
        return self.code is not None


def is_fatal(task: Task, number: int) -> bool:
    """Whether a signal that nobody handles ends a process; after some it stands still instead."""
    task.stopped = task.stopped or number in _STOP_SIGNALS
    return number not in _IGNORED_SIGNALS and number not in _STOP_SIGNALS
