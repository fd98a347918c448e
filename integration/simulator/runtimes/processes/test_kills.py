"""Whichever process is killed: nothing of a cluster's programs stays."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.simulator.runtimes.processes.programs import list_leftovers
from pytest_kwait.simulator.runtimes.processes.cgroups import remove_cgroups
from pytest_kwait.simulator.runtimes.processes.processes import kill_marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.runtimes.processes.runtime import Isolation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

_LIMIT_MS = 20_000

# The package is the installed one, as in the tests; the checkout comes after it.
_RUN_SERVER = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("integration.simulator.runtimes.processes.killed_server", run_name="__main__")
"""


class _Server:
    """A server process, and the processes below it."""

    def __init__(self, folder: Path, *arguments: str, launcher: str | None = None) -> None:
        prefix = [sys.executable, "-m", launcher, "--"] if launcher else []
        command = [sys.executable, "-c", _RUN_SERVER, str(Path(__file__).parents[4]), str(folder)]
        self._process = subprocess.Popen(
            [*prefix, *command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def read(self) -> dict[str, Any]:
        """Return the next message."""
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        return message

    def end(self) -> None:
        """Have it end in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait() == 0

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture(params=["namespaces", "none"])
def server(
    request: pytest.FixtureRequest, isolation: Isolation, tmp_path: Path
) -> Iterator[_Server]:
    if request.param == "namespaces" and not isolation.namespaces:
        pytest.skip(isolation.reason)
    started = _Server(tmp_path, request.param)
    yield started
    started.close()


def _list_children(pid: int) -> list[int]:
    children = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid:
            children.append(int(path.name))
    return sorted(children)


def _list_descendants(pid: int) -> list[int]:
    children = _list_children(pid)
    return [each for child in children for each in (child, *_list_descendants(child))]


def _open_process(pid: int) -> list[int]:
    try:
        return [os.pidfd_open(pid)]
    except ProcessLookupError:
        return []


def _read_command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _is_logger(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "kwait-logger\n"


def _is_pause(pid: int) -> bool:
    """Return whether this is process 1 of a pod's PID namespace."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return "supervisor" in _read_command(pid) and numbers[2:] == ["1"]


def _wait_for_end(ended: list[int]) -> None:
    for fd in ended:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(_LIMIT_MS), "a process is left"
        os.close(fd)


@pytest.mark.parametrize(
    "victim",
    [
        "server",
        "supervisor",
        "launcher",
        "logger",
        "pause",
        "shared",
        "program",
        "session",
        "both",
    ],
)
def test_kill(server: _Server, tmp_path: Path, victim: str) -> None:
    assert server.read() == {"ready": True}
    below = _list_descendants(server.pid)
    ended = [fd for pid in below for fd in _open_process(pid)]
    supervisor = below[0]
    launcher = next(pid for pid in _list_children(supervisor) if not _is_logger(pid))
    is_plain = "supervisor" not in _read_command(launcher)
    if is_plain:
        launcher = supervisor
    children = _list_children(launcher)
    shells = {
        command.split()[-1]: pid
        for pid in children
        if (command := _read_command(pid)).startswith("/bin/sh")
    }
    pids = {
        "server": server.pid,
        "supervisor": supervisor,
        "launcher": launcher,
        "logger": next(pid for pid in children if _is_logger(pid)),
        "session": next(pid for pid in children if _read_command(pid).startswith("sleep")),
        "pause": next((pid for pid in children if _is_pause(pid)), shells["shared"]),
        "shared": shells["shared"],
        "program": shells["alone"],
    }
    if victim == "both":
        # The next run removes what is left.
        os.kill(server.pid, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)
        os.kill(server.pid, signal.SIGKILL)
        server.close()
        kill_marked("kwait-1-0-0-0")
        remove_cgroups("kwait-1-0-0-0")
        _wait_for_end(ended)
        assert remove_cgroups("kwait-1-0-0-0")
        assert list_leftovers(server.pid, tmp_path.name) == set()
        return
    os.kill(pids[victim], signal.SIGKILL)
    if victim == "server":
        _wait_for_end(ended)
    elif victim == "logger":
        server.end()
        _wait_for_end(ended)
    elif victim in ("supervisor", "launcher"):
        exits = sorted((server.read()["code"] for _ in range(3)), reverse=True)
        assert exits == [137, 137, 137]
        assert server.read()["failed"].startswith("the launcher of programs has ended")
        _wait_for_end(ended)
        server.end()
    else:
        name = "shared" if victim == "pause" else victim
        while server.read() != {"exited": name, "code": 137}:
            pass
        server.end()
        _wait_for_end(ended)
    assert list_leftovers(server.pid, tmp_path.name) == set()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.parametrize("user", ["0", "1234"])
@pytest.mark.parametrize("victim", ["server", "supervisor", "interceptor", "program", "both"])
def test_kill_without_namespaces(
    open_folder: Path, refusal_of_interception: str, victim: str, user: str
) -> None:
    """As under Docker's default profile, with programs of a user whom the server may not trace."""
    if refusal_of_interception:
        pytest.skip(refusal_of_interception)
    server = _Server(open_folder, "auto", user, launcher="tools.docker_profile")
    try:
        assert server.read() == {"ready": True}
        below = _list_descendants(server.pid)
        ended = [fd for pid in below for fd in _open_process(pid)]
        program = next(pid for pid in below if _read_command(pid).endswith("# alone "))
        pids = {
            "server": [server.pid],
            "supervisor": below[:1],
            "interceptor": [pid for pid in below if program in _list_children(pid)],
            "program": [program],
            "both": [below[0], server.pid],
        }
        for pid in pids[victim]:
            os.kill(pid, signal.SIGKILL)
        if victim in ("interceptor", "program"):
            while server.read() != {"exited": "program", "code": 137}:
                pass
            server.end()
        elif victim == "supervisor":
            while "failed" not in server.read():
                pass
            server.end()
        elif victim == "both":
            # The next run removes what is left.
            server.close()
            kill_marked("kwait-1-0-0-0")
            remove_cgroups("kwait-1-0-0-0")
        _wait_for_end(ended)
        remove_cgroups("kwait-1-0-0-0")
        assert list_leftovers(server.pid, open_folder.name) == set()
    finally:
        server.close()
