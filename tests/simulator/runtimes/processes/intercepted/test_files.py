"""Calls with paths of a container's program, on temporary folders."""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Failure,
    OpenedFile,
    Pointers,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.files import FileCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import (
    OWN_FOLDERS,
    ContainerFiles,
    Mount,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import X86_64
from tests.simulator.runtimes.processes.intercepted.contained_program import (
    AT_FDCWD,
    ContainedProgram,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOFOLLOW, _REMOVEDIR, _EMPTY_PATH = 0x100, 0x200, 0x1000
_NO_XDEV, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x01, 0x04, 0x08, 0x10


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


# -- plain paths


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
    assert program.listdir(machine) == ["etc", "lib", "link"]
    assert program.is_continued


def test_a_relative_plain_path_is_the_kernels_to_read(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    program.chdir(machine)

    for _ in range(2):  # at first nothing is known of the folder
        assert program.read("etc/passwd") == b"root"
        assert program.is_continued
    assert program.getcwd() == os.fsencode(machine)


def test_the_status_of_a_descriptor_is_the_kernels(start: Callable[..., ContainedProgram]) -> None:
    program = start()

    assert program.answer("newfstatat", 0, b"", program.memory.add(bytes(256)), _EMPTY_PATH) == (
        Continue()
    )


def test_memory_that_cannot_be_read_is_a_bad_address(
    start: Callable[..., ContainedProgram],
) -> None:
    program = start()

    assert program.answer("chdir", 4096) == Failure(errno.EFAULT)


# -- mounts


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


def test_a_mount_of_a_file(tmp_path: Path, start: Callable[..., ContainedProgram]) -> None:
    (tmp_path / "hosts").write_text("10.0.0.1 pod")
    program = start(Mount("/etc/hosts", str(tmp_path / "hosts")))

    assert program.read("/etc/hosts") == b"10.0.0.1 pod"
    assert program.lstat("/etc/hosts").size == 12
    program.write("/etc/hosts", b"x")
    assert (tmp_path / "hosts").read_bytes() == b"x"
    program.chmod("/etc/hosts", 0o600)
    assert stat.S_IMODE((tmp_path / "hosts").stat().st_mode) == 0o600
    with fails_with(errno.ENOTDIR):
        program.read("/etc/hosts/x")
    assert program.read("/etc/passwd")
    assert program.is_continued


def test_mounts_are_below_each_other(
    tmp_path: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("inner")
    program = start(
        Mount("/srv/data/inner", str(tmp_path / "inner")), Mount("/srv/data", str(volume))
    )

    assert program.read("/srv/data/inner/file") == b"inner"
    assert program.listdir("/srv/data") == ["inner", "key"]
    program.chdir("/srv/data/inner")
    assert program.read("../key") == b"value"
    with fails_with(errno.EXDEV):
        program.rename("file", "../file")
    with fails_with(errno.EXDEV):
        program.link("file", "../file")


def test_a_mount_point_is_busy(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/data", str(volume)))

    with fails_with(errno.EBUSY):
        program.rmdir("/srv/data")
    with fails_with(errno.EBUSY):
        program.rename("/srv/data", "/srv/other")
    with fails_with(errno.EBUSY):
        program.rename("/srv", "/other")
    with fails_with(errno.EXDEV):
        program.rename("/srv/data/key", "/srv/key")


def test_a_read_only_mount_refuses_changes(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume), read_only=True))
    changes: list[Callable[[], object]] = [
        lambda: program.write("/srv/data/new", b""),
        lambda: program.write("/srv/data/key", b""),
        lambda: program.mkdir("/srv/data/folder"),
        lambda: program.symlink("x", "/srv/data/link"),
        lambda: program.unlink("/srv/data/key"),
        lambda: program.rename("/srv/data/key", "/srv/data/other"),
        lambda: program.link("/srv/data/key", "/srv/data/other"),
        lambda: program.chmod("/srv/data/key", 0o600),
        lambda: program.utime("/srv/data/key", 1),
        lambda: program.truncate("/srv/data/key", 0),
        lambda: program.call("setxattr", b"/srv/data/key", b"user.x", b"", 0, 0),
        lambda: program.call("faccessat", AT_FDCWD, b"/srv/data/key", os.W_OK),
    ]
    for change in changes:
        with fails_with(errno.EROFS):
            change()
    with fails_with(errno.EEXIST):
        program.mkdir("/srv/data/key")
    with fails_with(errno.ENOENT):
        program.chmod("/srv/data/missing", 0o600)
    assert program.access("/srv/data/key", os.R_OK)
    assert os.listdir(volume) == ["key"]


def test_an_existing_file_of_a_read_only_mount_is_opened(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (volume / "folder").mkdir()
    program = start(Mount("/srv/data", str(volume), read_only=True))

    os.close(program.open("/srv/data/key", os.O_CREAT))
    with fails_with(errno.EEXIST):
        program.open("/srv/data/key", os.O_CREAT | os.O_EXCL)
    with fails_with(errno.EISDIR):
        program.open("/srv/data/folder", os.O_CREAT)
    with fails_with(errno.EISDIR):
        program.truncate("/srv/data/folder", 0)
    with fails_with(errno.EROFS):
        program.link("/srv/data/key", "/srv/data/other")


def test_a_read_only_file_system_is_shown(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    mounts = (Mount("/srv/a", str(volume), read_only=True), Mount("/srv/b", str(volume)))
    program = start(*mounts, read_only_root=True)
    buffer = program.memory.add(bytes(120))
    shown = []
    for path in (b"/srv/a/key", b"/srv/b", os.fsencode(machine), b"/proc"):
        program.call("statfs", path, buffer)
        if not program.is_continued:
            (flags,) = struct.unpack("=Q", program.memory.read(buffer + 80, 8))
            shown.append(bool(flags & os.ST_RDONLY))
    assert shown == [True, False, True]


def test_a_mount_point_of_another_kind(
    tmp_path: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (tmp_path / "file").touch()
    program = start(Mount("/srv/data", str(volume)), Mount("/srv/file", str(tmp_path / "file")))

    with fails_with(errno.EISDIR):
        program.unlink("/srv/data")
    with fails_with(errno.ENOTDIR):
        program.rmdir("/srv/file")
    with fails_with(errno.EBUSY):
        program.unlink("/srv/file")
    with fails_with(errno.ENOTEMPTY):
        program.rmdir("/srv")
    with fails_with(errno.EBUSY):
        program.rename("/srv/data/..", "/srv/data/x")


def test_a_walk_comes_back_to_the_folder_that_it_has_left(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    """As that of `rm -r`, which compares the folder with the one that it has seen before."""
    program = start()
    inner = program.open(machine / "lib" / "inner", os.O_DIRECTORY)

    def go_up(flags: int = os.O_DIRECTORY) -> bool:
        fd = program.open("..", flags, dir_fd=inner)
        try:
            return os.path.samestat(os.fstat(fd), (machine / "lib").stat())
        finally:
            os.close(fd)

    assert go_up()
    program.mkdir(machine / "lib" / "new")
    assert go_up()
    assert not go_up(os.O_RDONLY)
    assert program.listdir(machine / "lib") == ["inner", "new"]
    # Another program has seen nothing before.
    program.answer("execve", b"/bin/true", 0, 0)
    assert not go_up()
    os.close(inner)


def test_a_link_leads_into_a_mount(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (machine / "config").symlink_to("/srv/data/key")
    program = start(Mount("/srv/data", str(volume)))

    assert program.read(f"{machine}/config") == b"value"
    assert program.readlink(f"{machine}/config") == b"/srv/data/key"
    assert program.is_continued


def test_a_link_leads_out_of_a_mount(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (volume / "absolute").symlink_to(f"{machine}/etc/passwd")
    (volume / "up").symlink_to("../etc")
    program = start(Mount(f"{machine}/data", str(volume)))

    assert program.read(f"{machine}/data/absolute") == b"root"
    assert program.read(f"{machine}/data/up/passwd") == b"root"
    assert program.listdir(f"{machine}/data/..") == ["data", "etc", "lib", "link"]
    assert not (machine / "data").exists()


def test_a_config_map_changes_by_its_link(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    for name in ("first", "second"):
        (volume / name).mkdir()
        (volume / name / "option").write_text(name)
    (volume / "..data").symlink_to("first")
    (volume / "option").symlink_to("..data/option")
    program = start(Mount("/srv/data", str(volume), read_only=True))

    assert program.read("/srv/data/option") == b"first"
    (volume / "next").symlink_to("second")
    (volume / "next").rename(volume / "..data")
    assert program.read("/srv/data/option") == b"second"
    watch = program.answer("inotify_add_watch", 5, b"/srv/data", 0x100)
    assert watch == Change({1: os.fsencode(volume) + b"\0"})


def test_a_target_is_behind_a_link(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (machine / "run").mkdir()
    (machine / "var").symlink_to("run")
    program = start(Mount(f"{machine}/var/secrets/account", str(volume)))

    assert program.read(f"{machine}/run/secrets/account/key") == b"value"
    assert program.read(f"{machine}/var/secrets/account/key") == b"value"
    assert not (machine / "run" / "secrets").exists()


def test_a_mount_in_the_kernels_files(
    tmp_path: Path, start: Callable[..., ContainedProgram]
) -> None:
    log = tmp_path / "log"
    log.touch()
    program = start(Mount("/dev/log-of-container", str(log)))

    program.write("/dev/log-of-container", b"reason")
    assert log.read_bytes() == b"reason"
    program.write("/dev/null", b"x")
    assert program.is_continued
    assert not os.path.lexists("/dev/log-of-container")


# -- the layer


def test_what_is_written_elsewhere_is_in_the_layer(
    tmp_path: Path, machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    before = sorted(machine.rglob("*"))
    program.mkdir(f"{machine}/lib/cache")
    program.write(f"{machine}/lib/cache/file", b"x")
    program.write(f"{machine}/etc/passwd", b"other")

    assert program.listdir(f"{machine}/lib") == ["cache", "inner"]
    assert program.read(f"{machine}/etc/passwd") == b"other"
    assert program.read(f"{machine}/link") == b"other"
    assert sorted(machine.rglob("*")) == before
    assert (machine / "etc" / "passwd").read_text() == "root"
    assert (tmp_path / f"upper/{machine}/lib/cache/file").read_bytes() == b"x"
    assert program.read(f"{machine}/lib/inner/module.py") == b"x = 1"
    assert program.is_continued


def test_an_open_folder_is_that_of_the_container(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    fd = program.open(f"{machine}/lib", os.O_RDONLY | os.O_DIRECTORY)
    program.write(f"{machine}/lib/new", b"x")
    try:
        assert program.stat("new", dir_fd=fd).size == 1
        program.mkdir("folder", dir_fd=fd)
        os.close(program.open("inner/../folder/x", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    finally:
        os.close(fd)

    assert program.listdir(f"{machine}/lib") == ["folder", "inner", "new"]
    assert program.listdir(f"{machine}/lib/folder") == ["x"]


def test_a_folder_moves_with_its_files(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    fd = program.open(f"{machine}/lib/inner", os.O_RDONLY | os.O_DIRECTORY)
    program.rename(f"{machine}/lib", f"{machine}/etc/library")
    try:
        assert program.read(f"{machine}/etc/library/inner/module.py") == b"x = 1"
        assert program.stat("module.py", dir_fd=fd).size == 5
        assert not program.exists(f"{machine}/lib")
        program.mkdir(f"{machine}/lib")
        assert program.listdir(f"{machine}/lib") == []
        program.chdir(f"{machine}/etc/library/inner")
        assert program.getcwd() == os.fsencode(f"{machine}/etc/library/inner")
    finally:
        os.close(fd)


def test_the_status_of_an_open_file_of_the_machine_is_changed_in_a_copy(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    path = machine / "etc" / "passwd"
    path.chmod(0o644)
    program = start()
    fd = program.open(path, os.O_RDONLY)
    try:
        program.call("fchmod", fd, 0o600)
        program.call("utimensat", fd, 0, struct.pack("=qqqq", 7, 0, 7, 0), 0)
    finally:
        os.close(fd)

    assert stat.S_IMODE(program.stat(path).mode) == 0o600
    assert program.stat(path).modified == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_copy_has_the_status_of_the_machines_file(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    path = machine / "etc" / "passwd"
    path.chmod(0o640)
    os.utime(path, (5, 5))
    os.utime(machine / "etc", (6, 6))
    program = start()
    with os.fdopen(program.open(path, os.O_RDWR), "rb") as file:
        assert file.read() == b"root"

    status = program.stat(path)
    assert (stat.S_IMODE(status.mode), status.modified) == (0o640, 5)
    assert program.stat(machine / "etc").modified == 6


def test_an_exec_session_sees_what_the_container_has_changed(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    container, session = start(), start()
    assert session.read(f"{machine}/etc/passwd") == b"root"
    container.write(f"{machine}/etc/passwd", b"other")
    assert session.read(f"{machine}/etc/passwd") == b"other"
    session.unlink(f"{machine}/etc/passwd")
    assert container.listdir(f"{machine}/etc") == []
    session.rename(f"{machine}/lib", f"{machine}/library")
    assert container.read(f"{machine}/library/inner/module.py") == b"x = 1"
    late = start()
    assert late.listdir(machine) == ["etc", "library", "link"]


def test_a_read_only_root_refuses_changes_outside_of_mounts(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    own = f"{machine}/own"
    (machine / "own").mkdir()
    program = start(Mount("/srv/data", str(volume)), own_folders={own: 0o755}, read_only_root=True)

    for path in (f"{machine}/new", f"{machine}/etc/passwd", f"{own}/new", "/srv/new"):
        with fails_with(errno.EROFS):
            program.write(path, b"")
    with fails_with(errno.EROFS):
        program.chmod(f"{machine}/etc", 0o700)
    assert not program.access(f"{machine}/etc", os.W_OK)
    program.write("/srv/data/new", b"")
    program.write("/dev/null", b"")


# -- folders of the container's own


def test_own_folders_are_empty(machine: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(own_folders={f"{machine}/lib": 0o1777})

    assert program.listdir(f"{machine}/lib") == []
    assert stat.S_IMODE(program.stat(f"{machine}/lib").mode) == 0o1777
    with fails_with(errno.ENOENT):
        program.read(f"{machine}/lib/inner/module.py")
    program.write(f"{machine}/lib/file", b"x")
    assert program.listdir(f"{machine}/lib") == ["file"]
    assert sorted(os.listdir(machine / "lib")) == ["inner"]


def test_temporary_files_are_the_containers_own(
    tmp_path: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(own_folders=OWN_FOLDERS)
    program.write("/tmp/container-file", b"x")

    assert program.listdir("/tmp") == ["container-file"]
    assert (tmp_path / "upper/tmp/container-file").read_bytes() == b"x"
    assert stat.S_IMODE(program.stat("/tmp").mode) == 0o1777
    assert program.listdir("/run") == []


def test_visible_folders_are_in_own_ones(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    (machine / "current").symlink_to("lib/inner")
    program = start(
        own_folders={f"{machine}/lib": 0o755},
        visible=(f"{machine}/lib/inner", f"{machine}/current"),
    )

    assert program.read(f"{machine}/lib/inner/module.py") == b"x = 1"
    assert program.is_continued or program.listdir(f"{machine}/lib") == ["inner"]
    assert program.listdir(f"{machine}/lib") == ["inner"]
    program.write(f"{machine}/lib/inner/other.py", b"")
    assert program.listdir(f"{machine}/lib/inner") == ["module.py", "other.py"]
    assert os.listdir(machine / "lib" / "inner") == ["module.py"]
    assert program.read(f"{machine}/current/module.py") == b"x = 1"


def test_missing_folders_are_created(machine: Path, start: Callable[..., ContainedProgram]) -> None:
    """As working directories, also of a root that is read-only."""
    folders = (f"{machine}/srv/app", f"{machine}/etc/passwd/none", f"{machine}/lib")
    program = start(folders=folders, read_only_root=True)

    assert program.listdir(f"{machine}/srv") == ["app"]
    assert program.listdir(f"{machine}/lib") == ["inner"]
    assert program.read(f"{machine}/etc/passwd") == b"root"
    assert not (machine / "srv").exists()


def test_hidden_paths_are_empty(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    inner, visible = f"{machine}/lib/inner", f"{machine}/link"
    program = start(
        Mount("/srv/data", str(volume)),
        hidden=(inner, f"{machine}/lib", visible, f"{machine}/missing", "/srv/data"),
    )

    assert program.listdir(machine) == ["etc", "lib", "link"]
    assert program.listdir(f"{machine}/lib") == program.listdir("/srv/data") == []
    with fails_with(errno.ENOENT):
        program.stat(inner)
    assert program.read(f"{machine}/etc/passwd") == program.read(visible) == b""
    with fails_with(errno.EROFS):
        program.mkdir(f"{machine}/lib/new")
    with fails_with(errno.EBUSY):
        program.unlink(f"{machine}/etc/passwd")
    program.mkdir(f"{machine}/missing")


# -- resolution


def test_paths_that_lead_nowhere(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    (volume / "loop").symlink_to("loop")
    program = start(Mount("/srv/data", str(volume)))

    with fails_with(errno.ELOOP):
        program.read("/srv/data/loop")
    with fails_with(errno.ENAMETOOLONG):
        program.read(f"/srv/data/{'x' * 256}")
    with fails_with(errno.ENAMETOOLONG):
        program.read("/srv/data/" + "x/" * 2048)
    with fails_with(errno.ENOTDIR):
        program.read("/srv/data/key/x")
    with fails_with(errno.ENOTDIR):
        program.read("/srv/data/key/")
    with fails_with(errno.ENOENT):
        program.read("/srv/data/missing/../key")
    with fails_with(errno.ENOENT):
        program.read("")
    with fails_with(errno.EISDIR):
        program.open("/srv/data", os.O_WRONLY)
    with fails_with(errno.ELOOP):
        program.open("/srv/data/loop", os.O_RDONLY | os.O_NOFOLLOW)


def test_a_file_of_the_layer_is_no_folder(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    program.write(f"{machine}/file", b"")

    with fails_with(errno.ENOTDIR):
        program.listdir(f"{machine}/file/inner")


def test_forty_links_are_followed(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    for number in range(41):
        (volume / f"{number}").symlink_to(f"{number - 1}" if number else "key")
    program = start(Mount("/srv/data", str(volume)))

    assert program.read("/srv/data/39") == b"value"
    with fails_with(errno.ELOOP):
        program.read("/srv/data/40")


def test_names_are_bytes(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/data", str(volume)))
    program.write(b"/srv/data/\xff\xfe", b"x")

    assert program.read(b"/srv/data/\xff\xfe") == b"x"
    assert os.listdir(os.fsencode(volume)) in ([b"key", b"\xff\xfe"], [b"\xff\xfe", b"key"])


def test_paths_of_proc_lead_to_the_container(
    machine: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))
    fd = program.open("/srv/data", os.O_RDONLY)
    try:
        assert program.readlink(f"/proc/self/fd/{fd}") == b"/srv/data"
        assert program.readlink(f"/proc/{os.getpid()}/fd/{fd}") == b"/srv/data"
        assert program.read(f"/proc/self/fd/{fd}/key") == b"value"
        assert program.read(f"/dev/fd/{fd}/../data/key") == b"value"
        assert program.read("/proc/self/root/srv/data/key") == b"value"
        program.chdir(f"/proc/thread-self/fd/{fd}")
        assert program.readlink("/proc/self/cwd") == b"/srv/data"
        assert program.read("/proc/self/cwd/key") == b"value"
    finally:
        os.close(fd)
    assert program.readlink("/proc/self/exe") == os.fsencode(os.readlink("/proc/self/exe"))
    assert program.is_continued


def test_an_open_file_of_the_machine_is_not_written_to_by_its_link(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    fd = program.open(f"{machine}/etc/passwd", os.O_RDONLY)
    try:
        assert program.read(f"/proc/self/fd/{fd}") == b"root"
        program.write(f"/proc/self/fd/{fd}", b"other")
    finally:
        os.close(fd)
    assert (machine / "etc" / "passwd").read_text() == "root"
    assert program.read(f"{machine}/etc/passwd") == b"other"


def test_a_copied_or_removed_file_of_the_machine_is_not_changed_by_its_descriptor(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    path = machine / "etc" / "passwd"
    path.chmod(0o644)
    program = start()
    fd = program.open(path, os.O_RDONLY)
    try:
        program.truncate(path, 2)
        program.write(f"/proc/self/fd/{fd}", b"other")
        program.call("fchmod", fd, 0o600)
        assert stat.S_IMODE(program.stat(path).mode) == 0o600
        program.unlink(path)
        program.call("fchmod", fd, 0o640)
        with fails_with(errno.EROFS):
            program.write(f"/proc/self/fd/{fd}", b"last")
        assert program.read(f"/proc/self/fd/{fd}") == b"root"
    finally:
        os.close(fd)
    assert path.read_text() == "root"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_pipe_is_opened_by_its_link(start: Callable[..., ContainedProgram]) -> None:
    program = start()
    reading, writing = os.pipe()
    try:
        os.close(program.open(f"/proc/self/fd/{writing}", os.O_WRONLY))
        assert program.is_continued
        os.close(program.open(f"/dev/fd/{writing}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        assert program.is_continued
        with fails_with(errno.ENOTDIR):
            program.stat("x", dir_fd=reading)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_removed_folder_has_no_files(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    program.mkdir(f"{machine}/folder")
    program.chdir(f"{machine}/folder")
    program.rmdir(f"{machine}/folder")

    with fails_with(errno.ENOENT):
        program.write("file", b"")
    with fails_with(errno.ENOENT):
        program.getcwd()


def test_a_bad_descriptor(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/data", str(volume)))

    with fails_with(errno.EBADF):
        program.mkdir("folder", dir_fd=999)
    with fails_with(errno.EBADF):
        program.stat("folder", dir_fd=999)


# -- open


def test_a_file_is_created_with_the_umask(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))
    with run_process(lambda: os.umask(0o027)) as program.thread:
        os.close(program.open("/srv/data/file", os.O_CREAT | os.O_WRONLY, 0o666))
        program.mkdir("/srv/data/folder")

    assert stat.S_IMODE((volume / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((volume / "folder").stat().st_mode) == 0o750


def test_a_descriptor_is_kept_as_asked_for(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))
    for flags, is_kept in ((0, True), (os.O_CLOEXEC, False)):
        answer = program.answer("openat", AT_FDCWD, b"/srv/data/key", flags, 0)
        assert isinstance(answer, Descriptor)
        assert answer.is_kept is is_kept
        os.close(answer.fd)


def test_a_pipe_is_opened_by_the_program_itself(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))
    program.mkfifo("/srv/data/pipe")

    answer = program.answer("openat", AT_FDCWD, b"/srv/data/pipe", os.O_RDONLY, 0)
    assert answer == Change({1: os.fsencode(volume / "pipe") + b"\0"})
    os.close(program.open("/srv/data/pipe", os.O_RDONLY | os.O_NONBLOCK))


def test_a_path_alone_is_opened_by_the_program_itself(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))

    fd = program.open("/srv/data", os.O_PATH)
    try:
        assert program.answered == Change({1: os.fsencode(volume) + b"\0"})
        assert program.stat("key", dir_fd=fd).size == 5
    finally:
        os.close(fd)


def test_a_file_without_a_name_gets_one(
    machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start()
    fd = program.open(f"{machine}/lib", os.O_TMPFILE | os.O_WRONLY, 0o600)
    try:
        os.write(fd, b"content")
        source, target = f"/proc/self/fd/{fd}".encode(), os.fsencode(machine / "named")
        program.call("linkat", AT_FDCWD, source, AT_FDCWD, target, 0x400)
    finally:
        os.close(fd)
    assert program.read(f"{machine}/named") == b"content"
    assert program.listdir(f"{machine}/lib") == ["inner"]


def test_openat2_keeps_to_its_limits(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    (volume / "link").symlink_to("key")
    (volume / "up").symlink_to("../nowhere")
    (volume / "root").symlink_to("/key")
    program = start(Mount("/srv/data", str(volume)))
    fd = program.open("/srv/data", os.O_RDONLY)

    def open_within(path: bytes, resolve: int) -> bytes:
        how = struct.pack("=QQQ", os.O_RDONLY | os.O_CLOEXEC, 0, resolve)
        with os.fdopen(program.call("openat2", fd, path, how, 24), "rb") as file:
            return file.read()

    try:
        assert open_within(b"link", 0) == b"value"
        assert open_within(b"link", _BENEATH) == b"value"
        assert open_within(b"/key", _IN_ROOT) == b"value"
        assert open_within(b"root", _IN_ROOT) == b"value"
        assert open_within(b"../../key", _IN_ROOT) == b"value"
        for path, resolve, number in (
            (b"link", _NO_SYMLINKS, errno.ELOOP),
            (b"up", _BENEATH, errno.EXDEV),
            (b"/srv/data/key", _BENEATH, errno.EXDEV),
            (b"../data/key", _BENEATH, errno.EXDEV),
            (b"root", _NO_XDEV, errno.EXDEV),
            (b"link", _BENEATH | _IN_ROOT, errno.EINVAL),
            (b"link", 0x1000, errno.EINVAL),
        ):
            with fails_with(number):
                open_within(path, resolve)
    finally:
        os.close(fd)


# -- copies


def test_a_copy_of_a_file_is_the_container_s_own(
    tmp_path: Path, machine: Path, start: Callable[..., ContainedProgram]
) -> None:
    """It may be changed and moved, as it is no mount."""
    source = tmp_path / "greeting"
    source.write_text("hello\n")
    source.chmod(0o754)
    program = start(copies={"/srv/new/greeting": str(source), f"{machine}/etc/passwd": str(source)})

    for path in ("/srv/new/greeting", f"{machine}/etc/passwd"):
        assert program.read(path) == b"hello\n"
        assert program.stat(path).mode & 0o777 == 0o754
        program.call("rename", os.fsencode(path), b"/srv/moved")
        program.write("/srv/moved", b"bye\n")
    assert source.read_text() == "hello\n"
    assert "hello" not in (machine / "etc" / "passwd").read_text()


# -- programs


def test_a_program_in_a_mount_is_executed_by_its_place(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (volume / "tool").write_bytes(b"\x7fELF")
    program = start(Mount("/srv/bin", str(volume)))

    assert program.answer("execve", b"/srv/bin/tool", 0, 0) == Change(
        {0: os.fsencode(volume / "tool") + b"\0"}
    )
    assert program.answer("execve", b"/bin/sh", 0, 0) == Continue()
    assert program.answer("execve", b"/srv/bin/missing", 0, 0) == Failure(errno.ENOENT)
    assert program.answer("execve", b"/srv/bin", 0, 0) == Failure(errno.EACCES)


def test_a_script_is_executed_by_its_interpreter(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    """The interpreter opens the script by the path that it is given."""
    (volume / "script").write_text("#!/srv/bin/python -u\nprint()")
    (volume / "script").chmod(0o755)
    (volume / "nested").write_text("#!/srv/bin/script\n")
    (volume / "nested").chmod(0o755)
    (volume / "python").write_bytes(b"\x7fELF")
    program = start(Mount("/srv/bin", str(volume)))
    first, second = program.memory.add(b"script\0"), program.memory.add(b"one\0")
    given = program.memory.add(struct.pack("=3Q", first, second, 0))
    host = os.fsencode(volume / "python") + b"\0"

    def answer(path: bytes, argv: int) -> Change:
        script = (b"/srv/bin/python\0", b"-u\0", b"/srv/bin/script\0")
        rest = (second,) if argv else ()
        own = (b"/srv/bin/nested\0",) if path.endswith(b"nested") else ()
        return Change({0: host, 1: Pointers((*script, *own, *rest))})

    for path in (b"/srv/bin/script", b"/srv/bin/nested"):
        for argv in (given, 0):
            assert program.answer("execve", path, argv, 0) == answer(path, argv)


def test_a_program_by_a_descriptor(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    (volume / "tool").write_text("#!/bin/sh\n")
    (volume / "tool").chmod(0o755)
    (volume / "link").symlink_to("tool")
    program = start(Mount("/srv/data", str(volume)))
    fd = program.open("/srv/data", os.O_RDONLY | os.O_CLOEXEC)

    assert program.answer("execveat", fd, b"link", 0, 0, _NOFOLLOW) == Failure(errno.ELOOP)
    # Its interpreter would have no descriptor to find it by.
    assert program.answer("execveat", fd, b"tool", 0, 0, 0) == Failure(errno.ENOENT)
    os.set_inheritable(fd, True)
    script = b"/dev/fd/%d/tool\0" % fd
    assert program.answer("execveat", fd, b"tool", 0, 0, 0) == Change(
        {1: os.fsencode(os.path.realpath("/bin/sh")) + b"\0", 2: Pointers((b"/bin/sh\0", script))}
    )
    os.close(fd)


def test_a_program_whose_loader_is_in_a_mount(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q14xHH", 64, 56, 1)
    segment = struct.pack("<I4xQ16xQ16x", 3, 120, 16)
    content = header.ljust(64, b"\0") + segment + b"/srv/data/ld.so\0"
    (volume / "tool").write_bytes(content)
    (volume / "tool").chmod(0o755)
    program = start(Mount("/srv/data", str(volume)))
    arguments = program.memory.add(struct.pack("=QQQ", 77, 78, 0))

    assert program.answer("execve", b"/srv/data/tool", arguments, 0) == Failure(errno.ENOENT)
    (volume / "ld.so").write_bytes(b"--argv0")
    host = os.fsencode(volume / "ld.so") + b"\0"
    assert program.answer("execve", b"/srv/data/tool", arguments, 0) == Change(
        {0: host, 1: Pointers((b"/srv/data/ld.so\0", b"--argv0\0", 77, b"/srv/data/tool\0", 78))}
    )
    (volume / "ld.so").write_bytes(b"old")
    program.chdir("/srv/data")
    assert program.answer("execve", b"tool", arguments, 0) == Change(
        {0: host, 1: Pointers((b"/srv/data/ld.so\0", b"./tool\0", 78))}
    )


def test_a_script_that_may_not_be_executed(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (volume / "script").write_text("#!/bin/sh\n")
    (volume / "script").chmod(0o644)
    (volume / "lost").write_text("#!/srv/bin/missing\n")
    (volume / "loop").write_text("#!/srv/bin/loop\n")
    for name in ("lost", "loop"):
        (volume / name).chmod(0o755)
    program = start(Mount("/srv/bin", str(volume)))

    assert program.answer("execve", b"/srv/bin/script", 0, 0) == Failure(errno.EACCES)
    assert program.answer("execve", b"/srv/bin/lost", 0, 0) == Failure(errno.ENOENT)
    assert program.answer("execve", b"/srv/bin/loop", 0, 0) == Failure(errno.ELOOP)


# -- others


def test_calls_for_which_there_are_others_are_refused(
    volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    program = start(Mount("/srv/data", str(volume)))

    assert program.answer("chroot", b"/srv/data") == Failure(errno.EPERM)
    assert program.answer("chroot", b"/usr") == Failure(errno.EPERM)
    assert program.answer("chroot", b"/") == Continue()
    handle = program.memory.add(bytes(128))
    assert program.answer("name_to_handle_at", AT_FDCWD, b"/srv/data", handle, handle, 0) == (
        Failure(errno.EPERM)
    )
    assert program.answer("setxattrat", AT_FDCWD, b"/srv/data", 0, 0, 0, 0) == (
        Failure(errno.ENOSYS)
    )


def test_older_calls_do_the_same(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/data", str(volume)))
    buffer = program.memory.add(bytes(512))

    assert program.call("access", b"/srv/data/key", os.R_OK) == 0
    fd = program.call("creat", b"/srv/data/new", 0o644)
    os.close(fd)
    fd = program.call("open", b"/srv/data/new", os.O_RDONLY, 0)
    os.close(fd)
    for name in ("stat", "lstat", "statfs"):
        assert program.call(name, b"/srv/data/key", buffer) == 0
    program.call("chmod", b"/srv/data/new", 0o600)
    program.call("mkdir", b"/srv/data/folder", 0o755)
    program.call("symlink", b"key", b"/srv/data/link")
    assert program.call("readlink", b"/srv/data/link", buffer, 100) == 3
    assert program.memory.read(buffer, 3) == b"key"
    program.call("link", b"/srv/data/key", b"/srv/data/hard")
    program.call("rename", b"/srv/data/hard", b"/srv/data/moved")
    program.call("rmdir", b"/srv/data/folder")
    program.call("mknod", b"/srv/data/pipe", stat.S_IFIFO | 0o600, 0)
    program.call("unlink", b"/srv/data/pipe")
    program.call("utime", b"/srv/data/new", struct.pack("=qq", 3, 4))
    assert (volume / "new").stat().st_mtime == 4
    program.call("utimes", b"/srv/data/new", struct.pack("=qqqq", 3, 0, 5, 500000))
    assert (volume / "new").stat().st_mtime == 5.5
    with fails_with(errno.EINVAL):
        program.call("utimes", b"/srv/data/new", struct.pack("=qqqq", 3, 0, 5, 1000000))
    program.call("futimesat", AT_FDCWD, b"/srv/data/new", struct.pack("=qqqq", 3, 0, 6, 0))
    assert (volume / "new").stat().st_mtime == 6
    assert sorted(os.listdir(volume)) == ["key", "link", "moved", "new"]


def test_extended_attributes(volume: Path, start: Callable[..., ContainedProgram]) -> None:
    program = start(Mount("/srv/data", str(volume)))
    buffer = program.memory.add(bytes(512))
    try:
        os.setxattr(volume / "key", "user.first", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    program.call("setxattr", b"/srv/data/key", b"user.second", b"23", 2, 0)

    assert os.getxattr(volume / "key", "user.second") == b"23"
    assert program.call("getxattr", b"/srv/data/key", b"user.first", buffer, 10) == 1
    assert program.memory.read(buffer, 1) == b"1"
    assert program.call("getxattr", b"/srv/data/key", b"user.second", 0, 0) == 2
    assert program.call("listxattr", b"/srv/data/key", buffer, 100) == 23
    program.call("removexattr", b"/srv/data/key", b"user.first")
    with fails_with(errno.ENODATA):
        program.call("getxattr", b"/srv/data/key", b"user.first", buffer, 10)


@contextmanager
def run_process(start: Callable[[], object]) -> Iterator[int]:
    """Run a process whose rights and umask calls are made with."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            start()
            os.write(writing, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"+"
        yield process
    finally:
        os.close(reading)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def become_other_user() -> None:
    os.setgroups([])
    os.setresgid(1234, 1234, 1234)
    os.setresuid(1234, 1234, 1234)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may search."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take another user's rights")
def test_a_program_below_a_folder_that_its_user_may_not_enter(
    open_folder: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    """It is at its place in the container, whoever may enter the machine's folders."""
    volume.parent.chmod(0o700)
    for folder in (volume, open_folder):
        (folder / "tool").write_bytes(b"\x7fELF")
        (folder / "tool").chmod(0o755)
    (volume / "own").write_bytes(b"\x7fELF")
    (volume / "own").chmod(0o700)
    program = start(Mount("/srv/bin", str(volume)), Mount("/srv/open", str(open_folder)))
    with run_process(become_other_user) as process:
        program.thread = process
        answer = program.answer("execve", b"/srv/bin/tool", 0, 0)
        assert isinstance(answer, Change)
        (file,) = answer.arguments.values()
        assert isinstance(file, OpenedFile)
        assert os.path.samestat(os.fstat(file.fd), (volume / "tool").stat())
        os.close(file.fd)
        assert program.answer("execve", b"/srv/bin/own", 0, 0) == Failure(errno.EACCES)
        assert program.answer("execve", b"/srv/open/tool", 0, 0) == Change(
            {0: os.fsencode(open_folder / "tool") + b"\0"}
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take another user's rights")
def test_calls_have_the_rights_of_the_program(
    open_folder: Path, volume: Path, start: Callable[..., ContainedProgram]
) -> None:
    (volume / "secret").write_text("x")
    (volume / "secret").chmod(0o600)
    for folder in (volume / "open", open_folder / "open", open_folder / "own"):
        folder.mkdir()
        folder.chmod(0o777)
    (open_folder / "own").chmod(0o755)
    (open_folder / "own" / "file").write_text("x")
    sticky = open_folder / "open" / "file"
    sticky.write_text("x")
    (open_folder / "open").chmod(0o1777)
    program = start(Mount("/srv/data", str(volume)))
    with run_process(become_other_user) as process:
        program.thread = process
        refused: list[tuple[int, Callable[[], object]]] = [
            (errno.EACCES, lambda: program.read("/srv/data/secret")),
            (errno.EACCES, lambda: program.write("/srv/data/new", b"")),
            (errno.EPERM, lambda: program.chmod("/srv/data/secret", 0o777)),
            (errno.EACCES, lambda: program.write(open_folder / "own" / "new", b"")),
            (errno.EACCES, lambda: program.write(open_folder / "own" / "file", b"")),
            (errno.EACCES, lambda: program.unlink(open_folder / "own" / "file")),
            (errno.EACCES, lambda: program.truncate(open_folder / "own" / "file", 0)),
            (errno.EPERM, lambda: program.chmod(open_folder / "own" / "file", 0o777)),
            (errno.EPERM, lambda: program.unlink(sticky)),
            (errno.EPERM, lambda: program.rename(sticky, f"{sticky}2")),
        ]
        for number, call in refused:
            with fails_with(number):
                call()
        assert not program.access("/srv/data/secret", os.R_OK)
        program.write("/srv/data/open/own", b"")
        assert (volume / "open" / "own").stat().st_uid == 1234
        program.write(open_folder / "open" / "own", b"")
        assert program.stat(open_folder / "open" / "own").user == 1234
        program.unlink(open_folder / "open" / "own")
        program.thread = os.getpid()
        assert program.read("/srv/data/secret") == b"x"


def test_every_call_has_a_number() -> None:
    assert set(X86_64.numbers) >= set(FileCalls.CAUGHT)
