"""Container instances: the process, its output and log, attached sessions, the exit.

A log keeps its last 10 MiB. When the logs of a cluster take too much together, the largest
one drops its older half.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.clock import rfc3339
from pytest_kwait.simulator.busybox.applets import APPLETS, find_exec_error, run_program
from pytest_kwait.simulator.busybox.os.fds import DeviceEnd, OpenFile, PipeEnd
from pytest_kwait.simulator.busybox.os.files import StorageQuota
from pytest_kwait.simulator.busybox.os.memory import MemoryAccount, get_machine
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.busybox.os.process_table import ProcessTable
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, Session, Terminal
from pytest_kwait.simulator.busybox.os.syscalls import SIGNALS, Process, ProcessContext, Sleep, Task
from pytest_kwait.simulator.kubelet.images import Image, is_busybox
from pytest_kwait.simulator.kubelet_api import StartError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.busybox.os.streams import Input, Sink
    from pytest_kwait.simulator.clock import SimClock, Timer
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "SIGKILL_EXIT_CODE",
    "ClusterLogs",
    "Container",
    "ContainerLog",
    "find_start_error",
    "get_cluster_logs",
]

# What a log may take before its oldest lines go; source: kubelet config, `containerLogMaxSize`.
_MAX_LOG = 10 << 20
# What all logs of a cluster may take.
_MAX_ALL_LOGS = 256 << 20
# What a line takes beside its text.
_LINE_OVERHEAD = 120
# What a line takes beside its text in the node's file: when and where it was written.
_LINE_PREFIX = 41
_DISK_BLOCK = 4096


class ClusterLogs:
    """The logs of a cluster: when they take too much together, the largest loses its older half."""

    def __init__(self) -> None:
        self._all: WeakSet[ContainerLog] = WeakSet()
        self._room = StorageQuota(_MAX_ALL_LOGS, lambda: sum(log.taken for log in self._all))

    def add(self, log: ContainerLog) -> None:
        """Count a log in."""
        self._all.add(log)
        log.together = self

    def grow(self, size: int) -> None:
        """Take note of bytes more in one of them."""
        if not self._room.fits(size):
            max(self._all, key=lambda log: log.taken).cut()


def get_cluster_logs(clock: SimClock) -> ClusterLogs:
    """The logs of a cluster, which are there as long as its clock."""
    found = clock.attached.get("logs")
    if not isinstance(found, ClusterLogs):
        found = clock.attached["logs"] = ClusterLogs()
    return found


class ContainerLog:
    """A log, which keeps the last 10 MiB."""

    __slots__ = (
        "__weakref__", "_dropped", "_lines", "_partial", "_readers", "ended", "taken", "together",
    )  # fmt: skip

    def __init__(self) -> None:
        self.together: ClusterLogs | None = None
        self._lines: deque[tuple[float, bytes]] = deque()
        self._partial: dict[int, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self._dropped = 0
        self.taken = 0
        """The bytes of memory that it takes."""
        self.ended = False

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """The bytes of the node's disk that it takes."""
        size = self.taken - len(self._lines) * (_LINE_OVERHEAD - _LINE_PREFIX)
        return -(-size // _DISK_BLOCK) * _DISK_BLOCK

    def last(self, most: int) -> list[tuple[float, bytes]]:
        """Its last lines."""
        return list(self._lines)[-most:]

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Add what was written to a stream; a line is there with its end."""
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(now, line)
        if len(rest) > _MAX_LOG // 10:
            # A line without an end is cut, as the container runtime cuts it.
            self._add(now, rest)
            rest = b""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _add(self, now: float, line: bytes) -> None:
        self._lines.append((now, line))
        self.taken += len(line) + _LINE_OVERHEAD
        self._keep(_MAX_LOG)
        if self.together is not None:
            self.together.grow(len(line) + _LINE_OVERHEAD)

    def cut(self) -> None:
        """Let go of its older half."""
        self._keep(self.taken // 2)

    def _keep(self, most: int) -> None:
        while self.taken > most:
            self.taken -= len(self._lines.popleft()[1]) + _LINE_OVERHEAD
            self._dropped += 1

    def end(self, now: float) -> None:
        """Nothing more is written."""
        for rest in self._partial.values():
            self._add(now, rest)
        self._partial.clear()
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Return the lines from the first one until the end."""
        position, news = 0, asyncio.Event()
        self._readers.append(news)
        try:
            while True:
                while position < self._dropped + len(self._lines):
                    position = max(position, self._dropped)
                    yield self._lines[position - self._dropped]
                    position += 1
                if self.ended:
                    return
                news.clear()
                await news.wait()
        finally:
            self._readers.remove(news)


SIGKILL_EXIT_CODE = 137
_START_FAILED_EXIT_CODE = 128
_MAX_MESSAGE = 4096
_TERMINATION_LOG = "/dev/termination-log"
# Of the log, where it stands for the message; source: kuberuntime_container.go,
# `MaxContainerTerminationMessageLogLength`, `...Lines`.
_MAX_LOGGED_MESSAGE = 2048
_MAX_MESSAGE_LINES = 80

# What of the image is no folder though it is there.
_NODE_FILES = ("/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")


def find_start_error(
    image: Image, around: ProcessContext, argv: list[str], directory: str = ""
) -> str:
    """Why the container runtime cannot start the program; empty where it can."""
    if not is_busybox(image):
        return ""
    if directory.rstrip("/") in _NODE_FILES:
        why = f"error during container init: mkdir {directory}: not a directory"
        why = f"unable to start container process: {why}"
    else:
        why = _describe_start_error(around, argv[0]) if argv else ""
    if not why:
        return ""
    return (
        "failed to create containerd task: failed to create shim task: "
        f"OCI runtime create failed: runc create failed: {why}: unknown"
    )


def _describe_start_error(around: ProcessContext, program: str) -> str:
    """Why a program cannot be started, in the runtime's words; empty where it can."""
    fault = find_exec_error(around, program)
    if not fault:
        return ""
    if "/" in program and fault != "Permission denied":
        fault = f"stat {program}: {fault[0].lower()}{fault[1:]}"
    elif "/" in program:
        fault = "permission denied"
    return f'unable to start container process: exec: "{program}": {fault}'


def _serve_forever() -> Process:
    yield Sleep(math.inf)
    return 0


@dataclass
class Container:
    """One instance of one container; a restart makes another.

    Args:
        clock: the cluster's time.
        name: the container's name.
        image: what it runs.
        restart_count: how many instances were before it.
        ended: called once when it has ended.
        network: the ports of the pod.
        stdin: whether its program has an input that can be attached to.
        tty: whether that is a terminal.
        message_path: the file that its last message is read from.
        message_from_log: whether, failed without one, the end of its log is the message.
        directory: where its program starts; empty for the image's own.
        memory: the bytes that it may hold; None without a limit.
    """

    clock: SimClock
    name: str
    image: Image
    restart_count: int
    ended: Callable[[Container], None]
    network: Network = field(default_factory=Network)
    stdin: bool = False
    tty: bool = False
    message_path: str = ""
    message_from_log: bool = False
    directory: str = ""
    memory: int | None = None
    container_id: str = field(default_factory=lambda: f"containerd://{secrets.token_hex(32)}")
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    log: ContainerLog = field(default_factory=ContainerLog)
    around: ProcessContext = field(init=False)
    _account: MemoryAccount = field(init=False)
    _tasks: ProcessTable = field(init=False)
    _attached_sinks: list[Sink] = field(default_factory=list)
    _stdin: Pipe | None = None
    _graceful: bool = False
    _kill: Timer | None = None

    def __post_init__(self) -> None:
        self.around = ProcessContext(self.clock.time)
        self._account = MemoryAccount(
            self.memory, lambda seen: self.around.files.size(seen), get_machine(self.clock),
            self._starved,
        )  # fmt: skip
        get_cluster_logs(self.clock).add(self.log)
        self._tasks = ProcessTable(self.clock, self.network, self._account, self._starved)

    @property
    def running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_at is not None and self.finished_at is None

    @property
    def exited(self) -> bool:
        """Whether it has ended."""
        return self.finished_at is not None

    @property
    def held(self) -> int:
        """The bytes of memory that its processes hold."""
        return self._account.held

    def start(self, argv: list[str], env: dict[str, str], files: FileSystem, hostname: str) -> str:
        """Run `argv`, or the image's own program without; why it could not start, or empty."""
        self._stdin = Pipe() if self.stdin else None
        directory = self.directory.rstrip("/") or "/"
        self.around = ProcessContext(
            self.clock.time, env, files, hostname, tty=self.stdin and self.tty, cwd=directory,
            network=self.network,
        )  # fmt: skip
        files.fits = self._account.fits
        failure = find_start_error(self.image, self.around, argv, self.directory)
        if failure:
            self.started_at = 0.0
            self._end(_START_FAILED_EXIT_CODE, "StartError", failure)
            return failure
        if directory != "/" and files.find(directory) is None:
            files.make_directory(directory, parents=True)
        self.started_at = self.clock.time()
        if not argv:
            # The image's own program is a shell, which ends at once where nobody can talk to it.
            argv = ["sh"] if is_busybox(self.image) else []
        self._follow(self._program(argv), self.around, argv, self._stdin, self)
        return ""

    def _program(self, argv: list[str]) -> Callable[[ProcessContext], Process]:
        program = argv[0].rpartition("/")[2] if argv else ""
        if program in APPLETS or is_busybox(self.image):
            return lambda around: run_program(around, argv)
        self._graceful = True
        return lambda _: _serve_forever()

    def _follow(
        self, make: Callable[[ProcessContext], Process], around: ProcessContext, argv: list[str],
        stdin: Pipe | None, sink: Sink,
    ) -> Task:  # fmt: skip
        source: OpenFile = PipeEnd(stdin) if stdin is not None else DeviceEnd("null")
        return self._tasks.follow(make, around, " ".join(argv), source, sink)

    def _starved(self) -> None:
        """The kernel ends it: its processes hold more memory than there is."""
        if self.running:
            self._end(SIGKILL_EXIT_CODE, "OOMKilled", "")

    # -- as the sink of its own program

    def write(self, stream: int, data: bytes) -> None:
        """Keep what the program writes as log, and show it to those who are attached."""
        for tap in self._attached_sinks:
            tap.write(stream, data)
        self.log.write(self.clock.time(), stream, data)

    def hold(self, resume: Callable[[], None]) -> bool:
        """Nothing holds up a program that writes a log."""
        del resume
        return False

    def end(self, code: int) -> None:
        """The program has ended, and the container with it."""
        self._end(code, "Completed" if code == 0 else "Error", "")

    def _end(self, code: int, reason: str, message: str) -> None:
        if self.finished_at is not None:
            return
        now = self.clock.time()
        if self._kill is not None:
            self._kill.cancel()
        self.finished_at = now
        self.exit_code = code
        self.reason = reason
        self._tasks.clear(SIGKILL_EXIT_CODE)
        self.log.end(now)
        self.message = message or self._read_termination_message(code)
        self.around.files.close()
        self._account.close()
        taps, self._attached_sinks = self._attached_sinks, []
        for tap in taps:
            tap.end(0)
        self.ended(self)

    def _read_termination_message(self, code: int) -> str:
        """Return what it leaves as its message.

        Source: kuberuntime_container.go, `getTerminationMessage`.
        """
        written = self.around.files.read(self.message_path or _TERMINATION_LOG) or b""
        if written or not self.message_from_log or code == 0:
            return written[:_MAX_MESSAGE].decode(errors="replace")
        text = b"".join(line + b"\n" for _, line in self.log.last(_MAX_MESSAGE_LINES))
        return text[-_MAX_LOGGED_MESSAGE:].decode(errors="replace")

    @property
    def assumed(self) -> bool:
        """Whether its program is not simulated: it is taken to serve whatever is asked of it."""
        return self._graceful

    def stop(self, grace: float) -> None:
        """Ask it to end with SIGTERM, and end it after `grace` seconds.

        A process 1 without a handler ignores the signal: the outcome is certain, and fast time
        shortens the wait for it. With a handler the grace is real.
        """
        if not self.running or self._kill is not None:
            return
        if self._graceful:
            self._end(0, "Completed", "")
            return
        handled = self._tasks.handles(1, SIGNALS["TERM"])
        self._tasks.signal(1, SIGNALS["TERM"])
        self._kill = self.clock.call_later(grace, self.kill, scaled=not handled)

    def finish(self, code: int, reason: str = "", message: str = "") -> None:
        """End it so, whatever it does."""
        if self.running:
            self._end(code, reason or ("Completed" if code == 0 else "Error"), message)

    def kill(self) -> None:
        """End it at once."""
        if self.running:
            self._end(SIGKILL_EXIT_CODE, "Error", "")

    def run_out_of_memory(self) -> bool:
        """End it as the kernel does; whether it ran."""
        ran = self.running
        if ran:
            self._end(SIGKILL_EXIT_CODE, "OOMKilled", "")
        return ran

    def state(self) -> Obj:
        """Its `state` in the pod's status."""
        if self.finished_at is not None:
            terminated: Obj = {"exitCode": self.exit_code, "reason": self.reason}
            if self.message:
                terminated["message"] = self.message
            terminated["startedAt"] = rfc3339(self.started_at or 0.0)
            terminated["finishedAt"] = rfc3339(self.finished_at)
            terminated["containerID"] = self.container_id
            return {"terminated": terminated}
        if self.started_at is not None:
            return {"running": {"startedAt": rfc3339(self.started_at)}}
        return {"waiting": {}}

    # -- others beside its own program

    def run(self, argv: list[str], *, stdin: bool, tty: bool) -> Session:
        """Start a command beside it.

        Raises:
            StartError: there is no such program.
        """
        trouble = _describe_start_error(self.around, argv[0]) if argv else "args must not be empty"
        if trouble:
            raise StartError(
                f'failed to exec in container: failed to start exec "{secrets.token_hex(32)}": '
                f"OCI runtime exec failed: exec failed: {trouble}: unknown"
            )
        outlet = OutputBuffer()
        pipe = Pipe() if stdin else None
        around = replace(self.around, tty=tty)

        def make(inner: ProcessContext) -> Process:
            return run_program(inner, argv)

        if not tty:
            started = self._follow(make, around, argv, pipe, outlet)
            return Session(pipe, outlet, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE))
        terminal = Terminal(pipe, outlet)
        started = self._follow(make, around, argv, pipe, terminal)
        terminal.interrupted = lambda: self._tasks.interrupt(started)
        return Session(terminal, outlet, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE))

    def attach(self, *, stdin: bool) -> Session:
        """Follow its own program from now on, through its terminal where it has one."""
        outlet = OutputBuffer()
        pipe = self._stdin if stdin else None
        sink: Sink = outlet
        given: Input | None = pipe
        if self.tty:
            sink = given = Terminal(pipe, outlet)
        self._attached_sinks.append(sink)

        def leave() -> None:
            if sink in self._attached_sinks:
                self._attached_sinks.remove(sink)

        return Session(given, outlet, leave)

    def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Return what it writes from its first line until it ends."""
        return self.log.follow()
