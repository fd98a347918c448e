"""A system call that a program makes, and the answers to it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Source: include/uapi/linux/limits.h, `PATH_MAX`.
PATH_MAX = 4096
_PAGE = 4096


class Memory(Protocol):
    """The memory of a program."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address.

        Raises:
            OSError: EFAULT, if not all of them can be read.
        """

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address, even where the program may not.

        Raises:
            OSError: EFAULT, if there is no such memory.
        """


class ProcessMemory:
    """The memory of a thread's process.

    Raises:
        OSError: the thread has ended, or may not be traced.
    """

    def __init__(self, thread: int) -> None:
        self._fd = os.open(f"/proc/{thread}/mem", os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address."""
        data = _read(self._fd, address, size)
        if len(data) < size:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return data

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address."""
        try:
            written = os.pwrite(self._fd, data, address)
        except (OSError, OverflowError):
            written = -1
        if written < len(data):
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))


def _read(fd: int, address: int, size: int) -> bytes:
    try:
        return os.pread(fd, size, address)
    except (OSError, OverflowError):
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from None


def read_string(memory: Memory, address: int) -> bytes:
    """Return a string that ends with a zero, without it.

    Raises:
        OSError: EFAULT for memory that cannot be read, ENAMETOOLONG for more than `PATH_MAX` bytes.
    """
    data = b""
    while len(data) < PATH_MAX:
        # A string may end just before memory that cannot be read.
        size = min(_PAGE - (address + len(data)) % _PAGE, PATH_MAX - len(data))
        data += memory.read(address + len(data), size)
        end = data.find(b"\0")
        if end >= 0:
            return data[:end]
    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


class SystemCall(NamedTuple):
    """A system call that waits for its answer.

    Args:
        name: its name, without the processor's number.
        arguments: six, as 64 bits without sign.
        thread: the number of the thread that makes it.
        memory: the program's.
    """

    name: str
    arguments: tuple[int, ...]
    thread: int
    memory: Memory


class Continue(NamedTuple):
    """The kernel performs the call as it is.

    Args:
        on_return: called with the result before the program sees it: a number, or a negative errno.
            It may write to the program's memory. None to do nothing.
    """

    on_return: Callable[[int], None] | None = None


class Result(NamedTuple):
    """The call has been performed; this is its result."""

    value: int = 0


class Failure(NamedTuple):
    """The call fails with an errno."""

    number: int


class Descriptor(NamedTuple):
    """The result is a new descriptor of the program, for a file that the interceptor has opened.

    Args:
        fd: the interceptor's descriptor, which is closed after it.
        is_kept: whether programs that it executes inherit it (no `O_CLOEXEC`).
    """

    fd: int
    is_kept: bool


class Change(NamedTuple):
    """The kernel performs the call with other arguments.

    Args:
        arguments: numbers, or bytes that the argument points to, by the argument's place.
    """

    arguments: Mapping[int, int | bytes]


Answer = Continue | Result | Failure | Descriptor | Change


def as_signed(argument: int) -> int:
    """Return an argument that is an `int`: descriptors, flags and modes."""
    return (argument & 0xFFFFFFFF) - ((argument & 0x80000000) << 1)
