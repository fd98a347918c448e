"""A system call that a program makes, and the answers to it."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Source: include/uapi/linux/limits.h, `PATH_MAX`.
PATH_MAX = 4096
_PAGE = 4096
_POINTER = struct.Struct("=Q")
_MAX_POINTERS = 1 << 17


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
        try:
            data = os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            data = b""
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


def read_pointers(memory: Memory, address: int) -> tuple[int, ...]:
    """Return an array of pointers that ends with a null pointer, without it; none at address 0.

    Raises:
        OSError: EFAULT for memory that cannot be read, E2BIG for too many.
    """
    pointers: list[int] = []
    while address and len(pointers) < _MAX_POINTERS:
        # The array may end just before memory that cannot be read.
        size = _PAGE - address % _PAGE
        data = memory.read(address, size - size % _POINTER.size or _POINTER.size)
        for (pointer,) in _POINTER.iter_unpack(data):
            if not pointer:
                return tuple(pointers)
            pointers.append(pointer)
        address += len(data)
    if address:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return ()


def _align(size: int) -> int:
    return size + 15 & ~15


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
        followed_by: names and arguments of system calls that the thread makes after it. They must
            be none that are caught.
    """

    on_return: Callable[[int], None] | None = None
    followed_by: tuple[tuple[str, tuple[int, ...]], ...] = ()


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


class Pointers(NamedTuple):
    """An array of pointers, which ends with a null pointer; or a structure of 64-bit words.

    Args:
        items: addresses in the program or other numbers, or bytes to be written there.
    """

    items: tuple[int | bytes, ...]


class OpenedFile(NamedTuple):
    """The path of a descriptor that the program gets: the way to the file needs no rights.

    Programs that it executes do not inherit the descriptor.

    Args:
        fd: the interceptor's descriptor, which is closed after it.
    """

    fd: int


class Change(NamedTuple):
    """The kernel performs the call with other arguments.

    Args:
        arguments: numbers, or what the argument points to, by the argument's place.
        in_place: what is written to the program's memory instead, by its address, if another
            process traces the thread; None to refuse the call then.
        preceded_by: name and arguments of a system call that the thread makes before it, whatever
            its result: one that is not caught. Bytes among them, at most one, are not longer than
            `arguments`. None for none.
        on_return: called with the result before the program sees it: a number, or a negative errno.
            None to do nothing.
    """

    arguments: Mapping[int, int | bytes | Pointers | OpenedFile]
    in_place: Mapping[int, bytes] | None = None
    preceded_by: tuple[str, tuple[int | bytes, ...]] | None = None
    on_return: Callable[[int], None] | None = None

    @property
    def size(self) -> int:
        """The bytes of memory that `write` uses."""
        size = 0
        for value in self.arguments.values():
            if isinstance(value, Pointers):
                size += _align((len(value.items) + 1) * _POINTER.size)
                size += sum(_align(len(item)) for item in value.items if isinstance(item, bytes))
            elif isinstance(value, bytes):
                size += _align(len(value))
        return size

    def lay_out(self, address: int) -> tuple[dict[int, int], dict[int, bytes]]:
        """Return the arguments by their places, and what is written for them by its address.

        Args:
            address: the first byte of the memory, a multiple of 16.
        """
        values, contents = {}, {}

        def place(content: bytes) -> int:
            nonlocal address
            at = address
            contents[at] = content
            address += _align(len(content))
            return at

        for number, value in self.arguments.items():
            if isinstance(value, Pointers):
                items = [item if isinstance(item, int) else place(item) for item in value.items]
                values[number] = place(b"".join(map(_POINTER.pack, (*items, 0))))
            elif isinstance(value, OpenedFile):
                raise TypeError("a file without its descriptor in the program")
            else:
                values[number] = value if isinstance(value, int) else place(value)
        return values, contents


Answer = Continue | Result | Failure | Descriptor | Change


def as_signed(argument: int) -> int:
    """Return an argument that is an `int`: descriptors, flags and modes."""
    return (argument & 0xFFFFFFFF) - ((argument & 0x80000000) << 1)
