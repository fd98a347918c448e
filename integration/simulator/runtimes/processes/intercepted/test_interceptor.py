"""Programs whose system calls are intercepted: a fault is refused or right, never a hang."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON, Programs
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.simulator.runtimes.processes.programs import Scenario

    Run = Callable[[Scenario], None]

_CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({number}, 8, None), ctypes.get_errno())
"""
_OLD_CALL = """
import ctypes, mmap
# mov eax, 20 (getpid); int 0x80; ret
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
_RACE = """
import ctypes, socket, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
server = socket.create_server(("0.0.0.0", 8080))
address = ctypes.create_string_buffer(16)
one = struct.pack("=H", 2) + struct.pack("!H4s8x", 8080, socket.inet_aton("127.0.0.1"))
other = struct.pack("=H", 2) + struct.pack("!H4s8x", 8081, socket.inet_aton("127.0.0.1"))
is_over = False
def change():
    while not is_over:
        address.raw = one
        address.raw = other
thread = threading.Thread(target=change)
thread.start()
errors = set()
for _ in range(50):
    with socket.socket() as made:
        if libc.connect(made.fileno(), address, 16):
            errors.add(ctypes.get_errno())
is_over = True
thread.join()
print(errors <= {111})
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


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it has no calls of 32 bits")
def test_call_of_32_bits_is_not_known(run_intercepted: Run) -> None:
    assert _run(run_intercepted, _OLD_CALL) == ["-38"]


def test_address_that_a_thread_changes_is_one_or_the_other(run_intercepted: Run) -> None:
    assert _run(run_intercepted, _RACE) == ["True"]


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


def test_set_user_id_bits_change_nothing(run_intercepted: Run) -> None:
    code = "print(*[l for l in open('/proc/self/status') if l.startswith('NoNewPrivs')])"
    assert _run(run_intercepted, code) == ["NoNewPrivs:", "1"]


def test_end_of_what_intercepts_ends_the_program(run_intercepted: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(98763)"
        program = programs.start(sandbox, PYTHON, "-c", code)
        await program.wait_for("\n")
        session = program.exec(PYTHON, "-c", "print('up', flush=True); import time; time.sleep(9)")
        await session.wait_for("up")
        os.kill(_find_parent(int(program.stdout)), signal.SIGKILL)
        assert (await program.wait()).code == 137
        assert (await session.wait()).code == 137
        other = programs.shell(sandbox, "echo again")
        assert await other.wait() == Exit(0)

    run_intercepted(scenario)


def _find_parent(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def test_daemon_ends_with_its_container(run_intercepted: Run) -> None:
    """The check for leftovers finds it by its parent, as it has no mark."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _DAEMON)
        await program.wait_for("ready")
        program.signal(signal.SIGKILL)
        assert (await program.wait()).code == 137
        assert not _list_commands("98764")

    run_intercepted(scenario)


def _list_commands(text: str) -> list[bytes]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"sleep") and text.encode() in command:
            found.append(command)
    return found
