from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import SystemCall
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount
from pytest_kwait.simulator.runtimes.processes.intercepted.unix_sockets import SocketPath
from tests.simulator.runtimes.processes.intercepted.contained_program import ContainedProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """The folder of a volume, whose sockets have no address on the machine."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path, volume: Path) -> Iterator[Callable[[str], ContainedProgram]]:
    """Start a program whose links to sockets are in a folder."""
    started = []

    def start_program(folder: str) -> ContainedProgram:
        mounts = (Mount("/srv/data", str(volume)),)
        files = ContainerFiles(str(tmp_path / "upper"), mounts, own_folders={}, sockets=folder)
        started.append(ContainedProgram(files))
        return started[-1]

    yield start_program
    for program in started:
        program.close()


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder with a short path."""
    path = f"/tmp/kwait-{os.getpid()}"
    os.mkdir(path)
    yield path
    for name in os.listdir(path):
        os.unlink(f"{path}/{name}")
    os.rmdir(path)


def _find(program: ContainedProgram, path: str, *, is_created: bool = False) -> SocketPath | None:
    call = SystemCall("connect", (0,) * 6, os.getpid(), program.memory)
    return program.calls.sockets.find(call, os.fsencode(path), is_created=is_created)


def test_socket_is_bound_through_a_link(
    volume: Path, folder: str, start: Callable[[str], ContainedProgram]
) -> None:
    program = start(folder)
    found = _find(program, "/srv/data/app", is_created=True)

    assert found == SocketPath(os.fsencode(f"{folder}/0/app"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(found.path)
        server.listen()
        assert os.listdir(volume) == ["app"]
        target = _find(program, "/srv/data/app")
        assert target == SocketPath(os.fsencode(f"{folder}/1"))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(target.path)
    assert program.calls.sockets.find_name(found.path) == b"/srv/data/app"
    for other in (b"/srv/data/app", b"\0abstract", b"", target.path):
        assert program.calls.sockets.find_name(other) is None
    with pytest.raises(OSError, match="Address already in use"):
        _find(program, "/srv/data/app", is_created=True)
    with pytest.raises(OSError, match="No such file"):
        _find(program, "/srv/data/missing/app")


def test_links_are_used_again(folder: str, start: Callable[[str], ContainedProgram]) -> None:
    program, other = start(folder), start(folder)
    found = [_find(program, "/srv/data/app", is_created=True) for _ in range(2)]
    assert found[0] == found[1]
    assert _find(other, "/srv/data/app", is_created=True) != found[0]


def test_socket_with_a_long_name_gets_it_at_last(
    volume: Path, folder: str, start: Callable[[str], ContainedProgram]
) -> None:
    name = "s" * 97
    found = _find(start(folder), f"/srv/data/{name}", is_created=True)
    assert found is not None
    assert found.path == os.fsencode(f"{folder}/0/.0")
    assert found.on_return is not None
    found.on_return(-98)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(found.path)
        found.on_return(0)
    assert os.listdir(volume) == [name]


def test_short_path_needs_no_link(
    folder: str, volume: Path, start: Callable[[str], ContainedProgram]
) -> None:
    volume.rmdir()
    volume.symlink_to(folder)
    program = start(folder)
    os.close(os.open(f"{folder}/app", os.O_CREAT))
    assert _find(program, "/srv/data/app") == SocketPath(os.fsencode(f"{folder}/app"))
    assert _find(program, "/usr") is None


def test_no_path_is_short_enough(tmp_path: Path, start: Callable[[str], ContainedProgram]) -> None:
    with pytest.raises(OSError, match="File name too long"):
        _find(start(f"{tmp_path}/{'l' * 100}"), "/srv/data/app", is_created=True)
