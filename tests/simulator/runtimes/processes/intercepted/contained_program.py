"""A program whose calls with paths are answered as in a container: this process, with a memory.

Its methods are those of `os`. What the kernel would perform is performed by `os` and `ctypes`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Change,
    Continue,
    Descriptor,
    Failure,
    Result,
    SystemCall,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.files import FileCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer
    from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles

AT_FDCWD = -100
_MASK = (1 << 64) - 1
_BUFFER_BYTES = 8192
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Status(NamedTuple):
    """The status of a file, as far as tests look at it."""

    mode: int
    size: int
    modified: int
    user: int
    inode: int


class FakeMemory:
    """The memory of this process, in which strings and buffers are kept."""

    def __init__(self) -> None:
        self._kept: list[ctypes.Array[ctypes.c_char]] = []

    def add(self, content: bytes) -> int:
        """Keep bytes, and return their address."""
        buffer = ctypes.create_string_buffer(content, len(content) + 4096)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes."""
        for buffer in self._kept:
            start = ctypes.addressof(buffer)
            if start <= address and address + size <= start + len(buffer):
                return buffer.raw[address - start : address - start + size]
        # Strings are read up to the end of a page.
        for buffer in self._kept:
            start = ctypes.addressof(buffer)
            if start <= address < start + len(buffer):
                return buffer.raw[address - start :].ljust(size, b"\0")
        raise OSError(14, "Bad address")

    def write(self, address: int, data: bytes) -> None:
        """Write bytes."""
        ctypes.memmove(address, data, len(data))

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()


class ContainedProgram:
    """A program in a container.

    Args:
        files: the container's files.
    """

    def __init__(self, files: ContainerFiles) -> None:
        self.calls = FileCalls(files)
        self.memory = FakeMemory()
        self.thread = os.getpid()
        processor = find_processor()
        assert processor is not None
        self._numbers = processor.numbers
        self.answered: Answer = Continue()

    def answer(self, name: str, *arguments: int | bytes) -> Answer:
        """Return the answer to a call; bytes are passed by their address."""
        numbers = [
            self.memory.add(argument + b"\0") if isinstance(argument, bytes) else argument & _MASK
            for argument in arguments
        ]
        numbers += [0] * (6 - len(numbers))
        self._numbers_of_last = numbers
        return self.calls.answer(SystemCall(name, tuple(numbers), self.thread, self.memory))

    def call(self, name: str, *arguments: int | bytes) -> int:
        """Make a call as the kernel would after the answer, and return its result."""
        answer = self.answered = self.answer(name, *arguments)
        if isinstance(answer, Failure):
            raise OSError(answer.number, os.strerror(answer.number))
        if isinstance(answer, Result):
            return answer.value
        if isinstance(answer, Descriptor):
            return answer.fd
        numbers: list[object] = [ctypes.c_long(number) for number in self._numbers_of_last]
        if isinstance(answer, Change):
            for place, value in answer.arguments.items():
                numbers[place] = value
        result = int(_libc.syscall(ctypes.c_long(self._numbers[name]), *numbers))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    @property
    def is_continued(self) -> bool:
        """True if the kernel was to perform the last call as it was."""
        return self.answered == Continue()

    def _buffer(self) -> int:
        return self.memory.add(bytes(_BUFFER_BYTES))

    def close(self) -> None:
        """End the program."""
        self.calls.close()
        self.memory.clear()

    # -- as in os

    def open(
        self,
        path: str | bytes | os.PathLike[str],
        flags: int,
        mode: int = 0o777,
        dir_fd: int = AT_FDCWD,
    ) -> int:
        """Open a file."""
        return self.call("openat", dir_fd, os.fsencode(path), flags, mode)

    def read(self, path: str | bytes | os.PathLike[str]) -> bytes:
        """Return the content of a file."""
        with os.fdopen(self.open(path, os.O_RDONLY), "rb") as file:
            return file.read()

    def write(
        self, path: str | bytes | os.PathLike[str], content: bytes, flags: int = os.O_TRUNC
    ) -> None:
        """Create a file, or replace its content."""
        with os.fdopen(self.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644), "wb") as file:
            file.write(content)

    def listdir(self, path: str | bytes | os.PathLike[str]) -> list[str]:
        """Return the names in a folder, sorted."""
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def stat(
        self,
        path: str | bytes | os.PathLike[str],
        dir_fd: int = AT_FDCWD,
        *,
        follow_symlinks: bool = True,
    ) -> Status:
        """Return the status of a file."""
        buffer = self._buffer()
        flags = 0 if follow_symlinks else 0x100
        # The fields of statx are the same for all processors.
        self.call("statx", dir_fd, os.fsencode(path), flags, 0xFFF, buffer)
        content = self.memory.read(buffer, 256)
        user, _, mode = struct.unpack_from("=IIH", content, 20)
        inode, size = struct.unpack_from("=QQ", content, 32)
        (modified,) = struct.unpack_from("=q", content, 112)
        return Status(mode, size, modified, user, inode)

    def lstat(self, path: str | bytes | os.PathLike[str]) -> Status:
        """Return the status of a file or link."""
        return self.stat(path, follow_symlinks=False)

    def exists(self, path: str | bytes | os.PathLike[str]) -> bool:
        """Return whether there is a file."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def readlink(self, path: str | bytes | os.PathLike[str], dir_fd: int = AT_FDCWD) -> bytes:
        """Return the text of a link."""
        buffer = self._buffer()
        length = self.call("readlinkat", dir_fd, os.fsencode(path), buffer, 4096)
        return self.memory.read(buffer, length)

    def getcwd(self) -> bytes:
        """Return the working directory."""
        buffer = self._buffer()
        length = self.call("getcwd", buffer, 4096)
        return self.memory.read(buffer, length - 1)

    def chdir(self, path: str | bytes | os.PathLike[str]) -> None:
        """Change the working directory of this process."""
        self.call("chdir", os.fsencode(path))

    def mkdir(
        self, path: str | bytes | os.PathLike[str], mode: int = 0o777, dir_fd: int = AT_FDCWD
    ) -> None:
        """Create a folder."""
        self.call("mkdirat", dir_fd, os.fsencode(path), mode)

    def mkfifo(self, path: str | bytes | os.PathLike[str]) -> None:
        """Create a pipe."""
        self.call("mknodat", AT_FDCWD, os.fsencode(path), 0o010644, 0)

    def rmdir(self, path: str | bytes | os.PathLike[str]) -> None:
        """Remove a folder."""
        self.call("unlinkat", AT_FDCWD, os.fsencode(path), 0x200)

    def unlink(self, path: str | bytes | os.PathLike[str]) -> None:
        """Remove a file."""
        self.call("unlinkat", AT_FDCWD, os.fsencode(path), 0)

    def symlink(self, text: str | bytes, path: str | bytes | os.PathLike[str]) -> None:
        """Create a link."""
        self.call("symlinkat", os.fsencode(text), AT_FDCWD, os.fsencode(path))

    def link(
        self, old: str | bytes | os.PathLike[str], new: str | bytes | os.PathLike[str]
    ) -> None:
        """Give a file another name."""
        self.call("linkat", AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), 0)

    def rename(
        self,
        old: str | bytes | os.PathLike[str],
        new: str | bytes | os.PathLike[str],
        flags: int = 0,
    ) -> None:
        """Rename a file or folder."""
        arguments: Sequence[int | bytes] = (
            AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags,
        )  # fmt: skip
        self.call("renameat2", *arguments)

    def chmod(self, path: str | bytes | os.PathLike[str], mode: int) -> None:
        """Change a mode."""
        self.call("fchmodat", AT_FDCWD, os.fsencode(path), mode)

    def chown(self, path: str | bytes | os.PathLike[str], user: int, group: int) -> None:
        """Change an owner."""
        self.call("fchownat", AT_FDCWD, os.fsencode(path), user, group, 0)

    def utime(self, path: str | bytes | os.PathLike[str], seconds: int) -> None:
        """Change the times of a file."""
        times = struct.pack("=qqqq", seconds, 0, seconds, 0)
        self.call("utimensat", AT_FDCWD, os.fsencode(path), times, 0)

    def truncate(self, path: str | bytes | os.PathLike[str], size: int) -> None:
        """Change the size of a file."""
        self.call("truncate", os.fsencode(path), size)

    def access(self, path: str | bytes | os.PathLike[str], mode: int) -> bool:
        """Return whether a file may be used."""
        try:
            self.call("faccessat", AT_FDCWD, os.fsencode(path), mode)
        except OSError:
            return False
        return True
