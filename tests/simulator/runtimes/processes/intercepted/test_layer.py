"""Operations on a container's layer, held against the same ones on a folder of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount
from tests.examples import scaled
from tests.simulator.runtimes.processes.intercepted.contained_program import (
    AT_FDCWD,
    ContainedProgram,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = ("a", "b", "c", "link")
# Nothing above the folders is the same in both: links and `..` must not lead there.
_INNER = "u/v/w/x"
_PATHS = (
    st.lists(st.sampled_from([*_NAMES, *_NAMES, "..", "."]), min_size=1, max_size=4)
    .filter(lambda names: names.count("..") < 2)
    .map("/".join)
)
_TEXTS = st.sampled_from(["a", "b/c", "../b", "..", "missing", "link", "c"])
_NOREPLACE, _EXCHANGE = 1, 2
_SET_BEFORE = 6


class Operation(NamedTuple):
    """An operation: its name and arguments."""

    name: str
    path: str
    other: str = ""
    number: int = 0


_WITH_PATH = (
    "append", "create", "create_in", "list_in", "listdir", "lstat", "mkdir", "mkdir_slash",
    "mkfifo", "read", "readlink", "rmdir", "stat", "stat_slash", "unlink", "write",
)  # fmt: skip
_OPERATIONS = st.one_of(
    st.builds(Operation, st.sampled_from(_WITH_PATH), _PATHS, st.just(""), st.just(0)),
    st.builds(
        Operation,
        st.sampled_from(["rename", "exchange", "noreplace", "link"]),
        _PATHS,
        _PATHS,
        st.just(0),
    ),
    st.builds(Operation, st.just("symlink"), _PATHS, _TEXTS, st.just(0)),
    st.builds(Operation, st.just("chmod"), _PATHS, st.just(""), st.sampled_from([0o700, 0o755])),
    st.builds(Operation, st.just("truncate"), _PATHS, st.just(""), st.integers(0, 3)),
    st.builds(Operation, st.just("utime"), _PATHS, st.just(""), st.integers(1, _SET_BEFORE - 1)),
)


def make_machine(folder: Path) -> None:
    """Create folders, files and links as a container's machine has them."""
    for name in ("a", "b", "b/c", "b/a", "b/c/a"):
        (folder / name).mkdir(parents=True)
    for name in ("a/a", "a/b", "b/b", "b/c/b", "b/c/a/c"):
        (folder / name).write_text(f"content of {name}")
    (folder / "link").symlink_to("b/c")
    (folder / "a" / "link").symlink_to("../b")
    (folder / "b" / "link").symlink_to("b")


class PlainProgram:
    """The calls of a contained program, performed by the kernel."""

    def open(self, path: str, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        return os.open(path, flags, mode, dir_fd=dir_fd)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, content: bytes, flags: int = os.O_TRUNC) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644), "wb") as file:
            file.write(content)

    def listdir(self, path: str) -> list[str]:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def stat(self, path: str) -> Status:
        return _to_status(os.stat(path))

    def lstat(self, path: str) -> Status:
        return _to_status(os.lstat(path))

    def readlink(self, path: str) -> bytes:
        return os.fsencode(os.readlink(path))

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def mkfifo(self, path: str) -> None:
        os.mkfifo(path, 0o644)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def symlink(self, text: str, path: str) -> None:
        os.symlink(text, path)

    def link(self, old: str, new: str) -> None:
        os.link(old, new, follow_symlinks=False)

    def rename(self, old: str, new: str, flags: int = 0) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    def truncate(self, path: str, size: int) -> None:
        os.truncate(path, size)

    def utime(self, path: str, seconds: int) -> None:
        os.utime(path, (seconds, seconds))


def _to_status(status: os.stat_result) -> Status:
    modified = int(status.st_mtime)
    return Status(status.st_mode, status.st_size, modified, status.st_uid, status.st_ino)


Program = ContainedProgram | PlainProgram


def perform(program: Program, root: str, operation: Operation) -> object:
    """Make an operation below a folder, and return its result or errno."""
    path, other = f"{root}/{operation.path}", f"{root}/{operation.other}"
    try:
        return _PERFORMED[operation.name](program, path, other, operation)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def _create_in(program: Program, path: str) -> None:
    fd = program.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(program.open("new", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=fd))
    finally:
        os.close(fd)


def _list_in(program: Program, path: str) -> list[str]:
    fd = program.open(path, os.O_PATH)
    try:
        inner = program.open(".", os.O_RDONLY, dir_fd=fd)
    finally:
        os.close(fd)
    try:
        return sorted(os.listdir(inner))
    finally:
        os.close(inner)


def _use(program: Program, path: str, use: Callable[[], object]) -> object:
    """Use a file that is no pipe, which would wait for its other end."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISFIFO(program.stat(path).mode):
            return None
    return use()


_PERFORMED: dict[str, Callable[[Program, str, str, Operation], object]] = {
    "append": lambda program, path, _other, _operation: _use(
        program, path, lambda: program.write(path, b"appended", os.O_APPEND)
    ),
    "chmod": lambda program, path, _other, operation: program.chmod(path, operation.number),
    "create": lambda program, path, _other, _operation: program.write(path, b"new", os.O_EXCL),
    "create_in": lambda program, path, _other, _operation: _create_in(program, path),
    "exchange": lambda program, path, other, _operation: program.rename(path, other, _EXCHANGE),
    "link": lambda program, path, other, _operation: program.link(path, other),
    "list_in": lambda program, path, _other, _operation: _list_in(program, path),
    "listdir": lambda program, path, _other, _operation: program.listdir(path),
    "lstat": lambda program, path, _other, _operation: program.lstat(path).mode,
    "mkdir": lambda program, path, _other, _operation: program.mkdir(path),
    "mkdir_slash": lambda program, path, _other, _operation: program.mkdir(f"{path}/"),
    "mkfifo": lambda program, path, _other, _operation: program.mkfifo(path),
    "noreplace": lambda program, path, other, _operation: program.rename(path, other, _NOREPLACE),
    "read": lambda program, path, _other, _operation: _use(
        program, path, lambda: program.read(path)
    ),
    "readlink": lambda program, path, _other, _operation: program.readlink(path),
    "rename": lambda program, path, other, _operation: program.rename(path, other),
    "rmdir": lambda program, path, _other, _operation: program.rmdir(path),
    "stat": lambda program, path, _other, _operation: program.stat(path).mode,
    "stat_slash": lambda program, path, _other, _operation: program.stat(f"{path}/").mode,
    "symlink": lambda program, path, _other, operation: program.symlink(operation.other, path),
    "truncate": lambda program, path, _other, operation: program.truncate(path, operation.number),
    "unlink": lambda program, path, _other, _operation: program.unlink(path),
    "utime": lambda program, path, _other, operation: program.utime(path, operation.number),
    "write": lambda program, path, _other, _operation: _use(
        program, path, lambda: program.write(path, b"written")
    ),
}


def describe(program: Program, folder: str) -> dict[str, object]:
    """Return everything below a folder by its path."""
    described: dict[str, object] = {}
    pending = [""]
    while pending:
        path = pending.pop()
        for name in program.listdir(folder + path):
            inner = f"{path}/{name}"
            status = program.lstat(folder + inner)
            content: object = None
            if stat.S_ISDIR(status.mode):
                pending.append(inner)
            elif stat.S_ISLNK(status.mode):
                content = program.readlink(folder + inner)
            elif stat.S_ISREG(status.mode):
                content = program.read(folder + inner)
            modified = status.modified if status.modified < _SET_BEFORE else "lately"
            described[inner] = (oct(status.mode), content, modified)
    return described


@settings(max_examples=scaled(400), deadline=None)
@given(st.lists(st.tuples(_OPERATIONS, st.booleans()), max_size=12))
def test_operations_have_the_results_of_those_on_a_folder(
    operations: list[tuple[Operation, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        make_machine(folder / "machine" / _INNER)
        make_machine(folder / "plain" / _INNER)
        make_machine(folder / "before" / _INNER)
        files = ContainerFiles(upper=f"{folder}/upper", own_folders={})
        # The second one is that of an exec session.
        programs = [ContainedProgram(files), ContainedProgram(files)]
        for program in programs:
            stack.callback(program.close)
        plain = PlainProgram()
        for operation, is_session in operations:
            expected = perform(plain, f"{folder}/plain/{_INNER}", operation)
            assert (
                perform(programs[is_session], f"{folder}/machine/{_INNER}", operation) == expected
            )
        described = describe(plain, f"{folder}/plain")
        for program in programs:
            assert describe(program, f"{folder}/machine") == described
        assert describe(plain, f"{folder}/machine") == describe(plain, f"{folder}/before")


@settings(max_examples=scaled(100), deadline=None)
@given(st.lists(_OPERATIONS, max_size=8))
def test_operations_in_a_mount_are_those_on_its_source(operations: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        make_machine(folder / "volume" / _INNER)
        make_machine(folder / "plain" / _INNER)
        mounts = (Mount("/srv/nowhere/volume", f"{folder}/volume"),)
        program = ContainedProgram(ContainerFiles(f"{folder}/upper", mounts, own_folders={}))
        stack.callback(program.close)
        plain = PlainProgram()
        for operation in operations:
            expected = perform(plain, f"{folder}/plain/{_INNER}", operation)
            assert perform(program, f"/srv/nowhere/volume/{_INNER}", operation) == expected
        described = describe(plain, f"{folder}/plain")
        assert describe(program, "/srv/nowhere/volume") == described
        assert describe(plain, f"{folder}/volume") == described
