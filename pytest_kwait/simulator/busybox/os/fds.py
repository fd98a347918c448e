"""Open files of a process, by file descriptor: files, pipes, devices, sinks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.files import (
    ENOSPC,
    Device,
    Directory,
    File,
    FileSystem,
    FileSystemError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.files import StorageQuota
    from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
    from pytest_kwait.simulator.busybox.os.streams import Pipe, Sink

_PIPE_CAPACITY = 1 << 16
_STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}


class BrokenPipeWriteError(Exception):
    """A write to a pipe without readers."""


class OpenFile:
    """An open file, shared by file descriptors of one or more processes."""

    __slots__ = ("refs",)

    def __init__(self) -> None:
        self.refs = 0

    def retain(self) -> OpenFile:
        """Add a reference."""
        self.refs += 1
        return self

    def release(self) -> None:
        """Drop a reference; the last one closes the file."""
        self.refs -= 1
        if not self.refs:
            self.on_close()

    def on_close(self) -> None:
        """Called when the last reference is dropped."""

    def write(self, data: bytes) -> str:
        """Write data; return an error text, or "".

        Raises:
            BrokenPipeWriteError: the pipe has no readers.
        """
        del data
        return "Bad file descriptor"

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether the writer must wait; `resume` is called once it may go on."""
        del resume
        return False

    def read(self, most: int, *, line: bool) -> bytes | None:
        """Read up to `most` bytes or one line: empty at the end, None if there is nothing yet."""
        del most, line
        return b""

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` once a read returns without waiting."""
        resume()


class SinkEnd(OpenFile):
    """Stdout or stderr of a container or session."""

    __slots__ = ("sink", "stream")

    def __init__(self, sink: Sink, stream: int) -> None:
        super().__init__()
        self.sink, self.stream = sink, stream

    def write(self, data: bytes) -> str:
        """Write to the sink."""
        self.sink.write(self.stream, data)
        return ""

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether the sink is full."""
        return self.sink.must_wait(resume)


class _PipeEndCounts:
    __slots__ = ("readers", "writers")

    def __init__(self) -> None:
        self.readers = self.writers = 0


class PipeEnd(OpenFile):
    """One end of a pipe; without `ends`, it has no counterpart in the container."""

    __slots__ = ("_ends", "_writes", "pipe")

    def __init__(
        self, pipe: Pipe, *, writes: bool = False, ends: _PipeEndCounts | None = None
    ) -> None:
        super().__init__()
        self.pipe = pipe
        self._writes = writes
        self._ends = ends

    def retain(self) -> OpenFile:
        """Add a reference."""
        if self._ends is not None:
            self._ends.writers += self._writes
            self._ends.readers += not self._writes
        return super().retain()

    def release(self) -> None:
        """Drop a reference; the last writer ends the pipe."""
        if self._ends is not None:
            self._ends.writers -= self._writes
            self._ends.readers -= not self._writes
            if self._writes and not self._ends.writers:
                self.pipe.close()
            elif not self._writes and not self._ends.readers:
                # Wakes blocked writers, which then fail.
                self.pipe.take()
        super().release()

    def write(self, data: bytes) -> str:
        """Write to the pipe."""
        if not self._writes:
            return "Bad file descriptor"
        if self._ends is not None and not self._ends.readers:
            raise BrokenPipeWriteError
        self.pipe.send(data)
        return ""

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether the pipe is full."""
        if len(self.pipe) < _PIPE_CAPACITY or (self._ends is not None and not self._ends.readers):
            return False
        self.pipe.when_drained(resume)
        return True

    def read(self, most: int, *, line: bool) -> bytes | None:
        """Read from the pipe."""
        return self.pipe.take(most, line=line) if self.pipe.ready else None

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the pipe has data or has ended."""
        self.pipe.when_ready(resume)


def make_pipe(pipe: Pipe) -> tuple[PipeEnd, PipeEnd]:
    """Return the read end and the write end of a pipe."""
    ends = _PipeEndCounts()
    return PipeEnd(pipe, ends=ends), PipeEnd(pipe, writes=True, ends=ends)


class FileEnd(OpenFile):
    """An open file with its position.

    Args:
        account: the memory account that its growth is charged to.
        now: returns seconds since the epoch.
        mode: `r`, `w`, `a`, or `+` for both ways.
        quota: of its volume, if any.
    """

    __slots__ = ("_account", "_now", "_quota", "file", "mode", "position")

    def __init__(
        self, file: File, account: MemoryAccount | None, now: Callable[[], float], mode: str,
        quota: StorageQuota | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.file, self._account, self._now, self.mode = file, account, now, mode
        self._quota = quota
        self.position = 0

    def write(self, data: bytes) -> str:
        """Write at the position, or at the end in mode `a`."""
        if self.mode == "r":
            return "Bad file descriptor"
        if self.mode == "a":
            self.position = len(self.file.data)
        grown = self.position + len(data) - len(self.file.data)
        account = self._account
        if grown > 0 and account is not None and not account.reserve(grown, self._quota):
            return ENOSPC
        if self.position > len(self.file.data):
            self.file.data += bytes(self.position - len(self.file.data))
        self.file.write_at(self.position, data)
        self.position += len(data)
        self.file.mtime = self._now()
        return ""

    def read(self, most: int, *, line: bool) -> bytes | None:
        """Read from the position."""
        end = self.position + most
        if line:
            newline = self.file.data.find(b"\n", self.position, end)
            end = newline + 1 if newline >= 0 else end
        data = bytes(self.file.data[self.position : end])
        self.position += len(data)
        return data


class DeviceEnd(OpenFile):
    """An open `/dev/null`, `zero`, `full` or `urandom`."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def write(self, data: bytes) -> str:
        """Discard data; `full` has no space left."""
        return ENOSPC if self.kind == "full" else ""

    def read(self, most: int, *, line: bool) -> bytes | None:
        """Return zeros, random bytes, or the end."""
        if self.kind in ("zero", "full"):
            return bytes(most)
        return os.urandom(most) if self.kind == "random" else b""


class CaptureEnd(OpenFile):
    """Collects the output of a command substitution.

    Args:
        account: the memory account that the output is charged to.
    """

    __slots__ = ("_account", "data")

    def __init__(self, account: MemoryAccount) -> None:
        super().__init__()
        self.data = bytearray()
        self._account = account

    def write(self, data: bytes) -> str:
        """Append data."""
        self._account.take(len(data))
        self.data += data
        return ""

    def on_close(self) -> None:
        """Release the memory."""
        self._account.give(len(self.data))


def open_path(
    files: FileSystem, path: str, mode: str, account: MemoryAccount, now: Callable[[], float],
    fds: dict[int, OpenFile], *, exclusive: bool = False,
) -> OpenFile:  # fmt: skip
    """Open a path.

    Args:
        path: an absolute path.
        mode: `r`, `w`, `a`, `+`.
        account: the memory account that written data is charged to.
        now: returns seconds since the epoch.
        fds: the open files of the process, for `/dev/stdout` and similar.
        exclusive: whether an existing file is an error.

    Raises:
        FileSystemError: it cannot be opened.
    """
    if exclusive and isinstance(files.find(path), File):
        raise FileSystemError("File exists")
    node = files.open(path, create=mode != "r", truncate=mode == "w")
    if isinstance(node, Device):
        if node.kind.startswith("fd"):
            open_file = fds.get(int(node.kind[2:]))
            if open_file is None:
                raise FileSystemError("No such file or directory")
            return open_file
        return DeviceEnd(node.kind)
    if isinstance(node, Directory) or not isinstance(node, File):
        raise FileSystemError("Is a directory")
    return FileEnd(node, account, now, mode, files.find_quota(path))


def copy_fds(fds: dict[int, OpenFile]) -> dict[int, OpenFile]:
    """Copy the open files for another process."""
    return {number: open_file.retain() for number, open_file in fds.items()}


def release_fds(fds: dict[int, OpenFile]) -> None:
    """Close all open files."""
    for open_file in tuple(fds.values()):
        open_file.release()
    fds.clear()
