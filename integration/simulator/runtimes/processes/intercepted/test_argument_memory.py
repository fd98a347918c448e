"""Changed arguments of calls: where they are kept in the memory of programs."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON, Programs
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration.simulator.runtimes.processes.programs import Scenario

    Run = Callable[[Scenario], None]

# A call whose stack is as small as a goroutine's may be: below it is the memory of others.
_SMALL_STACK = """
import ctypes, mmap, os
# push rbx; mov rbx, rsp; mov rsp, rdi; mov rax, rsi; mov rdi, rdx; syscall; mov rsp, rbx;
# pop rbx; ret
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("53 4889e3 4889fc 4889f0 4889d7 0f05 4889dc 5b c3"))
kind = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_char_p)
chdir = kind(ctypes.addressof(ctypes.c_char.from_buffer(code)))
memory = mmap.mmap(-1, 8192)
memory[:4096] = b"x" * 4096
stack = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 4096 + 128
path = b"/data/" + b"./" * 1500
print(chdir(stack, 80, path), os.getcwd(), memory[:4096] == b"x" * 4096)
"""
_THREADS = """
import os, threading
names = [f"file-{number}-" + "x" * 200 for number in range(40)]
for name in names:
    open(f"/data/{name}", "w").close()
wrong = []
def look(name):
    for _ in range(20):
        fd = os.open(f"/data/{name}", os.O_PATH)
        if os.readlink(f"/proc/self/fd/{fd}") != f"/data/{name}":
            wrong.append(name)
        os.close(fd)
threads = [threading.Thread(target=look, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(wrong)
"""
_SIGNALS = """
import os, signal
os.makedirs("/data/inner/deep")
handled = []
def handle(*_):
    handled.append(os.close(os.open("/data/inner/deep", os.O_PATH)))
signal.signal(signal.SIGALRM, handle)
found = set()
for number in range(300):
    signal.setitimer(signal.ITIMER_REAL, number % 60 / 100_000 + 0.00001)
    fd = os.open("/data/inner", os.O_PATH)
    found.add(os.fstat(fd).st_ino)
    os.close(fd)
while len(handled) < 100:
    signal.setitimer(signal.ITIMER_REAL, 0.00001)
signal.setitimer(signal.ITIMER_REAL, 0)
print(found == {os.stat("/data/inner").st_ino})
"""
_RESTARTS = """
import os, signal, threading, time
os.mkfifo("/data/pipe")
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, False)
def write():
    for number in range(20):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        time.sleep(0.01)
    with open("/data/pipe", "w") as pipe:
        pipe.write("written")
threading.Thread(target=write).start()
fd = os.open("/data/pipe", os.O_RDONLY)
print(os.read(fd, 100))
"""
_SPAWNS = """
import subprocess
def count():
    return len(open("/proc/self/maps").readlines())
def spawn():
    subprocess.run(["/data/tool"], check=True, close_fds=False)
spawn()
before = count()
for _ in range(20):
    spawn()
print(count() - before)
"""
_MANY_ARGUMENTS = """
import subprocess
arguments = [str(number) for number in range(20_000)]
done = subprocess.run(["/data/tool", *arguments], check=True, capture_output=True)
print(done.stdout.split() == [b"20000", b"19999"])
"""
_KILLS = """
import os, signal, time
os.mkdir("/data/inner")
for number in range(50):
    pid = os.fork()
    if not pid:
        while True:
            os.chdir("/data/inner")
    time.sleep(number / 50_000)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print("all have ended")
"""
_KILLED = """
import os, signal, threading, time
os.mkdir("/data/inner")
def end():
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=end).start()
while True:
    os.chdir("/data/inner")
"""


_SUCCESS = Exit(0)


@pytest.fixture
def run_code(run_intercepted: Run, tmp_path: Path) -> Callable[..., str]:
    """Run a Python program with a volume at /data; returns its output."""

    def run(code: str, expected: Exit = _SUCCESS) -> str:
        outputs = []

        async def scenario(programs: Programs) -> None:
            sandbox = await programs.create_sandbox()
            mounts = (Mount("/data", str(tmp_path)),)
            program = programs.start(sandbox, PYTHON, "-c", code, mounts=mounts)
            assert await program.wait() == expected, program.stderr
            outputs.append(program.stdout.strip())

        run_intercepted(scenario)
        return outputs[0]

    return run


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are of x86_64")
def test_memory_below_a_small_stack_stays_as_it_was(run_code: Callable[..., str]) -> None:
    assert run_code(_SMALL_STACK) == "0 /data True"


def test_threads_have_paths_of_their_own(run_code: Callable[..., str]) -> None:
    assert run_code(_THREADS) == "[]"


def test_handler_of_a_signal_has_paths_of_its_own(run_code: Callable[..., str]) -> None:
    assert run_code(_SIGNALS) == "True"


def test_call_that_signals_interrupt_is_made_again(run_code: Callable[..., str]) -> None:
    assert run_code(_RESTARTS) == "b'written'"


def test_memory_is_used_again(run_code: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/true\n")
    (tmp_path / "tool").chmod(0o755)
    assert run_code(_SPAWNS) == "0"


def test_script_with_many_arguments(run_code: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "tool").write_text('#!/bin/sh\nfor last; do :; done\necho "$# $last"\n')
    (tmp_path / "tool").chmod(0o755)
    assert run_code(_MANY_ARGUMENTS) == "True"


def test_children_that_are_killed_while_a_call_changes(run_code: Callable[..., str]) -> None:
    assert run_code(_KILLS) == "all have ended"


def test_program_that_is_killed_while_a_call_changes(run_code: Callable[..., str]) -> None:
    assert run_code(_KILLED, Exit(137)) == ""
