"""Users of intercepted programs, whose server may not trace all processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root sets users of programs")

_RUN = """
import json, sys
from integration.simulator.runtimes.processes.programs import PYTHON, run_scenario
from pytest_kwait.simulator.runtimes.processes.runtime import Mount

config = json.loads(sys.argv[2])
config["mounts"] = tuple(Mount(*mount) for mount in config.get("mounts", ()))

async def scenario(programs):
    programs.folder.chmod(0o711)
    isolation = await programs.runtime.get_isolation()
    sandbox = await programs.create_sandbox()
    program = programs.start(sandbox, PYTHON, "-c", sys.argv[1], **config)
    end = await program.wait()
    print(isolation.name, isolation.any_user, sorted(isolation.lacking), end.code)
    print(program.stdout, program.stderr, sep="", end="")

run_scenario(scenario)
"""

# Calls with a changed path, an answer in memory, a descriptor's folder, and an address.
_USE = """
import os, socket
def use():
    os.chdir("/tmp")
    with open("/tmp/made", "w") as file:
        file.write("kept")
    fd = os.open("/tmp", os.O_RDONLY)
    made = os.stat("made", dir_fd=fd)
    with socket.create_server(("0.0.0.0", 0)) as server:
        with socket.create_connection(("127.0.0.1", server.getsockname()[1]), 9) as client:
            is_peer = server.accept()[1] == client.getsockname()
    os.unlink("made")
    return made.st_uid, made.st_gid, os.getcwd(), is_peer
"""


def _run(code: str, **config: object) -> list[str]:
    """Run a program as under Docker's default profile; returns the lines of what it prints."""
    command = [sys.executable, "-m", "tools.docker_profile", "--", sys.executable, "-c", _RUN]
    done = subprocess.run(
        [*command, code, json.dumps(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        # Any user may enter it.
        env={**os.environ, "TMPDIR": "/tmp"},
    )
    first, *lines = done.stdout.splitlines()
    assert first == "intercepted True ['processes', 'storage'] 0", done.stdout
    return lines


def test_program_of_another_user() -> None:
    code = f"{_USE}\nprint(os.getresuid(), os.getresgid(), os.getgroups(), *use())"
    assert _run(code, user=1234, group=2345, groups=[77]) == [
        "(1234, 1234, 1234) (2345, 2345, 2345) [77, 2345] 1234 2345 /tmp True"
    ]


def test_program_that_changes_its_user() -> None:
    code = f"""{_USE}
import threading
waiting = threading.Event()
thread = threading.Thread(target=waiting.wait)
thread.start()
os.setgroups([])
os.setgid(2345)
print(*use(), flush=True)
os.setuid(1234)
print(*use(), flush=True)
seen = []
threading.Thread(target=lambda: seen.append(use())).start()
waiting.set()
os.system("id -u; touch /tmp/other; stat -c %u /tmp/other")
print(*seen[0])
"""
    assert _run(code) == [
        "0 2345 /tmp True",
        "1234 2345 /tmp True",
        "1234",
        "1234",
        "1234 2345 /tmp True",
    ]


def test_program_below_a_folder_that_is_closed_to_its_user(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy("/bin/echo", folder / "tool")
    (folder / "script").write_text("#!/srv/bin/tool -n\n")
    (folder / "closed").write_text("#!/bin/sh\n")
    for path, mode in ((folder, 0o755), (folder / "script", 0o755), (folder / "closed", 0o700)):
        path.chmod(mode)
    tmp_path.chmod(0o700)
    code = """
import subprocess
for name in ("tool", "script", "closed"):
    try:
        print(subprocess.run([f"/srv/bin/{name}", "hello"], stdout=-1, text=True).stdout)
    except PermissionError as error:
        print(error)
"""
    assert _run(code, user=1234, mounts=[("/srv/bin", str(folder))]) == [
        "hello",
        "",
        "/srv/bin/script hello",
        "[Errno 13] Permission denied: '/srv/bin/closed'",
    ]


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("os.seteuid(1234)", "EPERM (0, 0, 0)"),
        ("os.setegid(1234)", "EPERM (0, 0, 0)"),
        ("os.setresuid(-1, 1234, 0)", "EPERM (0, 0, 0)"),
        ("os.setreuid(1234, 1234)", "done (1234, 1234, 1234)"),
        ("libc.setfsuid(1234)", "done (0, 0, 0)"),
        ("libc.prctl(4, 0, 0, 0, 0)", "done (0, 0, 0)"),
    ],
)
def test_part_of_a_user_is_refused(call: str, shown: str) -> None:
    code = f"""{_USE}
import ctypes, errno
libc = ctypes.CDLL(None)
try:
    {call}
    print("done", end=" ")
except OSError as error:
    print(errno.errorcode[error.errno], end=" ")
print(os.getresuid())
use()
"""
    assert _run(code) == [shown]


def test_capabilities_that_a_user_keeps() -> None:
    code = f"""{_USE}
import ctypes
libc = ctypes.CDLL(None)
libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
os.setuid(1234)
print(*use(), flush=True)
"""
    assert _run(code) == ["1234 0 /tmp True"]
