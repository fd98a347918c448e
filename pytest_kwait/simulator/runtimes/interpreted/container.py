"""Container instances: the process, its output and log, attached sessions, the exit.

A log keeps its last 10 MiB. When the logs of a cluster exceed their total limit, the largest
one drops its older half.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.simulator.busybox.applets import APPLETS, find_exec_error, run_program
from pytest_kwait.simulator.busybox.os.fds import DeviceEnd, OpenFile, PipeEnd
from pytest_kwait.simulator.busybox.os.files import StorageQuota
from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.busybox.os.process_table import ProcessTable
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, ProcessSession, Terminal
from pytest_kwait.simulator.busybox.os.syscalls import (
    ROOT,
    SIGNALS,
    Process,
    ProcessContext,
    ProcessCredentials,
    Sleep,
    Task,
)
from pytest_kwait.simulator.kubelet.images import Image, is_busybox
from pytest_kwait.simulator.kubelet_api import StartError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.busybox.os.machine import Machine
    from pytest_kwait.simulator.busybox.os.streams import Input, Sink
    from pytest_kwait.simulator.clock import ScheduledCall, SimClock
    from pytest_kwait.simulator.objects import Obj

SIGKILL_EXIT_CODE = 137
START_FAILED_EXIT_CODE = 128
"""The exit code of a container whose program could not be started."""

# The limit of a log; source: kubelet config, `containerLogMaxSize`.
_MAX_LOG = 10 << 20
# The limit of all logs of a cluster.
_MAX_ALL_LOGS = 256 << 20
# The memory overhead of a line.
_LINE_OVERHEAD = 120
# The length of time and stream before each line of the node's log file.
_LINE_PREFIX = 40
_DISK_BLOCK = 4096
_MAX_MESSAGE = 4096
_TERMINATION_LOG = "/dev/termination-log"
# Limits of a termination message from the log; source: kuberuntime_container.go,
# `MaxContainerTerminationMessageLogLength`, `...Lines`.
_MAX_LOGGED_MESSAGE = 2048
_MAX_MESSAGE_LINES = 80

# Files that cannot be a working directory.
_NODE_FILES = ("/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")


class ClusterLogs:
    """The logs of a cluster, with a limit on their total size."""

    def __init__(self) -> None:
        self._all: WeakSet[ContainerLog] = WeakSet()
        self._log_quota = StorageQuota(
            _MAX_ALL_LOGS, lambda: sum(log.memory_size for log in self._all)
        )

    def create(self) -> ContainerLog:
        """Create the log of a container."""
        log = ContainerLog()
        self._all.add(log)
        log.cluster_logs = self
        return log

    def grow(self, size: int) -> None:
        """Count more bytes; shorten the largest log if the total exceeds the limit."""
        if not self._log_quota.reserve(size):
            max(self._all, key=lambda log: log.memory_size).drop_older_half()


class ContainerLog:
    """The log of a container: its last 10 MiB, as lines with their newline if they have one."""

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_lines",
        "_partial",
        "_readers",
        "cluster_logs",
        "ended",
        "memory_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cluster_logs: ClusterLogs | None = None
        self._lines: deque[tuple[float, bytes]] = deque()
        self._partial: dict[int, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self._dropped = 0
        self.memory_size = 0
        """Bytes of memory in use."""
        self.ended = False

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes on the node's disk."""
        size = self.memory_size - len(self._lines) * (_LINE_OVERHEAD - _LINE_PREFIX)
        return -(-size // _DISK_BLOCK) * _DISK_BLOCK

    def read_from(self, position: int) -> tuple[int, list[tuple[float, bytes]]]:
        """Return the lines from a position on, and the position after them."""
        end = self._dropped + len(self._lines)
        if position >= end:
            return end, []
        first = max(position - self._dropped, 0)
        return end, [*islice(self._lines, first, None)]

    def read_end(self, most: int) -> bytes:
        """Return the last lines; the output may end within a line."""
        return b"".join(line for _, line in list(self._lines)[-most:])

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Append output of a stream; a line is added once it is complete.

        Source: containerd internal/cri/io/logger.go, `readLine`, which takes a carriage return
        before the end of a line for a part of it.
        """
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(now, line.removesuffix(b"\r") + b"\n")
        if len(rest) > _MAX_LOG // 10:
            # A very long line is split, as the container runtime does.
            self._add(now, rest)
            rest = b""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _add(self, now: float, line: bytes) -> None:
        self._lines.append((now, line))
        self.memory_size += len(line) + _LINE_OVERHEAD
        self._keep(_MAX_LOG)
        if self.cluster_logs is not None:
            self.cluster_logs.grow(len(line) + _LINE_OVERHEAD)

    def drop_older_half(self) -> None:
        """Drop the older half of the lines, by size."""
        self._keep(self.memory_size // 2)

    def _keep(self, most: int) -> None:
        while self.memory_size > most:
            self.memory_size -= len(self._lines.popleft()[1]) + _LINE_OVERHEAD
            self._dropped += 1

    def end(self, now: float) -> None:
        """Add incomplete lines and end the log."""
        for rest in self._partial.values():
            self._add(now, rest)
        self._partial.clear()
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Yield all lines, and new ones until the end."""
        position, changed = 0, asyncio.Event()
        self._readers.append(changed)
        try:
            while True:
                while position < self._dropped + len(self._lines):
                    position = max(position, self._dropped)
                    yield self._lines[position - self._dropped]
                    position += 1
                if self.ended:
                    return
                changed.clear()
                await changed.wait()
        finally:
            self._readers.remove(changed)


def find_start_error(
    image: Image, context: ProcessContext, argv: list[str], directory: str = ""
) -> str:
    """Return why the container runtime cannot start the program; empty if it can."""
    if not is_busybox(image):
        return ""
    if directory.rstrip("/") in _NODE_FILES:
        why = f"error during container init: mkdir {directory}: not a directory"
        why = f"unable to start container process: {why}"
    else:
        why = _describe_start_error(context, argv[0]) if argv else ""
    return format_start_error(why) if why else ""


def format_start_error(why: str) -> str:
    """Return containerd's error of a container that runc cannot start."""
    return (
        "failed to create containerd task: failed to create shim task: "
        f"OCI runtime create failed: runc create failed: {why}: unknown"
    )


def format_exec_error(why: str) -> str:
    """Return containerd's error of a command that runc cannot start."""
    return (
        f'failed to exec in container: failed to start exec "{secrets.token_hex(32)}": '
        f"OCI runtime exec failed: exec failed: {why}: unknown"
    )


def _describe_start_error(context: ProcessContext, program: str) -> str:
    """Return why a program cannot be started, in the runtime's words; empty if it can."""
    fault = find_exec_error(context, program)
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
    """One instance of a container; a restart creates another.

    Args:
        machine: the machine that it runs on.
        image: decides which programs exist.
        restart_count: the number of earlier instances.
        ended: called once at the end.
        network: the ports of the pod.
        stdin: whether the program's input can be attached.
        tty: whether the input is a terminal.
        message_path: the file of the termination message.
        message_from_log: whether a failure without a message takes the end of the log.
        directory: the working directory; empty for the image's own.
        user: the user and groups of its processes.
        memory: the memory limit in bytes; None without one.
    """

    machine: Machine
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
    user: ProcessCredentials = ROOT
    memory: int | None = None
    container_id: str = field(default_factory=lambda: f"containerd://{secrets.token_hex(32)}")
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    log: ContainerLog = field(default_factory=ContainerLog)
    context: ProcessContext = field(init=False)
    _account: MemoryAccount = field(init=False)
    _tasks: ProcessTable = field(init=False)
    _attached_sinks: list[Sink] = field(default_factory=list)
    _stdin: Pipe | None = None
    _graceful: bool = False
    _kill: ScheduledCall | None = None

    def __post_init__(self) -> None:
        self.context = ProcessContext(self.clock.time)
        self._account = MemoryAccount(
            self.memory, lambda counted_files: self.context.files.measure_memory(counted_files),
            self.machine.memory, self._on_out_of_memory,
        )  # fmt: skip
        self._tasks = ProcessTable(
            self.machine.cpu_scheduler, self.network, self._account, self._on_out_of_memory
        )

    @property
    def clock(self) -> SimClock:
        """The cluster's time."""
        return self.machine.clock

    @property
    def running(self) -> bool:
        """Return whether it has started and not ended."""
        return self.started_at is not None and self.finished_at is None

    @property
    def exited(self) -> bool:
        """Return whether it has ended."""
        return self.finished_at is not None

    @property
    def held(self) -> int:
        """Bytes of memory that the processes hold."""
        return self._account.held

    def start(self, argv: list[str], env: dict[str, str], files: FileSystem, hostname: str) -> str:
        """Run `argv`, or the image's entry point if empty; return why it failed, or ""."""
        self._stdin = Pipe() if self.stdin else None
        directory = self.directory.rstrip("/") or "/"
        self.context = ProcessContext(
            self.clock.time, env, files, hostname, tty=self.stdin and self.tty, cwd=directory,
            network=self.network, user=self.user,
        )  # fmt: skip
        files.reserve_bytes = self._account.reserve
        files.assumes_folders = not is_busybox(self.image)
        failure = find_start_error(self.image, self.context, argv, self.directory)
        if failure:
            self.started_at = 0.0
            self._end(START_FAILED_EXIT_CODE, "StartError", failure)
            return failure
        if directory != "/" and files.find(directory) is None:
            files.make_directory(directory, parents=True)
        self.started_at = self.clock.time()
        if not argv:
            # The image's entry point is a shell; without input it ends at once.
            argv = ["sh"] if is_busybox(self.image) else []
        self._follow(self._program(argv), self.context, argv, self._stdin, self)
        return ""

    def _program(self, argv: list[str]) -> Callable[[ProcessContext], Process]:
        program = argv[0].rpartition("/")[2] if argv else ""
        if program in APPLETS or is_busybox(self.image):
            return lambda context: run_program(context, argv)
        self._graceful = True
        return lambda _: _serve_forever()

    def _follow(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, argv: list[str],
        stdin: Pipe | None, sink: Sink,
    ) -> Task:  # fmt: skip
        source: OpenFile = PipeEnd(stdin) if stdin is not None else DeviceEnd("null")
        return self._tasks.follow(make, context, " ".join(argv), source, sink)

    def _on_out_of_memory(self) -> None:
        """OOM-kill the container."""
        if self.running:
            self._end(SIGKILL_EXIT_CODE, "OOMKilled", "")

    # -- sink of the program

    def write(self, stream: int, data: bytes) -> None:
        """Log output, and pass it to attached sessions."""
        for sink_attached in self._attached_sinks:
            sink_attached.write(stream, data)
        self.log.write(self.clock.time(), stream, data)

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Never block: a log takes everything."""
        del resume
        return False

    def end(self, code: int) -> None:
        """End with the program."""
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
        self.context.files.close()
        self._account.close()
        sinks, self._attached_sinks = self._attached_sinks, []
        for sink_attached in sinks:
            sink_attached.end(0)
        self.ended(self)

    def _read_termination_message(self, code: int) -> str:
        """Return the termination message.

        Source: kuberuntime_container.go, `getTerminationMessage`.
        """
        written = self._read_written_message()
        if written or not self.message_from_log or code == 0:
            return written[:_MAX_MESSAGE].decode(errors="replace")
        text = self.log.read_end(_MAX_MESSAGE_LINES)
        return text[-_MAX_LOGGED_MESSAGE:].decode(errors="replace")

    def _read_written_message(self) -> bytes:
        """Return the contents of the file of the termination message."""
        return self.context.files.read(self.message_path or _TERMINATION_LOG) or b""

    @property
    def is_unsimulated(self) -> bool:
        """Return whether the program is not simulated; it is assumed to serve every request."""
        return self._graceful

    def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after `grace` seconds.

        Process 1 ignores SIGTERM without a handler. Then the outcome is certain, so the wait is
        scaled; with a handler the grace period is real.
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
        """End with a given exit code, reason and message."""
        if self.running:
            self._end(code, reason or ("Completed" if code == 0 else "Error"), message)

    def kill(self) -> None:
        """End with SIGKILL."""
        if self.running:
            self._end(SIGKILL_EXIT_CODE, "Error", "")

    def run_out_of_memory(self) -> bool:
        """OOM-kill the container; False if it does not run."""
        ran = self.running
        if ran:
            self._end(SIGKILL_EXIT_CODE, "OOMKilled", "")
        return ran

    def state(self) -> Obj:
        """Return the `state` for the pod's status."""
        if self.finished_at is not None:
            terminated: Obj = {"exitCode": self.exit_code, "reason": self.reason}
            if self.message:
                terminated["message"] = self.message
            terminated["startedAt"] = format_time(self.started_at or 0.0)
            terminated["finishedAt"] = format_time(self.finished_at)
            terminated["containerID"] = self.container_id
            return {"terminated": terminated}
        if self.started_at is not None:
            return {"running": {"startedAt": format_time(self.started_at)}}
        return {"waiting": {}}

    # -- sessions

    def run(self, argv: list[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start another command in the container.

        Raises:
            StartError: the program does not exist.
        """
        error = _describe_start_error(self.context, argv[0]) if argv else "args must not be empty"
        if error:
            raise StartError(format_exec_error(error))
        output = OutputBuffer()
        pipe = Pipe() if stdin else None
        context = replace(self.context, tty=tty)

        def make(inner: ProcessContext) -> Process:
            return run_program(inner, argv)

        if not tty:
            started = self._follow(make, context, argv, pipe, output)
            return ProcessSession(
                pipe, output, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE)
            )
        terminal = Terminal(pipe, output)
        started = self._follow(make, context, argv, pipe, terminal)
        terminal.interrupted = lambda: self._tasks.interrupt(started)
        return ProcessSession(
            terminal, output, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE)
        )

    def attach(self, *, stdin: bool) -> ProcessSession:
        """Attach to the program, through its terminal if it has one."""
        output = OutputBuffer()
        pipe = self._stdin if stdin else None
        sink: Sink = output
        program_input: Input | None = pipe
        if self.tty:
            sink = program_input = Terminal(pipe, output)
        self._attached_sinks.append(sink)

        def leave() -> None:
            if sink in self._attached_sinks:
                self._attached_sinks.remove(sink)

        return ProcessSession(program_input, output, leave)

    def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Yield the lines of the log until the container ends."""
        return self.log.follow()
