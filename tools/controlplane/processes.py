"""Child processes that end with their parent and are identified by more than a PID."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.errors import BrokenError
from tools.controlplane.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_PARENT_DEATH_SIGNAL = 1
# Below those of outgoing connections, which could take one while a server restarts.
_PORTS = range(20000, 30000)


@dataclass(frozen=True)
class Identity:
    """A process id with the process's start time, which tells it from a reused id."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Return the identity of a process, None when there is none or it is a zombie."""
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Return whether this process still runs."""
        return Identity.of(self.pid) == self

    def children(self) -> list[Identity]:
        """Return the processes that have this one as their parent."""
        try:
            pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [found for pid in pids if (found := Identity.of(int(pid))) is not None]

    def end(self, number: signal.Signals = signal.SIGKILL, patience: float = 10) -> bool:
        """Send a signal; return whether the process ended within `patience` seconds."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return True
        return poll_until(lambda: not self.alive(), patience, 0.02)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on: the second may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def end_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return a function that a child calls before it starts, to get the signal when we end."""
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), number)

    return prepare


def environment(**variables: str) -> dict[str, str]:
    """Return our environment, for children that find this package by their working folder."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**ours, **variables}


class Component:
    """One server of the cluster: its command, log and current process."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        folder: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._folder = folder
        self._environment = environment(**(variables or {}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in a session of its own; it is killed when this process ends."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )

    def identities(self) -> list[Identity]:
        """Return the process and its children that run."""
        found = Identity.of(self._process.pid) if self._process is not None else None
        return [] if found is None else [found, *found.children()]

    def ended(self) -> int | None:
        """Return the exit code of an ended process."""
        return None if self._process is None else self._process.poll()

    def check(self) -> None:
        """Raise with the end of the log when the process has ended."""
        code = self.ended()
        if code is not None:
            raise BrokenError(f"{self.name} ended with {code}, {self.log} ends:\n{tail(self.log)}")

    def stop(self, number: signal.Signals = signal.SIGTERM, patience: float = 5) -> None:
        """End the process and its children; they are killed after `patience` seconds."""
        if self._process is None:
            return
        running = self.identities()
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for identity in running:
            identity.end()
        self._process = None


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(there is no log)"


def free_ports(count: int) -> list[int]:
    """Return ports that are free."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            found.append(port)
    return found
