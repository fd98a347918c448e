"""Programs that meet faults in caught calls: each is refused or right, in namespaces too."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import (
    PYTHON,
    find_parent,
    list_sleeps,
)
from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import read_rights
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor
from pytest_kwait.simulator.runtimes.processes.runtime import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.simulator.runtimes.processes.programs import Program, Programs, Scenario
    from pytest_kwait.simulator.runtimes.processes.runtime import Sandbox

    Run = Callable[[Scenario], None]

_HOSTS = {"/etc/hosts": b"127.0.0.1 localhost\n10.244.1.1 web-1\n"}
_IMPORTS = """
import ctypes, errno, os, shutil, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def pack(host, port):
    head = struct.pack("=H", socket.AF_INET)
    return head + struct.pack("!H4s8x", port, socket.inet_aton(host))
"""
_CHILDREN = """
server = socket.create_server(("0.0.0.0", 8080), backlog=512)
children = []
for number in range(200):
    pid = os.fork()
    if not pid:
        client = socket.create_connection(("127.0.0.1", 8080))
        assert "web-1" in open("/etc/hosts").read()
        with open(f"/tmp/child-{number}", "w") as file:
            file.write("x")
        client.sendall(b"1")
        client.recv(1)
        os._exit(0)
    children.append(pid)
connections = [server.accept()[0] for _ in children]
for connection in connections:
    connection.recv(1)
    connection.sendall(b"2")
print(sum(os.waitpid(pid, 0)[1] for pid in children))
print(sum(name.startswith("child-") for name in os.listdir("/tmp")))
"""
_THREADS = """
server = socket.create_server(("0.0.0.0", 8080), backlog=512)
def serve():
    while True:
        connection, _ = server.accept()
        connection.sendall(connection.recv(9))
        connection.close()
threading.Thread(target=serve, daemon=True).start()
rounds = []
def work(number):
    text = str(number).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", 8080)) as client:
            client.sendall(text)
            assert client.recv(9) == text
        path = f"/tmp/thread-{number}"
        with open(path, "wb") as file:
            file.write(text)
        os.rename(path, path + "-moved")
        assert open(path + "-moved", "rb").read() == text
        os.unlink(path + "-moved")
        rounds.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(rounds))
"""
_STARTS = """
argv = ["sh", "-c", "grep -c web-1 /etc/hosts; exit 7"]
_, status = os.waitpid(os.posix_spawn("/bin/sh", argv, os.environ), 0)
print(os.waitstatus_to_exitcode(status))
print(subprocess.run(["sh", "-c", "hostname; exit 3"]).returncode)
try:
    os.posix_spawn("/nowhere/program", ["program"], {})
except OSError as error:
    print(errno.errorcode[error.errno])
print(subprocess.run(["true"], preexec_fn=lambda: os.chdir("/tmp")).returncode)
"""
_HANDLERS = """
class Action(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p),
    ]
count = 0
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handle(number):
    global count
    count += 1
def set_handler(is_restarting):
    action = Action(ctypes.cast(handle, ctypes.c_void_p), flags=is_restarting * 0x10000000)
    assert libc.sigaction(signal.SIGUSR1, ctypes.byref(action), None) == 0
main, stat = threading.main_thread().ident, f"/proc/self/task/{threading.get_native_id()}/stat"
def wait_until_blocked():
    while open(stat).read().rpartition(")")[2].split()[0] != "S":
        time.sleep(.01)
    time.sleep(.1)
def interrupt(then):
    wait_until_blocked()
    signal.pthread_kill(main, signal.SIGUSR1)
    if then is not None:
        while not count:
            time.sleep(.01)
        wait_until_blocked()
        then()
def check(name, call, then):
    global count
    for is_restarting in (True, False):
        count = 0
        set_handler(is_restarting)
        thread = threading.Thread(target=interrupt, args=(then if is_restarting else None,))
        thread.start()
        result = call()
        number = 0 if result >= 0 else ctypes.get_errno()
        thread.join()
        print(name, errno.errorcode.get(number, "done"), count)
address, length = ctypes.create_string_buffer(128), ctypes.c_uint32()
def take(function, *arguments):
    length.value = 128
    return function(*arguments, address, ctypes.byref(length))
server = socket.create_server(("0.0.0.0", 8080))
target = ("127.0.0.1", 8080)
check("accept", lambda: take(libc.accept, server.fileno()),
      lambda: socket.create_connection(target))
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", 5353))
text = ctypes.create_string_buffer(9)
check("recvfrom", lambda: take(libc.recvfrom, datagrams.fileno(), text, 9, 0),
      lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 5353)))
pipe = "/tmp/pipe"
def open_pipe():
    os.mkfifo(pipe)
    opened = libc.open(pipe.encode(), os.O_RDONLY)
    number = ctypes.get_errno()
    os.unlink(pipe)
    ctypes.set_errno(number)
    return opened
kept = []
check("open", open_pipe, lambda: kept.append(open(pipe, "w")))
"""
_CONNECT_INTERRUPTED = """
server = socket.socket()
server.bind(("0.0.0.0", 8080))
server.listen(0)
filling = [socket.socket() for _ in range(3)]
for each in filling:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", 8080))
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, True)
main, stat = threading.main_thread().ident, f"/proc/self/task/{threading.get_native_id()}/stat"
def interrupt():
    while open(stat).read().rpartition(")")[2].split()[0] != "S":
        time.sleep(.01)
    time.sleep(.1)
    signal.pthread_kill(main, signal.SIGUSR1)
threading.Thread(target=interrupt).start()
client = socket.socket()
print(libc.connect(client.fileno(), pack("127.0.0.1", 8080), 16))
print(errno.errorcode[ctypes.get_errno()])
"""
_SIGNALS = """
server = socket.create_server(("0.0.0.0", 8080))
server.setblocking(False)
def work():
    while True:
        with socket.socket() as client:
            client.connect(("127.0.0.1", 8080))
        open("/etc/hosts").close()
        try:
            server.accept()[0].close()
        except BlockingIOError:
            pass
def start(function):
    pid = os.fork()
    if not pid:
        function()
        os._exit(0)
    return pid
for number in (signal.SIGKILL, signal.SIGSTOP):
    for pause in range(25):
        pid = start(work)
        time.sleep(pause / 1000)
        os.kill(pid, number)
        if number == signal.SIGSTOP:
            assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
            os.kill(pid, signal.SIGCONT)
            time.sleep(.002)
            os.kill(pid, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
pid = start(lambda: socket.create_server(("0.0.0.0", 8081)).accept())
while socket.socket().connect_ex(("127.0.0.1", 8082)) != errno.ECONNREFUSED:
    pass
time.sleep(.2)
os.kill(pid, signal.SIGSTOP)
assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
os.kill(pid, signal.SIGCONT)
client = socket.create_connection(("127.0.0.1", 8081))
print(os.waitpid(pid, 0)[1])
"""
# What orphans of the pod's programs end to is the interceptor, which answers calls meanwhile.
_ORPHANS = """
is_over = False
def leave_orphans():
    while not is_over:
        pid = os.fork()
        if not pid:
            for _ in range(10):
                if not os.fork():
                    os._exit(0)
            os._exit(0)
        os.waitpid(pid, 0)
thread = threading.Thread(target=leave_orphans)
thread.start()
numbers = set()
for _ in range(3000):
    with socket.socket() as made:
        numbers.add(made.fileno())
is_over = True
thread.join()
print(min(numbers) > 2)
"""
_OWN_FILTER = """
class Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("first", ctypes.POINTER(Instruction))]
chroot, seccomp = {"x86_64": (161, 317), "aarch64": (51, 277)}[os.uname().machine]
instructions = (Instruction * 4)(
    Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, chroot),
    Instruction(0x06, 0, 0, 0x50000 | errno.EACCES), Instruction(0x06, 0, 0, 0x7FFF0000),
)
program = Program(4, instructions)
assert libc.prctl(38, 1, 0, 0, 0) == 0
print(libc.syscall(seccomp, 1, 0, ctypes.byref(program)))
try:
    os.chroot("/")
except OSError as error:
    print(errno.errorcode[error.errno])
server = socket.create_server(("0.0.0.0", 8080))
print(socket.create_connection(("127.0.0.1", 8080)).getpeername()[0])
print("web-1" in open("/etc/hosts").read())
"""
_OWN_LISTENER = """
print(libc.syscall(seccomp, 1, 8, ctypes.byref(program)), errno.errorcode[ctypes.get_errno()])
"""
_TRACER = """
libc.ptrace.restype = ctypes.c_long
pid = os.fork()
if not pid:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    assert "web-1" in open("/etc/hosts").read()
    server = socket.create_server(("0.0.0.0", 8080))
    socket.create_connection(("127.0.0.1", 8080))
    server.accept()
    os._exit(5)
stops = 0
while True:
    status = os.waitpid(pid, 0)[1]
    if not os.WIFSTOPPED(status):
        break
    stops += 1
    number = os.WSTOPSIG(status)
    libc.ptrace(24, pid, None, None if number in (signal.SIGTRAP, signal.SIGSTOP) else number)
print(os.waitstatus_to_exitcode(status), stops > 10)
"""
_SET_USER = """
shutil.copy("/usr/bin/id", "/tmp/id")
os.chown("/tmp/id", 65534, 65534)
os.chmod("/tmp/id", 0o6755)
print(os.stat("/tmp/id").st_uid, flush=True)
subprocess.run(["/tmp/id", "-u"], check=True)
"""
_OTHER_ABIS = """
import mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for number in (5, 11, 20, 102, 359):  # open, execve, getpid, socketcall, socket
    memory.seek(0)
    memory.write(bytes([0xB8, number & 255, number >> 8, 0, 0, 0xCD, 0x80, 0xC3]))
    print(ctypes.CFUNCTYPE(ctypes.c_int)(place)(), end=" ")
for number in (2, 39, 41, 42):  # open, getpid, socket, connect
    libc.syscall(number | 0x40000000, 0, 0, 0)
    print(errno.errorcode[ctypes.get_errno()], end=" ")
"""
_RACE = """
own, others = pack("10.244.1.1", 8080), pack("10.244.1.2", 8080)
server = socket.create_server(("0.0.0.0", 8080))
server.setblocking(False)
target = ctypes.create_string_buffer(own, 16)
part = ctypes.create_string_buffer(16)
header = ctypes.create_string_buffer(
    struct.pack("=QQQQQQQ", ctypes.addressof(target), 16, ctypes.addressof(part), 1, 0, 0, 0)
)
machine = pack("127.0.0.1", int(sys.argv[1]))
is_over = False
def change():
    while not is_over:
        for address in (own, machine, others):
            ctypes.memmove(target, address, 16)
thread = threading.Thread(target=change)
thread.start()
seen = set()
for _ in range(100):
    with socket.socket() as client:
        libc.connect(client.fileno(), target, 16)
        seen.add(ctypes.get_errno())
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        libc.sendmsg(client.fileno(), header, 0)
        libc.sendto(client.fileno(), b"x", 1, 0, target, 16)
is_over = True
thread.join()
print(seen <= {0, errno.ECONNREFUSED})
"""
# The device is left as it is wherever the machine's is reached: its mode and owner are the same.
_DEVICES = """
os.symlink("/dev/null", "/tmp/link")
status = os.stat("/dev/null")
mode = status.st_mode & 0o7777
opened = os.open("/dev/null", os.O_RDWR)
for target in ("/dev/null", "/tmp/link", opened, 0):
    for change in (
        lambda: os.chmod(target, mode), lambda: os.chown(target, status.st_uid, status.st_gid),
    ):
        try:
            change()
            print("changed")
        except OSError as error:
            print(errno.errorcode[error.errno])
os.utime("/dev/null", (status.st_atime, status.st_mtime))
"""
_WRONG_ARGUMENTS = """
import json, mmap, random
page = mmap.mmap(-1, 8192)
place = ctypes.addressof(ctypes.c_char.from_buffer(page))
random.seed(1)
contents = (
    lambda: bytes(8192),
    lambda: b"/" * 8192,
    lambda: random.randbytes(8192),
    lambda: b"/tmp/" + random.randbytes(20) + bytes(8167),
    lambda: struct.pack("=H", random.choice((1, 2, 10, 16))) + random.randbytes(200) + bytes(7990),
    lambda: struct.pack("=Q", place + 4096) * 1024,
)
for number in json.loads(sys.argv[1]):
    pid = os.fork()
    if not pid:
        signal.alarm(1)
        # The first descriptors are devices and pipes of the machine: calls may change their modes.
        os.closerange(0, 64)
        kinds = ((2, 1), (2, 2), (1, 2), (16, 3))
        fds = [socket.socket(family, kind, 0).detach() for family, kind in kinds]
        numbers = (
            0, 1, -1, -100, 1 << 31, 1 << 63, place, place, place, place + 4090, place + 8191, 4096,
            16, 26, 28, 41, 110, 270, 0x8912, 0x8915, *fds,
        )
        for _ in range(30):
            page[:] = random.choice(contents)()
            arguments = (ctypes.c_long(random.choice(numbers)) for _ in range(6))
            libc.syscall(ctypes.c_long(number), *arguments)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] in (0, signal.SIGALRM)
print("alive")
"""
_DAEMON = """
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execve("/bin/sleep", ["sleep", "98765"], {})
    os._exit(0)
os.wait()
print(os.getpid(), flush=True)
while True:
    open("/etc/hosts").close()
    socket.socket().close()
"""


def _start(programs: Programs, sandbox: Sandbox, code: str, *arguments: str) -> Program:
    return programs.start(sandbox, PYTHON, "-uc", _IMPORTS + code, *arguments)


def _check(run: Run, code: str, lines: list[str]) -> None:
    """Run a Python program in a pod of its own, and check its output."""

    async def scenario(programs: Programs) -> None:
        program = _start(programs, await programs.create_sandbox(files=_HOSTS), code)
        log = programs.folder / "launcher.log"
        assert await program.wait() == Exit(0), program.stderr + log.read_text()
        assert program.stdout.splitlines() == lines

    run(scenario)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        pytest.param(_CHILDREN, ["0", "200"], id="children"),
        pytest.param(_THREADS, ["320"], id="threads"),
        pytest.param(_STARTS, ["1", "7", "web-1", "3", "ENOENT", "0"], id="starts"),
        pytest.param(
            _HANDLERS,
            [
                *("accept done 1", "accept EINTR 1"),
                *("recvfrom done 1", "recvfrom EINTR 1"),
                *("open done 1", "open EINTR 1"),
            ],
            id="handlers",
        ),
        pytest.param(_CONNECT_INTERRUPTED, ["-1", "EINTR"], id="connect-interrupted"),
        pytest.param(_SIGNALS, ["0"], id="signals"),
        pytest.param(_ORPHANS, ["True"], id="orphans"),
        pytest.param(_OWN_FILTER, ["0", "EACCES", "127.0.0.1", "True"], id="own-filter"),
        pytest.param(_TRACER, ["5 True"], id="tracer"),
    ],
)
def test_program(run_pods: Run, code: str, lines: list[str]) -> None:
    _check(run_pods, code, lines)


def test_second_listener_is_refused(run_intercepted: Run) -> None:
    lines = ["0", "EACCES", "127.0.0.1", "True", "-1 EBUSY"]
    _check(run_intercepted, _OWN_FILTER + _OWN_LISTENER, lines)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to own a file by another user")
def test_program_with_the_bits_of_another_user_runs_without(run_intercepted: Run) -> None:
    _check(run_intercepted, _SET_USER, ["65534", "0"])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it has no other system calls")
def test_calls_of_other_abis_are_not_known(run_intercepted: Run) -> None:
    _check(run_intercepted, _OTHER_ABIS, ["-38 " * 5 + "ENOSYS " * 4])


def test_address_that_a_thread_changes_never_leaves_the_cluster(run_intercepted: Run) -> None:
    """The machine's loopback interface is among those that the thread writes."""

    async def scenario(programs: Programs) -> None:
        with socket.create_server(("127.0.0.1", 0)) as machine:
            machine.setblocking(False)
            port = str(machine.getsockname()[1])
            with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
                datagrams.bind(("127.0.0.1", int(port)))
                datagrams.setblocking(False)
                sandbox = await programs.create_sandbox()
                await programs.create_sandbox()
                program = _start(programs, sandbox, _RACE, port)
                assert await program.wait() == Exit(0), program.stderr
                assert program.stdout == "True\n"
                with pytest.raises(BlockingIOError):
                    datagrams.recv(1)
            with pytest.raises(BlockingIOError):
                machine.accept()

    run_intercepted(scenario)


def test_rights_to_a_device_cannot_be_changed(run_intercepted: Run) -> None:
    """It is the machine's, and the program's input."""
    _check(run_intercepted, _DEVICES, ["EPERM"] * 8)


def test_wrong_arguments_end_nothing(run_intercepted: Run) -> None:
    """A call may wait for what never comes: an alarm ends it."""

    async def scenario(programs: Programs) -> None:
        processor = find_processor()
        assert processor is not None
        # `mmap` is not caught, and could replace the program's memory.
        numbers = sorted({*processor.numbers.values()} - {processor.numbers["mmap"]})
        sandbox = await programs.create_sandbox(files=_HOSTS)
        program = _start(programs, sandbox, _WRONG_ARGUMENTS, json.dumps(numbers))
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout == "alive\n"

    run_intercepted(scenario)


def test_killed_interceptor_takes_all_of_its_container_with_it(run_intercepted: Run) -> None:
    """A daemon has left the session, and has no mark."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = _start(programs, sandbox, _DAEMON)
        await program.wait_for("\n")
        session = program.exec("sleep", "98766")
        await session.started
        os.kill(find_parent(int(program.stdout)), signal.SIGKILL)
        assert await program.wait() == Exit(137, fault="SIGKILL")
        assert (await session.wait()).code == 137
        while list_sleeps("98765"):
            await async_sleep(0.01)
        again = programs.shell(sandbox, "echo again")
        assert await again.wait() == Exit(0)

    run_intercepted(scenario)


def test_process_that_is_killed_while_its_call_is_answered_has_no_rights() -> None:
    """Until its parent knows, its status is there without some of the lines."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        read_rights(pid)
    os.waitpid(pid, 0)


def test_nothing_outlives_a_killed_launcher(run_intercepted: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = _start(programs, await programs.create_sandbox(), _DAEMON)
        await program.wait_for("\n")
        other = programs.shell(await programs.create_sandbox(), "sleep 98767 & echo up; wait")
        await other.wait_for("up")
        os.kill(find_parent(find_parent(int(program.stdout))), signal.SIGKILL)
        assert (await program.wait()).code == (await other.wait()).code == 137
        # Its folder is removed after the last one.
        while list_sleeps("9876") or any(programs.folder.iterdir()):
            await async_sleep(0.01)

    run_intercepted(scenario)
