"""Unix sockets of programs, with the paths and names that a pod sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.simulator.runtimes.processes.programs import PYTHON, Programs
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration.simulator.runtimes.processes.programs import Scenario
    from pytest_kwait.simulator.runtimes.processes.runtime import Isolation

    Run = Callable[[Scenario], None]

_STREAMS = """
import os, socket
deep = "/tmp/" + "d" * 60 + "/" + "e" * 20
os.makedirs(deep)
os.chdir("/data")
paths = ["/data/app.sock", "relative.sock", "/run/" + "s" * 100, deep + "/app"]
for path in paths:
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    client.bind(path + ".c")
    client.connect(path)
    accepted, peer = server.accept()
    print(
        server.getsockname() == path, client.getpeername() == path, peer == path + ".c",
        accepted.getpeername() == peer, accepted.getsockname() == path,
    )
    client.sendall(b"through")
    print(accepted.recv(100), os.path.exists(path))
    try:
        socket.socket(socket.AF_UNIX).bind(path)
    except OSError as error:
        print(error.strerror)
    os.unlink(path)
    try:
        socket.socket(socket.AF_UNIX).connect(path)
    except OSError as error:
        print(error.strerror)
print(sorted(os.listdir("/data")))
"""
_DATAGRAMS = """
import os, socket
kind = (socket.AF_UNIX, socket.SOCK_DGRAM)
server, client = socket.socket(*kind), socket.socket(*kind)
server.bind("/data/server")
client.bind("/data/client")
client.sendto(b"one", "/data/server")
print(server.recvfrom(100))
client.sendmsg([b"two ", b"parts"], [], 0, "/data/server")
print(server.recvmsg(100)[::3])
reading, writing = os.pipe()
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, reading.to_bytes(4, "little"))
client.sendmsg([b"three"], [rights], 0, "/data/server")
print(socket.recv_fds(server, 100, 1)[::3], os.fstat(reading).st_ino > 0)
print(server.getsockname(), socket.socket(*kind).getsockname() == "")
"""
_SERVER = """
import socket
server = socket.socket(socket.AF_UNIX)
server.bind("/shared/app.sock")
server.listen()
print("ready", flush=True)
connection, _ = server.accept()
connection.sendall(connection.recv(100).upper())
"""
_CLIENT = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("/other/app.sock")
print(client.getpeername())
client.sendall(b"hello")
print(client.recv(100).decode())
"""


def _make_deep(tmp_path: Path) -> Path:
    """A folder whose sockets have no address on the machine."""
    folder = tmp_path / ("x" * 60) / ("y" * 60)
    folder.mkdir(parents=True)
    return folder


def test_sockets_have_the_paths_of_the_container(run_pods: Run, tmp_path: Path) -> None:
    mounts = (Mount("/data", str(_make_deep(tmp_path))),)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _STREAMS, mounts=mounts)
        assert await program.wait() == Exit(0), program.stderr
        shown = [
            "True True True True True",
            "b'through' True",
            "Address already in use",
            "No such file or directory",
        ]
        left = ["app.sock.c", "relative.sock.c"]
        assert program.stdout.splitlines() == [*(shown * 4), str(left)]

    run_pods(scenario)


def test_datagrams_are_sent_to_paths_of_the_container(run_pods: Run, tmp_path: Path) -> None:
    mounts = (Mount("/data", str(_make_deep(tmp_path))),)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _DATAGRAMS, mounts=mounts)
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.splitlines() == [
            "(b'one', '/data/client')",
            "(b'two parts', '/data/client')",
            "(b'three', '/data/client') True",
            "/data/server True",
        ]

    run_pods(scenario)


def test_containers_connect_through_a_volume(
    run_pods: Run, open_folder: Path, isolation: Isolation
) -> None:
    source = str(_make_deep(open_folder))

    async def scenario(programs: Programs) -> None:
        programs.folder.chmod(0o711)
        sandbox = await programs.create_sandbox()
        mounts = (Mount("/shared", source),)
        server = programs.start(sandbox, PYTHON, "-c", _SERVER, mounts=mounts)
        await server.wait_for("ready")
        mounts = (Mount("/other", source),)
        if isolation.any_user:
            client = programs.start(sandbox, PYTHON, "-c", _CLIENT, mounts=mounts, user=1000)
            assert await client.wait() == Exit(1)  # no one else's
        client = programs.start(sandbox, PYTHON, "-c", _CLIENT, mounts=mounts)
        assert await client.wait() == Exit(0), client.stderr
        # A name is the text that it was bound with.
        assert client.stdout == "/shared/app.sock\nHELLO\n"

    run_pods(scenario)
