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
"""Maximum seconds of a start. It needs about one, and much more only on a swapping machine."""
_END_TIMEOUT = 2.0
_LOG_LINES = 15
_COMMAND = (sys.executable, "-P", "-m", "pytest_kwait.simulator")


class SimulatorProcess:
    """A running embedded cluster, ready once this object is created.

    It ends with `stop`, and if owned also with this process, however that ends: the pipe between
    them closes.

    Args:
        kubeconfig: the file that it writes for its clients.
        log: the file for its output.
        nodes: the number of nodes.
        timing: `fast` for pauses twenty times shorter than upstream's, `real` for upstream's own.
        port: the port that it serves on; 0 for any free one.
        token_file: further users and their tokens, in kube-apiserver's format.
        address: the listening address; loopback by default.
        users: `NAME` or `NAME=GROUP,...` of users with a client certificate.
        owned: whether it ends together with this process.
        folder: a folder that it removes at its end, in case this process cannot; None for none.
        command: the command to run, for tests.
        clock: the clock for waiting.

    Raises:
        ClusterError: it did not become ready; with the last lines of its output.
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
        except BaseException:  # leave no process behind on an interrupt
            self.stop()
            raise
        finally:
            os.close(ready)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait(self) -> int:
        """Wait for its end and return the exit status; negative for a signal."""
        return self._process.wait()

    def tail(self) -> str:
        """Return the last lines of its output."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:  # the log's folder may already be removed
            return ""
        return "\n".join(lines[-_LOG_LINES:])

    def stop(self) -> None:
        """End the process and wait for it; no-op in a fork of the owner."""
        if os.getpid() != self._starter:
            return
        if not self._let_go():
            self._process.terminate()
        if not self._has_ended():
            self._process.kill()  # it has nothing to save
            self._process.wait()

    def leave(self) -> None:
        """Detach from the process, which must not be owned; it keeps running."""
        self._process.returncode = 0  # or `Popen` warns that the process still runs

    def _let_go(self) -> bool:
        """Close the pipe to an owned process; return whether there was one."""
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
                start_new_session=True,  # Ctrl-C is for the owner, which still needs the cluster
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
    """Return our environment, extended so that the process imports this same package."""
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    known = {str(Path(folder).resolve()) for folder in _site_folders()}
    if root not in known:
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([path, root] if path else [root])
    return environment


def _site_folders() -> list[str]:
    return [*site.getsitepackages(), site.getusersitepackages()]
