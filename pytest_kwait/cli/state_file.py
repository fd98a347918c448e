"""State file of `kwait up`: names the process that `kwait down` ends.

It is beside the kubeconfig. A process is identified by id and start time, since ids are
reused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.wait import ErrWaitTimeout, poll_immediate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.clock import Clock

_PROC = Path("/proc")
_END_TIMEOUT = 10.0
_POLL_INTERVAL = 0.05
_MAX_STATE = 10_000


@dataclass(frozen=True)
class ProcessIdentity:
    """A process of this machine, by id and start time, since ids are reused.

    Args:
        pid: its id.
        started: its start time in the system's format; only compared.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of the current process with this id; None if there is none."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    def read_command(self) -> list[str]:
        """Return the arguments of the process; empty if it belongs to another user."""
        folder = _PROC / str(self.pid)
        try:
            if (_PROC / "self" / "stat").exists():
                line = os.fsdecode((folder / "cmdline").read_bytes())
                return line.split("\0") if folder.stat().st_uid == os.geteuid() else []
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
        owner, *words = _ask_ps(self.pid, "uid=,args=").split() or [""]
        return words if owner == str(os.geteuid()) else []

    @property
    def alive(self) -> bool:
        """Return whether the process still runs."""
        return _start_time(self.pid) == self.started

    def end(self, clock: Clock) -> bool:
        """End the process; kill it if it does not end within ten seconds.

        Returns:
            whether there was a process to end.

        Raises:
            PermissionError: it belongs to another user.
            ErrWaitTimeout: it survives SIGKILL.
        """
        if not self._send(signal.SIGTERM):
            return False
        try:
            poll_immediate(_POLL_INTERVAL, _END_TIMEOUT, lambda: not self.alive, clock=clock)
        except ErrWaitTimeout:
            self._send(signal.SIGKILL)
            poll_immediate(_POLL_INTERVAL, _END_TIMEOUT, lambda: not self.alive, clock=clock)
        return True

    def _send(self, signal_number: signal.Signals) -> bool:
        """Signal the process if it is still the same; return whether it was."""
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, ProcessLookupError, OSError):
            return self._send_by_id(signal_number)
        try:
            # The descriptor refers to one process, even if its id is reused.
            if not self.alive:
                return False
            signal.pidfd_send_signal(fd, signal_number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True

    def _send_by_id(self, signal_number: signal.Signals) -> bool:
        if not self.alive:
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


def _start_time(pid: int) -> str | None:
    """Return the start time of a running process; None for none or a zombie."""
    if (_PROC / "self" / "stat").exists():
        return _start_time_by_proc(pid)
    return _start_time_by_ps(pid)


def _start_time_by_proc(pid: int) -> str | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain anything; the fields after it start with the third.
    fields = stat.rpartition(")")[2].split()
    state, start = fields[0], fields[19]
    return None if state in {"Z", "X"} else f"{boot} {start}"


def _start_time_by_ps(pid: int) -> str | None:
    state, _, start = _ask_ps(pid, "state=,lstart=").partition(" ")
    return None if not start or state.startswith("Z") else start.strip()


def _ask_ps(pid: int, columns: str) -> str:
    program = shutil.which("ps") or "/bin/ps"
    answer = subprocess.run(  # noqa: S603 - a number is all we put in
        [program, "-ww", "-o", columns, "-p", str(pid)],
        capture_output=True,
        check=False,
        text=True,
        env={"LC_ALL": "C"},
    )
    return answer.stdout.strip()


def write_private(path: Path, text: str) -> None:
    """Write a new file that only this user can read.

    Raises:
        FileExistsError: there is one.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)


def default_kubeconfig(environ: Mapping[str, str]) -> Path:
    """Return the default kubeconfig, in the user's state folder."""
    state = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "kwait" / "kubeconfig"


def parse_path(text: str) -> Path:
    """Return the path of an argument, for `argparse`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid: there is no such user") from None


def add_kubeconfig_argument(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add the argument for the kubeconfig that identifies a cluster."""
    default = default_kubeconfig(os.environ)
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=parse_path,
        default=default,
        help=f"{help_text} (default: {default})",
    )


@dataclass(frozen=True)
class StateFile:
    """The files of a cluster started by `kwait up`.

    Args:
        kubeconfig: the file for clients, which identifies the cluster.
    """

    kubeconfig: Path

    @property
    def state(self) -> Path:
        """The file that names the process."""
        return self.kubeconfig.with_name(self.kubeconfig.name + ".kwait.json")

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.kubeconfig.with_name(self.kubeconfig.name + ".log")

    def claim(self) -> None:
        """Reserve the kubeconfig for this process, until `note` records the cluster's.

        Raises:
            ClusterError: a cluster is running there.
            InvalidArgument: the file was written by another program.
        """
        process = self.process()
        if process is not None and process.alive:
            raise ClusterError(
                f"a cluster is running with kubeconfig {self.kubeconfig} (process {process.pid}); "
                f"end it with: kwait down --kubeconfig {quote(str(self.kubeconfig))}"
            )
        if process is not None:
            self.remove()
        if self.kubeconfig.exists():
            why = "it exists and is not of `kwait up`; name another file"
            raise InvalidArgument("--kubeconfig", str(self.kubeconfig), why)
        try:
            write_private(self.state, self._text(os.getpid()))
        except FileExistsError:
            raise ClusterError(
                f"another `kwait up` is taking kubeconfig {self.kubeconfig} at this moment"
            ) from None
        except OSError as error:
            raise ClusterError(f"{self.state} cannot be written: {error.strerror}") from error

    def note(self, pid: int) -> None:
        """Record the cluster's process."""
        draft = self.state.with_name(self.state.name + ".new")
        draft.unlink(missing_ok=True)
        write_private(draft, self._text(pid))
        draft.replace(self.state)

    def process(self) -> ProcessIdentity | None:
        """Return the recorded process, running or not; None if there is none.

        Raises:
            ClusterError: the state file cannot be read, or is another user's.
        """
        try:
            with self.state.open(encoding="utf-8") as file:
                is_own = os.fstat(file.fileno()).st_uid == os.geteuid()
                noted = json.loads(file.read(_MAX_STATE)) if is_own else {}
            if not is_own:
                raise ClusterError(f"{self.state} belongs to another user")
            return ProcessIdentity(int(noted["pid"]), str(noted["started"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ClusterError(
                f"{self.state} is no note of `kwait up`: remove it if no cluster runs with it"
            ) from error

    def is_cluster(self, process: ProcessIdentity) -> bool:
        """Return whether a process of this user is an embedded cluster with this kubeconfig."""
        words = process.read_command()
        own = os.path.realpath(self.kubeconfig)
        return any(
            word == "--kubeconfig" and os.path.realpath(value) == own
            for word, value in itertools.pairwise(words)
        )

    def remove(self) -> None:
        """Remove all files of the cluster."""
        for path in (self.kubeconfig, self.log, self.state):
            path.unlink(missing_ok=True)

    def remove_of(self, pid: int) -> None:
        """Remove all files of the cluster, unless they belong to another process now."""
        noted = self.process()
        if noted is not None and noted.pid == pid:
            self.remove()

    def _text(self, pid: int) -> str:
        identity = ProcessIdentity.of(pid)
        started = "" if identity is None else identity.started
        return json.dumps({"pid": pid, "started": started}) + "\n"
