"""Sockets of programs in pods: the same in namespaces and where system calls are intercepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, StartFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.simulator.runtimes.processes.programs import Programs, Scenario

    Run = Callable[[Scenario], None]

_HOSTS = {"/etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n10.244.1.1 web-1\n"}
_IMPORTS = "import array, ctypes, errno, os, select, socket, struct, time\n"

_BOTH_FAMILIES = """
server = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True)
print(*server.getsockname()[:2])
for host in ("127.0.0.1", "::1", "10.244.1.1"):
    with socket.create_connection((host, 8080)) as client:
        connection, peer = server.accept()
        print(client.getpeername()[0], client.getsockname()[0], peer[0])
"""
_EACH_FAMILY = """
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(("::", 8080))
six.listen()
print(*six.getsockname()[:2], six.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
for host in ("127.0.0.1", "10.244.1.1"):
    with socket.socket() as client:
        print(errno.errorcode[client.connect_ex((host, 8080))])
four = socket.create_server(("0.0.0.0", 8080))
for host, server in (("127.0.0.1", four), ("::1", six)):
    with socket.create_connection((host, 8080)) as client:
        server.accept()
        print(client.getpeername()[0])
"""
_LOOPBACK = """
import asyncio
async def main():
    server = await asyncio.start_server(lambda _, writer: writer.close(), "localhost", 8080)
    print(*sorted(each.getsockname()[0] for each in server.sockets))
    for host in ("127.0.0.1", "::1"):
        _, writer = await asyncio.open_connection(host, 8080)
        print(writer.get_extra_info("peername")[0])
        writer.close()
asyncio.run(main())
"""
_PORT_OF_MANY = """
def listen(is_shared):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)
    made.bind(("0.0.0.0", 8080))
    made.listen()
    return made
servers = [listen(True), listen(True)]
try:
    listen(False)
except OSError as error:
    print(errno.errorcode[error.errno])
taken = dict.fromkeys(servers, 0)
for _ in range(40):
    with socket.create_connection(("10.244.1.1", 8080)):
        for server in select.select(servers, [], [])[0]:
            server.accept()[0].close()
            taken[server] += 1
print(sum(taken.values()), all(taken.values()))
"""
_PORT_OF_CLOSED = """
def listen(is_again):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_again)
    made.bind(("0.0.0.0", 8080))
    made.listen()
    return made
server = listen(True)
client = socket.create_connection(("127.0.0.1", 8080))
server.accept()[0].close()
client.recv(1)
client.close()
server.close()
for is_again in (False, True, True):
    try:
        server = listen(is_again)
        print("bound")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
_CONNECTS = """
server = socket.create_server(("0.0.0.0", 8080))
for target in (("127.0.0.1", 8080), ("127.0.0.1", 8081), ("10.244.1.1", 8081)):
    with socket.socket() as client:
        client.setblocking(False)
        print(errno.errorcode[client.connect_ex(target)])
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        assert poll.poll(10_000)
        print(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
for target in (("10.244.1.99", 80), ("192.0.2.1", 80)):
    with socket.socket() as client:
        client.settimeout(10)
        number = client.connect_ex(target)
        print(number in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH))
"""
_DATAGRAMS = """
server, client = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
server.bind(("0.0.0.0", 5353))
client.settimeout(10)
for host in ("10.244.1.1", "127.0.0.1"):
    client.sendto(b"ask", (host, 5353))
    server.sendto(b"answer", server.recvfrom(9)[1])
    print(client.recvfrom(9)[1][0])
client.sendmsg([b"a", b"sk"], [], 0, ("127.0.0.1", 5353))
server.sendto(b"answer", server.recvmsg(9)[3])
print(client.recvmsg(9)[3][0])
client.connect(("127.0.0.1", 5353))
client.send(b"ask")
server.sendto(b"answer", server.recvfrom(9)[1])
print(client.recv(9), *client.getpeername())
client.connect(("127.0.0.1", 9999))
client.send(b"ask")
try:
    client.recv(9)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
_MANY_DATAGRAMS = """
libc = ctypes.CDLL(None)
server, client = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
server.bind(("0.0.0.0", 5353))
targets = [
    ctypes.create_string_buffer(
        struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", 5353, socket.inet_aton(host)), 16
    )
    for host in ("127.0.0.1", "10.244.1.1")
]
before = [target.raw for target in targets]
text = ctypes.create_string_buffer(b"hello")
part = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(text), 5))
message = struct.Struct("=QQQQQQQQ")
headers = ctypes.create_string_buffer(b"".join(
    message.pack(ctypes.addressof(target), 16, ctypes.addressof(part), 1, 0, 0, 0, 0)
    for target in targets
))
print(libc.sendmmsg(client.fileno(), headers, 2, 0))
print(*(words[-1] for words in message.iter_unpack(headers.raw[:128])))
print(before == [target.raw for target in targets], server.recv(9), server.recv(9))
"""
_PASSED = """
server = socket.create_server(("0.0.0.0", 8080))
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [server.fileno()])
passed = socket.recv_fds(other, 9, 1)[1][0]
server.close()
os.dup2(passed, 77)
server = socket.socket(fileno=77)
print(*server.getsockname())
if not os.fork():
    socket.create_connection(("127.0.0.1", 8080))
    os._exit(0)
server.accept()
print(os.wait()[1])
bound = socket.socket()
bound.bind(("0.0.0.0", 8082))
if not os.fork():
    bound.listen()
    socket.create_connection(("127.0.0.1", 8082))
    print(*bound.getsockname(), flush=True)
    os._exit(0)
print(os.wait()[1])
os.closerange(50, 1 << 16)
try:
    os.fstat(77)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
_ABSTRACT = """
def make(kind, name=None):
    made = socket.socket(socket.AF_UNIX, kind)
    if name is not None:
        made.bind(name)
    return made
server = make(socket.SOCK_STREAM, "\\0name")
server.listen()
client = make(socket.SOCK_STREAM)
client.connect("\\0name")
print(server.getsockname(), client.getpeername(), server.accept()[0].getsockname())
server, client, nameless = (make(socket.SOCK_DGRAM, name) for name in ("\\0to", "\\0from", ""))
client.sendto(b"one", "\\0to")
print(*server.recvfrom(9))
client.sendmsg([b"two"], [], 0, "\\0to")
print(server.recvmsg(9)[::3])
name = nameless.getsockname()
client.sendto(b"three", name)
print(len(name), nameless.recv(9))
longest = b"\\0" + b"x" * 107
server, client = make(socket.SOCK_STREAM, longest), make(socket.SOCK_STREAM)
server.listen()
client.connect(longest)
print(client.getpeername() == longest)
server = make(socket.SOCK_STREAM, "/tmp/path.sock")
print(server.getsockname(), flush=True)
time.sleep(1000)
"""
_OTHERS_ABSTRACT = """
client = socket.socket(socket.AF_UNIX)
print(errno.errorcode[client.connect_ex("\\0name")])
socket.socket(socket.AF_UNIX).bind("\\0name")
"""
_OWN_LOOPBACK = """
server = socket.create_server(("127.0.0.1", 8080))
print("ready", flush=True)
time.sleep(1000)
"""
_OTHERS_LOOPBACK = """
for host in ("127.0.0.1", "127.0.0.2", "10.244.1.1"):
    with socket.socket() as client:
        print(errno.errorcode.get(client.connect_ex((host, 8080)), "connected"))
"""

_INTERFACES = """
import fcntl
print(socket.if_nameindex())
with socket.socket() as made:
    for name in (b"lo", b"eth0"):
        answer = fcntl.ioctl(made, 0x8915, struct.pack("40s", name))
        print(name, socket.inet_ntoa(answer[20:24]))
    buffer = array.array("B", bytes(400))
    place = buffer.buffer_info()[0]
    print(struct.unpack_from("i", fcntl.ioctl(made, 0x8912, struct.pack("iQ", 400, place))))
for name in ("dev", "route"):
    lines = open(f"/proc/net/{name}").read().splitlines()
    print([line.split()[0] for line in lines if name == "route" or "|" not in line])
libc = ctypes.CDLL(None)
class Address(ctypes.Structure):
    pass
Address._fields_ = [
    ("next", ctypes.POINTER(Address)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(ctypes.c_ubyte * 16)),
]
first = ctypes.POINTER(Address)()
assert libc.getifaddrs(ctypes.byref(first)) == 0
found = first
while found:
    one = found.contents
    family, = struct.unpack_from("H", bytes(one.address.contents))
    if family == socket.AF_INET:
        print(one.name.decode(), socket.inet_ntoa(bytes(one.address.contents)[4:8]))
    found = one.next
libc.freeifaddrs(first)
"""
_SETTINGS = """
for name in ("net/ipv4/ip_local_port_range", "kernel/shm_rmid_forced"):
    print(open(f"/proc/sys/{name}").read().split())
try:
    open("/proc/sys/net/ipv4/ip_local_port_range", "r+")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        pytest.param(
            _BOTH_FAMILIES,
            [
                ":: 8080",
                "127.0.0.1 127.0.0.1 ::ffff:127.0.0.1",
                "::1 ::1 ::1",
                "10.244.1.1 10.244.1.1 ::ffff:10.244.1.1",
            ],
            id="both-families",
        ),
        pytest.param(
            _EACH_FAMILY,
            [":: 8080 1", "ECONNREFUSED", "ECONNREFUSED", "127.0.0.1", "::1"],
            id="each-family",
        ),
        pytest.param(_LOOPBACK, ["127.0.0.1 ::1", "127.0.0.1", "::1"], id="loopback"),
        pytest.param(_PORT_OF_MANY, ["EADDRINUSE", "40 True"], id="port-of-many"),
        pytest.param(_PORT_OF_CLOSED, ["EADDRINUSE", "bound", "EADDRINUSE"], id="port-of-closed"),
        pytest.param(
            _CONNECTS,
            ["EINPROGRESS", "0", "EINPROGRESS", "111", "EINPROGRESS", "111", "True", "True"],
            id="connects",
        ),
        pytest.param(
            _DATAGRAMS,
            ["10.244.1.1", "127.0.0.1", "127.0.0.1", "b'answer' 127.0.0.1 5353", "ECONNREFUSED"],
            id="datagrams",
        ),
        pytest.param(_MANY_DATAGRAMS, ["2", "5 5", "True b'hello' b'hello'"], id="many-datagrams"),
        pytest.param(
            _INTERFACES,
            [
                "[(1, 'lo'), (2, 'eth0')]",
                *("b'lo' 127.0.0.1", "b'eth0' 10.244.1.1", "(80,)"),
                *("['lo:', 'eth0:']", "['Iface', 'eth0', 'eth0']"),
                *("lo 127.0.0.1", "eth0 10.244.1.1"),
            ],
            id="interfaces",
        ),
        pytest.param(_PASSED, ["0.0.0.0 8080", "0", "0.0.0.0 8082", "0", "EBADF"], id="passed"),
    ],
)
def test_socket(run_pods: Run, code: str, lines: list[str]) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(files=_HOSTS)
        program = programs.start(sandbox, PYTHON, "-uc", _IMPORTS + code)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.splitlines() == lines

    run_pods(scenario)


def test_abstract_names_are_those_of_a_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(
            await programs.create_sandbox(), PYTHON, "-uc", _IMPORTS + _ABSTRACT
        )
        await program.wait_for("/tmp/path.sock\n")
        assert program.stdout.splitlines()[:-1] == [
            r"b'\x00name' b'\x00name' b'\x00name'",
            r"b'one' b'\x00from'",
            r"(b'two', b'\x00from')",
            "6 b'three'",
            "True",
        ]
        other = programs.start(
            await programs.create_sandbox(), PYTHON, "-uc", _IMPORTS + _OTHERS_ABSTRACT
        )
        assert await other.wait() == Exit(0), other.stderr
        assert other.stdout == "ECONNREFUSED\n"

    run_pods(scenario)


def test_loopback_interface_is_that_of_a_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-uc", _IMPORTS + _OWN_LOOPBACK)
        await program.wait_for("ready")
        refused = ["ECONNREFUSED"] * 3
        for place, answers in (
            (sandbox, ["connected", *refused[1:]]),
            (await programs.create_sandbox(), refused),
        ):
            other = programs.start(place, PYTHON, "-uc", _IMPORTS + _OTHERS_LOOPBACK)
            assert await other.wait() == Exit(0), other.stderr
            assert other.stdout.split() == answers

    run_pods(scenario)


def test_settings_of_a_pod_are_shown(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sysctls = {"net.ipv4.ip_local_port_range": "1024 2048", "kernel.shm_rmid_forced": "1"}
        sandbox = await programs.create_sandbox(sysctls=sysctls)
        program = programs.start(sandbox, PYTHON, "-uc", _IMPORTS + _SETTINGS)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.splitlines() == ["['1024', '2048']", "['1']", "EROFS"]

    run_pods(scenario)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vm.swappiness", 'sysctl "vm.swappiness" is not in a separate kernel namespace'),
        ("net.ipv4.no_such_setting", "/proc/sys/net/ipv4/no_such_setting"),
    ],
)
def test_settings_of_the_machine_are_refused(run_pods: Run, name: str, reason: str) -> None:
    async def scenario(programs: Programs) -> None:
        failure = await programs.try_sandbox(sysctls={name: "1"})
        assert isinstance(failure, StartFailure)
        assert reason in failure.message

    run_pods(scenario)
