"""Running containers: a process, its output, its end."""

from __future__ import annotations

import asyncio
import math
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.clock import rfc3339
from pytest_kwait.simulator.kubelet.images import Image, is_busybox
from pytest_kwait.simulator.kubelet.launching import SHELLS, run_program, shell_of
from pytest_kwait.simulator.kubelet.network import Network
from pytest_kwait.simulator.kubelet.processes import Pause, Pipe, Process, Surroundings, Write
from pytest_kwait.simulator.kubelet.programs import APPLETS, is_busybox_program
from pytest_kwait.simulator.kubelet.runs import Outlet, Runs, Session
from pytest_kwait.simulator.kubelet.terminals import Terminal
from pytest_kwait.simulator.kubelets import StartError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pytest_kwait.simulator.kubelet.runs import Run, Sink
    from pytest_kwait.simulator.kubelet.shell import Shell
    from pytest_kwait.simulator.kubelets import Input
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.sim_clock import SimClock, Timer

__all__ = ["KILLED", "Container", "run_to_end", "start_failure"]

KILLED = 137
_START_FAILED = 128
_INTERRUPTED = 130
_MOST_MESSAGE = 4096
_TERMINATION_LOG = "/dev/termination-log"
# Of the log, where it stands for the message; source: kuberuntime_container.go,
# `MaxContainerTerminationMessageLogLength`, `...Lines`.
_MOST_LOGGED = 2048
_MOST_LINES = 80

# Effects that one process may have before others get their turn.
_MOST_EFFECTS = 1000

# What of the image is no program though it is there.
_FILES = ("/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")
_DIRECTORIES = ("/bin", "/dev", "/etc", "/home", "/proc", "/root", "/sys", "/tmp", "/usr", "/var")  # noqa: S108


def start_failure(image: Image, argv: list[str], directory: str = "") -> str:
    """Why the container runtime cannot start the program; empty where it can."""
    if not is_busybox(image):
        return ""
    if directory.rstrip("/") in _FILES:
        why = f"error during container init: mkdir {directory}: not a directory"
        why = f"unable to start container process: {why}"
    elif argv and argv[0].rstrip("/") in _DIRECTORIES:
        why = f'unable to start container process: exec: "{argv[0]}": permission denied'
    elif argv and not _is_known(argv[0]):
        why = _missing(argv[0])
    else:
        return ""
    return (
        "failed to create containerd task: failed to create shim task: "
        f"OCI runtime create failed: runc create failed: {why}: unknown"
    )


def _is_known(program: str) -> bool:
    return is_busybox_program(program) or program.rpartition("/")[2] in SHELLS


def _missing(program: str) -> str:
    missing = (
        f'exec: "{program}": stat {program}: no such file or directory'
        if "/" in program
        else f'exec: "{program}": executable file not found in $PATH'
    )
    return f"unable to start container process: {missing}"


def _serve() -> Process:
    yield Pause(math.inf)
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
    container_id: str = field(default_factory=lambda: f"containerd://{secrets.token_hex(32)}")
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    log: list[tuple[float, bytes]] = field(default_factory=list)
    around: Surroundings = field(init=False)
    _runs: Runs = field(init=False)
    _taps: list[Sink] = field(default_factory=list)
    _shell: Shell | None = None
    _graceful: bool = False
    _kill: Timer | None = None
    _partial: dict[int, bytes] = field(default_factory=dict)
    _readers: list[asyncio.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.around = Surroundings(self.clock.time)
        self._runs = Runs(self.clock, self.network)

    @property
    def running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_at is not None and self.finished_at is None

    @property
    def exited(self) -> bool:
        """Whether it has ended."""
        return self.finished_at is not None

    def start(
        self, argv: list[str], env: dict[str, str], files: dict[str, bytes], hostname: str
    ) -> str:
        """Run `argv`, or the image's own program without; why it could not start, or empty."""
        stdin = Pipe() if self.stdin else b""
        self.around = Surroundings(
            self.clock.time, env, files, hostname, stdin, tty=self.stdin and self.tty
        )
        failure = start_failure(self.image, argv, self.directory)
        if failure:
            self.started_at = 0.0
            self._end(_START_FAILED, "StartError", failure)
            return failure
        self.started_at = self.clock.time()
        self._runs.start(self._begin(argv), self)
        return ""

    def _begin(self, argv: list[str]) -> Process:
        program = argv[0].rpartition("/")[2] if argv else ""
        if not argv and is_busybox(self.image):
            # The image's own program is a shell, which ends at once where nobody can talk to it.
            program, argv = "sh", ["sh"]
        if program in SHELLS:
            self._shell, script = shell_of(self.around, argv)
            return self._shell.run(script)
        if program in APPLETS or is_busybox(self.image):
            return run_program(self.around, argv)
        self._graceful = True
        return _serve()

    # -- as the sink of its own program

    def write(self, stream: int, data: bytes) -> None:
        """Keep what the program writes as log, and show it to those who are attached."""
        for tap in self._taps:
            tap.write(stream, data)
        self._write(stream, data)

    def hold(self, resume: Callable[[], None]) -> bool:
        """Nothing holds up a program that writes a log."""
        del resume
        return False

    def end(self, code: int) -> None:
        """The program has ended, and the container with it."""
        self._end(code, "Completed" if code == 0 else "Error", "")

    def _write(self, stream: int, data: bytes) -> None:
        text = self._partial.pop(stream, b"") + data
        *lines, rest = text.split(b"\n")
        now = self.clock.time()
        self.log.extend((now, line) for line in lines)
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _end(self, code: int, reason: str, message: str) -> None:
        if self.finished_at is not None:
            return
        now = self.clock.time()
        for rest in self._partial.values():
            self.log.append((now, rest))
        self._partial.clear()
        if self._kill is not None:
            self._kill.cancel()
        self.finished_at = now
        self.exit_code = code
        self.reason = reason
        self.message = message or self._last_words(code)
        self._runs.clear(KILLED)
        taps, self._taps = self._taps, []
        for tap in taps:
            tap.end(0)
        self._wake()
        self.ended(self)

    def _last_words(self, code: int) -> str:
        """Return what it leaves as its message.

        Source: kuberuntime_container.go, `getTerminationMessage`.
        """
        written = self.around.files.get(self.message_path or _TERMINATION_LOG, b"")
        if written or not self.message_from_log or code == 0:
            return written[:_MOST_MESSAGE].decode(errors="replace")
        text = b"".join(line + b"\n" for _, line in self.log[-_MOST_LINES:])
        return text[-_MOST_LOGGED:].decode(errors="replace")

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
        handled = self._shell is not None and self._shell.signal("TERM")
        self._kill = self.clock.call_later(grace, self.kill, scaled=not handled)

    def finish(self, code: int, reason: str = "", message: str = "") -> None:
        """End it so, whatever it does."""
        if self.running:
            self._end(code, reason or ("Completed" if code == 0 else "Error"), message)

    def kill(self) -> None:
        """End it at once."""
        if self.running:
            self._end(KILLED, "Error", "")

    def run_out_of_memory(self) -> bool:
        """End it as the kernel does; whether it ran."""
        ran = self.running
        if ran:
            self._end(KILLED, "OOMKilled", "")
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

    def execute(self, argv: list[str]) -> tuple[int, bytes, bytes, float]:
        """Run a command beside it: exit code, stdout, stderr, seconds it would have taken."""
        return run_to_end(self.around, argv)

    # -- others beside its own program

    def run(self, argv: list[str], *, stdin: bool, tty: bool) -> Session:
        """Start a command beside it.

        Raises:
            StartError: there is no such program.
        """
        self._check_program(argv)
        outlet = Outlet()
        pipe = Pipe() if stdin else None
        around = self.around.inner(pipe if pipe is not None else b"")
        around.tty = tty
        if tty:
            terminal = Terminal(pipe, outlet)
            started = self._runs.start(run_program(around, argv), terminal)
            terminal.interrupted = lambda: self._interrupt(started, argv)
            return Session(terminal, outlet, lambda: self._runs.stop(started, KILLED))
        started = self._runs.start(run_program(around, argv), outlet)
        return Session(pipe, outlet, lambda: self._runs.stop(started, KILLED))

    def _check_program(self, argv: list[str]) -> None:
        missing = "args must not be empty"
        if argv:
            missing = "" if _is_known(argv[0]) else _missing(argv[0])
        if missing:
            raise StartError(
                f'failed to exec in container: failed to start exec "{secrets.token_hex(32)}": '
                f"OCI runtime exec failed: exec failed: {missing}: unknown"
            )

    def _interrupt(self, run: Run, argv: list[str]) -> None:
        if argv[0].rpartition("/")[2] not in SHELLS:
            self._runs.stop(run, _INTERRUPTED)

    def attach(self, *, stdin: bool) -> Session:
        """Follow its own program from now on, through its terminal where it has one."""
        outlet = Outlet()
        own = self.around.stdin
        pipe = own if stdin and isinstance(own, Pipe) else None
        sink: Sink = outlet
        given: Input | None = pipe
        if self.tty:
            sink = given = Terminal(pipe, outlet)
        self._taps.append(sink)

        def leave() -> None:
            if sink in self._taps:
                self._taps.remove(sink)

        return Session(given, outlet, leave)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Return what it writes from its first line until it ends."""
        position, news = 0, asyncio.Event()
        self._readers.append(news)
        try:
            while True:
                while position < len(self.log):
                    yield self.log[position]
                    position += 1
                if self.exited:
                    return
                news.clear()
                await news.wait()
        finally:
            self._readers.remove(news)


def run_to_end(around: Surroundings, argv: list[str]) -> tuple[int, bytes, bytes, float]:
    """Run a command without waiting: exit code, stdout, stderr and the seconds it would have taken.

    A command that would never end is killed at once.
    """
    output: dict[int, list[bytes]] = {1: [], 2: []}
    seconds = 0.0
    if not argv:
        return 126, b"", b"", 0.0
    process = run_program(around.inner(), argv)
    for _ in range(_MOST_EFFECTS * 10):
        try:
            effect = next(process)
        except StopIteration as end:
            return end.value, b"".join(output[1]), b"".join(output[2]), seconds
        if isinstance(effect, Write):
            output[effect.stream].append(effect.data)
        elif isinstance(effect, Pause):
            seconds += effect.seconds
            if seconds == math.inf:
                break
    return KILLED, b"".join(output[1]), b"".join(output[2]), math.inf
