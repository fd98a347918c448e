"""The process of the embedded cluster: started, awaited, and ended with its owner."""

from __future__ import annotations

import os
import select
import site
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SimulatorProcess", "Timing"]

Timing = Literal["fast", "real"]

_START_TIMEOUT = 60.0
"""Seconds that a start may take; it needs about one, and much more only on a machine that swaps."""
_END_TIMEOUT = 2.0
_LOG_LINES = 15
_COMMAND = (sys.executable, "-P", "-m", "pytest_kwait.simulator")


class SimulatorProcess:
    """A running embedded cluster, ready when this object is made.

    It ends when `stop` is called, and if it is owned also when this process ends, however it does:
    the pipe between them closes.

    Args:
        kubeconfig: the file that it writes for its clients.
        log: the file that takes what it says.
        nodes: how many nodes it has.
        timing: `fast` for pauses twenty times shorter than upstream's, `real` for upstream's own.
        port: the port that it serves on; 0 for any that is free.
        token_file: further users and their tokens, as kube-apiserver reads them.
        address: where it listens; loopback alone by default.
        users: `NAME` or `NAME=GROUP,...` of users who get a client certificate.
        owned: whether it is to end together with this process.
        folder: what it removes then, as this process may not get to it; None for nothing.
        command: what to run, for tests.
        clock: the time that it is awaited in.

    Raises:
        ClusterError: it did not become ready; with the last lines of what it said.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *,
        nodes: int = 2,
        timing: Timing = "fast",
        port: int = 0,
        token_file: Path | None = None,
        users: Sequence[str] = (),
        address: str = "",
        owned: bool = True,
        folder: Path | None = None,
        command: Sequence[str] = _COMMAND,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._log = log
        self._starter = os.getpid()
        self._owner: int | None = None
        ready, ready_end = os.pipe()
        theirs = [ready_end]
        arguments = [
            *command,
            *("--nodes", str(nodes), "--timing", timing, "--port", str(port)),
            *("--kubeconfig", str(kubeconfig), "--ready-fd", str(ready_end)),
        ]
        if address:
            arguments += ["--address", address]
        if token_file is not None:
            arguments += ["--token-auth-file", str(token_file)]
        for user in users:
            arguments += ["--user", user]
        if owned:
            owner_end, self._owner = os.pipe()
            theirs.append(owner_end)
            arguments += ["--owner-fd", str(owner_end)]
            if folder is not None:
                arguments += ["--owner-folder", str(folder)]
        try:
            self._process = self._spawn(arguments, theirs)
        except OSError as error:
            os.close(ready)
            self._let_go()
            raise ClusterError(f"the embedded cluster cannot be started: {error}") from error
        finally:
            for fd in theirs:
                os.close(fd)
        try:
            self._await_ready(ready, Deadline.after(_START_TIMEOUT, clock))
        except BaseException:  # an interrupt too must not leave the process behind
            self.stop()
            raise
        finally:
            os.close(ready)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait(self) -> int:
        """Return its exit status once it has ended; negative for the signal that ended it."""
        return self._process.wait()

    def tail(self) -> str:
        """Return the last lines of what it said."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # the log's folder may be gone already
            return ""
        return "\n".join(lines[-_LOG_LINES:])

    def stop(self) -> None:
        """End the process; returns once it has ended. In a forked copy of the owner: nothing."""
        if os.getpid() != self._starter:
            return
        if not self._let_go():
            self._process.terminate()
        if not self._has_ended():
            self._process.kill()  # it has nothing to save
            self._process.wait()

    def leave(self) -> None:
        """Let the process go on without us, which only one that is not owned can."""
        self._process.returncode = 0  # or `Popen` complains of a process nobody has waited for

    def _let_go(self) -> bool:
        """Close the pipe that an owned process ends with; say whether there was one."""
        if self._owner is None:
            return False
        os.close(self._owner)
        self._owner = None
        return True

    def _has_ended(self) -> bool:
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _spawn(self, arguments: list[str], fds: list[int]) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own module and values we have checked
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                cwd=self._log.parent,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is the owner's: it still needs the cluster then
            )

    def _await_ready(self, fd: int, deadline: Deadline) -> None:
        said = b""
        while not said.endswith(b"\n"):
            readable, _, _ = select.select([fd], [], [], deadline.remaining)
            if not readable:
                raise ClusterError(
                    self._failure(f"was not ready within {_START_TIMEOUT:g}s", self.tail())
                )
            chunk = os.read(fd, 4096)
            if not chunk:
                status = self._end_status()
                raise ClusterError(self._failure(f"did not start ({status})", self.tail()))
            said += chunk

    def _end_status(self) -> str:
        try:
            code = self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return "it closed its pipe and went on"
        return f"exit status {code}" if code >= 0 else f"ended by signal {-code}"

    def _failure(self, what: str, said: str) -> str:
        return f"the embedded cluster {what}" + (f":\n{said}" if said else "; it said nothing")


def _environment() -> dict[str, str]:
    """Our environment, in which the process finds the same package that we are."""
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    known = {str(Path(folder).resolve()) for folder in _site_folders()}
    if root not in known:
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([path, root] if path else [root])
    return environment


def _site_folders() -> list[str]:
    return [*site.getsitepackages(), site.getusersitepackages()]
