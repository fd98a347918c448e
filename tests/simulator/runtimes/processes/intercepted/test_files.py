"""Calls with paths of a container's program, on temporary folders."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount
from tests.simulator.runtimes.processes.intercepted.contained_program import ContainedProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

StartProgram = "Callable[..., ContainedProgram]"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of the machine."""
    folder = tmp_path / "machine"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "passwd").write_text("root")
    (folder / "lib" / "inner").mkdir(parents=True)
    (folder / "lib" / "inner" / "module.py").write_text("x = 1")
    (folder / "link").symlink_to("etc/passwd")
    return folder


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume's folder."""
    folder = tmp_path / "volumes" / "config"
    folder.mkdir(parents=True)
    (folder / "key").write_text("value")
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ContainedProgram]]:
    """Start a program, in a container with these arguments of `ContainerFiles`."""
    started = []
    folder = os.getcwd()

    def start_program(*mounts: Mount, **options: object) -> ContainedProgram:
        options = {"own_folders": {}, "mounts": mounts, **options}
        files = ContainerFiles(upper=str(tmp_path / "upper"), **options)  # type: ignore[arg-type]
        started.append(ContainedProgram(files))
        return started[-1]

    yield start_program
    os.chdir(folder)
    for program in started:
        program.close()


@contextmanager
def fails_with(number: int) -> Iterator[None]:
    with pytest.raises(OSError, match=os.strerror(number)):
        yield


def test_a_plain_path_is_the_kernels_to_read(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()

    assert program.read(f"{machine}/etc/passwd") == b"root"
    assert program.is_continued
    assert program.stat(f"{machine}/link").size == 4
    assert program.is_continued
    assert not program.exists(f"{machine}/missing/file")
    assert program.is_continued


def test_a_mount_has_its_files(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/nowhere/config", str(volume)))

    assert program.read("/srv/nowhere/config/key") == b"value"
    assert program.listdir("/srv/nowhere") == ["config"]
    assert "nowhere" in program.listdir("/srv")
    program.write("/srv/nowhere/config/new", b"written")
    assert (volume / "new").read_bytes() == b"written"
    program.chdir("/srv/nowhere/config")
    assert program.getcwd() == b"/srv/nowhere/config"
    assert program.read("key") == b"value"
    assert program.read("../config/key") == b"value"
    assert not os.path.lexists("/srv/nowhere")


def test_what_is_written_elsewhere_is_in_the_layer(
    tmp_path: Path, machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    before = sorted(path for path in machine.rglob("*"))
    program.mkdir(f"{machine}/lib/cache")
    program.write(f"{machine}/lib/cache/file", b"x")
    program.write(f"{machine}/etc/passwd", b"other")

    assert program.listdir(f"{machine}/lib") == ["cache", "inner"]
    assert program.read(f"{machine}/etc/passwd") == b"other"
    assert sorted(path for path in machine.rglob("*")) == before
    assert (machine / "etc" / "passwd").read_text() == "root"
    assert (tmp_path / f"upper/{machine}/lib/cache/file").read_bytes() == b"x"
