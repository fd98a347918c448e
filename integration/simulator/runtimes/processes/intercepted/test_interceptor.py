"""Programs whose system calls are intercepted: a fault is refused or right, never a hang."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import (
    PYTHON,
    Programs,
    list_sleeps,
)
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration.simulator.runtimes.processes.programs import Scenario

    Run = Callable[[Scenario], None]

_CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({number}, 8, None), ctypes.get_errno())
"""
_SIGNALS = """
import signal, socket, threading, time, os
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append("handled"))
server = socket.create_server(("0.0.0.0", 8080))
def connect():
    while not seen:
        os.kill(os.getpid(), signal.SIGUSR1)
    socket.create_connection(("127.0.0.1", 8080)).close()
threading.Thread(target=connect).start()
_, peer = server.accept()
print(seen[0], peer[0])
"""
_DAEMON = """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execve("/bin/sleep", ["sleep", "98764"], {})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(98764)
"""


def _run(run: Run, code: str, **config: object) -> list[str]:
    """Run a Python program in a pod of its own; return the words that it prints."""
    words = []

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", code, **config)
        assert await program.wait() == Exit(0), program.stderr
        words.extend(program.stdout.split())

    run(scenario)
    return words


def test_call_that_no_filter_sees_is_not_known(run_intercepted: Run) -> None:
    assert _run(run_intercepted, _CALL.format(number=425)) == ["-1", "38"]


def test_signal_while_a_call_is_awaited(run_intercepted: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _SIGNALS)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout == "handled 127.0.0.1\n"

    run_intercepted(scenario)


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("'/' + './' * 2041 + 'etc/hostname'", "read"),
        ("'/' + './' * 2042 + 'etc/hostname'", "ENAMETOOLONG"),
        ("'/' + 'x' * 256", "ENAMETOOLONG"),
        ("b'/\\xff'", "ENOENT"),
    ],
)
def test_longest_paths(run_intercepted: Run, path: str, outcome: str) -> None:
    code = (
        "import errno\n"
        f"try:\n  open({path}).read()\n  print('read')\n"
        "except OSError as error:\n  print(errno.errorcode[error.errno])"
    )
    assert _run(run_intercepted, code) == [outcome]


def test_link_that_leaves_a_volume_is_the_container_s(run_intercepted: Run, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to("/etc/hostname")
    (tmp_path / "up").symlink_to("../etc/hostname")

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(files={"/etc/hostname": b"db-0\n"})
        mounts = (Mount("/data", source=str(tmp_path)),)
        program = programs.shell(sandbox, "cat /data/name /data/up", mounts=mounts)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout == "db-0\ndb-0\n"

    run_intercepted(scenario)


def test_program_of_a_volume_is_executed(run_intercepted: Run, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho tool $0 $1\n")
    tool.chmod(0o755)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        mounts = (Mount("/data", source=str(tmp_path)),)
        code = "import subprocess; subprocess.run(['/data/tool', 'one'], check=True)"
        program = programs.start(sandbox, PYTHON, "-c", code, mounts=mounts)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.split()[::2] == ["tool", "one"]

    run_intercepted(scenario)


def test_daemon_ends_with_its_container(run_intercepted: Run) -> None:
    """The check for leftovers finds it by its parent, as it has no mark."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _DAEMON)
        await program.wait_for("ready")
        program.signal(signal.SIGKILL)
        assert (await program.wait()).code == 137
        assert not list_sleeps("98764")

    run_intercepted(scenario)
