"""The process of the embedded cluster: started, awaited, monitored, and ended with its owner."""

from __future__ import annotations

import os
import select
import site
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ClusterError
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


LONGEST_STOP = 4.0
"""Seconds that the process may be stopped by a signal before requests are refused."""

LONGEST_SILENCE = 30.0
"""Seconds that a running process may not answer."""

_START_TIMEOUT = 60.0
"""Maximum seconds of a start. It needs about one, and much more only on a swapping machine."""
_END_TIMEOUT = 2.0
_STOP_TIMEOUT = 15.0
"""Maximum seconds of a stop, in which programs in pods save what they have."""
_LOG_LINES = 15
_COMMAND = (sys.executable, "-P", "-m", "pytest_kwait.simulator")
_INTERVAL = 1.0
"""Seconds between two looks at the process; its end is noticed at once."""

_PROBE_INTERVAL = 5.0
_PROBE_TIMEOUT = 5.0


class SimulatorProcess:
    """A running embedded cluster, ready once this object is created.

    It ends with `stop`, and if owned also with this process, however that ends: the pipe between
    them closes.

    Args:
        kubeconfig: the file that it writes for its clients.
        log: the file for its output.
        options: the options of the cluster.
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
        options: EmbeddedOptions | None = None,
        *,
        owned: bool = True,
        folder: Path | None = None,
        command: Sequence[str] = _COMMAND,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._log = log
        self._starter = os.getpid()
        self._owner: int | None = None
        from pytest_kwait.simulator.protocol.options_json import write_options

        # A file and no pipe: writing to it never blocks, whatever its size.
        with TemporaryFile() as file:
            file.write(write_options(options or EmbeddedOptions()))
            file.seek(0)
            options_fd = os.dup(file.fileno())
        ready, ready_end = os.pipe()
        child_fds = [options_fd, ready_end]
        arguments = [
            *command,
            *("--kubeconfig", str(kubeconfig)),
            *("--options-fd", str(options_fd), "--ready-fd", str(ready_end)),
        ]
        if owned:
            owner_end, self._owner = os.pipe()
            child_fds.append(owner_end)
            arguments += ["--owner-fd", str(owner_end)]
            if folder is not None:
                arguments += ["--owner-folder", str(folder)]
        try:
            self._process = self._spawn(arguments, child_fds)
        except OSError as error:
            os.close(ready)
            self._close_pipe()
            raise ClusterError(f"the embedded cluster cannot be started: {error}") from error
        finally:
            for fd in child_fds:
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

    def poll(self) -> int | None:
        """Return the exit status once it has ended, negative for a signal; None before."""
        return self._process.poll()

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
        if not self._close_pipe():
            self._process.terminate()
        if not self._has_ended():
            self._process.kill()
            self._process.wait()

    def detach(self) -> None:
        """Detach from the process, which must not be owned; it keeps running."""
        self._process.returncode = 0  # or `Popen` warns that the process still runs

    def _close_pipe(self) -> bool:
        """Close the pipe to an owned process; return whether there was one."""
        if self._owner is None:
            return False
        os.close(self._owner)
        self._owner = None
        return True

    def _has_ended(self) -> bool:
        is_frozen = is_stopped(self._process.pid)
        try:
            self._process.wait(_END_TIMEOUT if is_frozen else _STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _spawn(self, arguments: list[str], fds: list[int]) -> subprocess.Popen[bytes]:
        # New, for this user alone: it may contain names and values of the cluster.
        self._log.unlink(missing_ok=True)
        with open(self._log, "xb", opener=_open_private) as log:
            return subprocess.Popen(  # noqa: S603 - our own module and values we have checked
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                cwd=self._log.parent,
                env=python_environment(),
                start_new_session=True,  # Ctrl-C is for the owner, which still needs the cluster
            )

    def _await_ready(self, fd: int, deadline: Deadline) -> None:
        output = b""
        while not output.endswith(b"\n"):
            readable, _, _ = select.select([fd], [], [], deadline.remaining)
            if not readable:
                raise ClusterError(
                    self._failure(f"was not ready within {_START_TIMEOUT:g}s", self.tail())
                )
            chunk = os.read(fd, 4096)
            if not chunk:
                status = self._end_status()
                raise ClusterError(self._failure(f"did not start ({status})", self.tail()))
            output += chunk

    def _end_status(self) -> str:
        try:
            code = self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return "it closed its pipe and went on"
        return f"exit status {code}" if code >= 0 else f"ended by signal {-code}"

    def _failure(self, clause: str, output: str) -> str:
        return f"the embedded cluster {clause}" + (
            f":\n{output}" if output else "; it said nothing"
        )


def python_environment() -> dict[str, str]:
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


class MonitoredProcess(Protocol):
    """A process that serves a cluster."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        ...

    def poll(self) -> int | None:
        """Return the exit status once it has ended, negative for a signal; None before."""
        ...

    def tail(self) -> str:
        """Return the last lines of its output."""
        ...


class ProcessMonitor:
    """Watches the process of a cluster, in a thread, until `stop`.

    A process that runs must answer TLS handshakes: they are not subject to injected faults. One
    that is stopped by a signal, or does not answer, is usable again once it answers.

    Args:
        server: the address of its API server.
        report: called with each problem, and with an empty text once it is over.
        title: the cluster in messages.
    """

    def __init__(
        self,
        process: MonitoredProcess,
        server: str,
        report: Callable[[str], object],
        clock: Clock = SYSTEM_CLOCK,
        title: str = "the embedded cluster",
    ) -> None:
        self._title = title
        self._process = process
        self._report = report
        self._clock = clock
        address = urlsplit(server)
        self._address = (address.hostname or "", address.port or 443)
        self._worker = Worker("kwait cluster monitor", self._run, clock)
        self._problem = ""
        self._stopped_since: float | None = None
        self._silent_since: float | None = None
        self._probe_at = clock.monotonic() + _PROBE_INTERVAL

    def start(self) -> None:
        """Start to watch."""
        self._worker.start()

    def stop(self) -> None:
        """Report nothing more: the process is ended on purpose."""
        self._worker.stop()

    def check(self) -> bool:
        """Look once, and report a change; return whether the process has ended."""
        code = self._process.poll()
        if code is not None:
            last = self._process.tail().strip().rpartition("\n")[2] if code > 0 else ""
            reason = f": {last}" if last else ""
            self._change(f"{self._title} has ended ({describe_exit(code)}){reason}")
            return True
        now = self._clock.monotonic()
        if is_stopped(self._process.pid):
            self._stopped_since = now if self._stopped_since is None else self._stopped_since
            if now - self._stopped_since >= LONGEST_STOP:
                self._change(
                    f"{self._title} does not answer: its process "
                    f"{self._process.pid} is stopped (SIGSTOP)"
                )
        elif self._stopped_since is not None or now >= self._probe_at:
            self._stopped_since = None
            self._probe(now)
        return False

    def _probe(self, now: float) -> None:
        if self._can_connect():
            self._silent_since = None
            self._change("")
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since >= LONGEST_SILENCE:
            silence = format_duration(float(round(now - self._silent_since)))
            if not self._problem:
                self._change(f"{self._title} has not answered for {silence}")
        self._probe_at = self._clock.monotonic() + _PROBE_INTERVAL

    def _can_connect(self) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Nothing is sent or received that a certificate could protect.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection(self._address, _PROBE_TIMEOUT) as connection,
                context.wrap_socket(connection),
            ):
                return True
        except OSError:
            return False

    def _change(self, problem: str) -> None:
        if problem != self._problem and not self._worker.is_stopped:
            self._problem = problem
            self._report(problem)

    def _run(self) -> None:
        pidfd = _open_process(self._process.pid)
        try:
            while not self._worker.is_stopped:
                if pidfd is None:
                    self._worker.pause(_INTERVAL)
                else:
                    select.select([pidfd], [], [], _INTERVAL)
                if self.check():
                    return
        finally:
            if pidfd is not None:
                os.close(pidfd)


def describe_exit(code: int) -> str:
    """Return an exit code of `Popen` as a phrase."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal; False where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The name of the program, in parentheses, may contain anything.
    return text.rpartition(")")[2].split()[:1] == ["T"]


def _open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable at the end of a process; None without support."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
