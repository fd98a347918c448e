"""Resolution of paths in a container, without calls."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.layer import ContainerLayer
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
    AT_FDCWD,
    ContainerFiles,
    Mount,
    PathError,
    Paths,
    get_process,
    is_jump,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def make_paths(tmp_path: Path) -> Iterator[Callable[..., Paths]]:
    """Make the paths of a container with these mounts."""
    layers = []

    def make(*mounts: Mount) -> Paths:
        files = ContainerFiles(str(tmp_path / "upper"), mounts, own_folders={})
        layers.append(ContainerLayer(files))
        return layers[-1].paths

    yield make
    for layer in layers:
        layer.close()


def find_host(paths: Paths, path: str) -> str:
    found = paths.resolve(os.getpid(), AT_FDCWD, os.fsencode(path))
    return os.fsdecode(found.position.host_path)


def test_links_of_proc_to_open_files() -> None:
    for path, expected in (
        (b"/proc/1/fd/3", True),
        (b"/proc/1/cwd", True),
        (b"/proc/1/task/2/root", True),
        (b"/proc/1/task/2/fd/0", True),
        (b"/proc/1/ns/net", True),
        (b"/proc/1/fd", False),
        (b"/proc/1/status", False),
        (b"/proc/self", False),
        (b"/proc/mounts", False),
    ):
        assert is_jump(path) is expected, path


def test_the_process_of_a_thread_that_has_ended() -> None:
    assert get_process(os.getpid()) == os.getpid()
    with pytest.raises(PathError, match=r"\[Errno 3\] No such process"):
        get_process(2**22)


def test_an_open_file_is_where_the_container_has_it(
    tmp_path: Path, make_paths: Callable[..., Paths]
) -> None:
    (tmp_path / "volume" / "inner").mkdir(parents=True)
    paths = make_paths(
        Mount("/srv/volume", f"{tmp_path}/volume"), Mount("/srv/inner", f"{tmp_path}/volume/inner")
    )
    for host, path in (
        (f"{tmp_path}/volume", "/srv/volume"),
        (f"{tmp_path}/volume/file", "/srv/volume/file"),
        (f"{tmp_path}/volume/inner/file", "/srv/inner/file"),
        (f"{tmp_path}/upper/usr/new", "/usr/new"),
        (f"{tmp_path}/upper", ""),
        (f"{tmp_path}/volumes", f"{tmp_path}/volumes"),
        ("/usr", "/usr"),
        ("/", ""),
    ):
        assert paths.to_container(os.fsencode(host)) == os.fsencode(path), host


def test_most_of_the_machine_is_at_its_own_place_even_in_a_mount(
    make_paths: Callable[..., Paths],
) -> None:
    paths = make_paths(Mount("/srv/host", "/"), Mount("/srv/usr", "/usr"))

    assert paths.to_container(b"/usr/lib") == b"/usr/lib"
    assert paths.to_container(b"/etc") == b"/etc"


def test_machine_s_folder_below_an_own_one_is_plain(tmp_path: Path) -> None:
    """Unless the kernel, which has other folders above it, would come to another place."""
    shown, aside = tmp_path / "own" / "shown", tmp_path / "own" / "aside"
    (shown / "folder").mkdir(parents=True)
    (shown / "link").symlink_to(shown / "folder")
    aside.mkdir()
    (tmp_path / "link").symlink_to(f"{tmp_path}/own/made")
    files = ContainerFiles(
        str(tmp_path / "upper"),
        own_folders={f"{tmp_path}/own": 0o755},
        visible=(str(shown),),
        folders=(f"{tmp_path}/own/made",),
    )
    layer = ContainerLayer(files)
    for path, is_plain in (
        (f"{shown}/folder/file", True),
        (f"{shown}/folder", True),
        (f"{shown}/link/file", True),
        (f"{shown}/folder/../folder", True),
        (f"{tmp_path}/own/made/../shown/folder", False),
        (f"{tmp_path}/link/../shown/folder", False),
        (f"{shown}/../file", False),
        (str(shown), False),
        (str(aside), False),
    ):
        found = layer.paths.resolve(os.getpid(), AT_FDCWD, os.fsencode(path))
        assert found.is_plain is is_plain, path
    layer.close()


def test_paths_through_mounts(tmp_path: Path, make_paths: Callable[..., Paths]) -> None:
    (tmp_path / "volume" / "folder").mkdir(parents=True)
    (tmp_path / "volume" / "up").symlink_to("../../usr")
    (tmp_path / "volume" / "self").symlink_to("/srv/volume/folder")
    paths = make_paths(Mount("/srv/volume", f"{tmp_path}/volume"))
    for path, host in (
        ("/srv/volume/folder", f"{tmp_path}/volume/folder"),
        ("/srv/volume/folder/..", f"{tmp_path}/volume"),
        ("/srv//volume/./self", f"{tmp_path}/volume/folder"),
        ("/srv/volume/up/lib", "/usr/lib"),
        ("/srv/volume/../../usr", "/usr"),
        ("/../..", "/"),
        ("/srv/volume/missing", f"{tmp_path}/volume/missing"),
    ):
        assert find_host(paths, path) == os.path.realpath(host), path


def test_a_plain_path_is_known_to_be(tmp_path: Path, make_paths: Callable[..., Paths]) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "link").symlink_to("/srv/volume")
    (tmp_path / "file").touch()
    paths = make_paths(Mount("/srv/volume", f"{tmp_path}/volume"))
    for path, is_followed, expected in (
        (f"{tmp_path}/file", True, True),
        (f"{tmp_path}/missing", True, True),
        (f"{tmp_path}/link", False, True),
        (f"{tmp_path}/link", True, False),
        ("/srv/volume", True, False),
        ("/srv/volume/file", True, False),
        (f"{tmp_path}/..", True, False),
        ("/proc/self/status", True, False),
    ):
        for _ in range(2):  # once more with what is kept
            is_plain = paths.is_plain(
                os.getpid(), AT_FDCWD, os.fsencode(path), is_followed=is_followed
            )
            assert is_plain is expected, path


def test_errors_say_whether_the_kernel_fails_as_well(
    tmp_path: Path, make_paths: Callable[..., Paths]
) -> None:
    (tmp_path / "volume").mkdir()
    paths = make_paths(Mount("/srv/volume", f"{tmp_path}/volume"))
    for path, number, is_plain in (
        ("/nowhere/file", errno.ENOENT, True),
        ("/etc/passwd/file", errno.ENOTDIR, True),
        ("/srv/volume/folder/file", errno.ENOENT, False),
        ("", errno.ENOENT, True),
    ):
        with pytest.raises(PathError) as caught:
            paths.resolve(os.getpid(), AT_FDCWD, os.fsencode(path))
        assert (caught.value.errno, caught.value.is_plain) == (number, is_plain), path
