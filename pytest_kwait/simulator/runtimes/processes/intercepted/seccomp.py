"""Filters of system calls whose notifications another process takes.

Source: man 2 seccomp, seccomp_unotify; include/uapi/linux/{seccomp,filter,bpf_common}.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.system_calls import forbid_new_privileges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import Processor

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER, _RETURN = 0x20, 0x15, 0x25, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO, _USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
_X32_BIT = 0x40000000
_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE_RECV = 1 << 3, 1 << 5
_SYS_SECCOMP = {0xC000003E: 317, 0xC00000B7: 277}

_NOTIF_RECV, _NOTIF_SEND = 0xC0502100, 0xC0182101
_NOTIF_ID_VALID, _NOTIF_ADDFD = 0x40082102, 0x40182103
_NOTIF_SET_FLAGS, _SYNC_WAKE_UP = 0x40082104, 1
_ID = struct.Struct("=Q")
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ADDED_FD = struct.Struct("=QIIII")
_CONTINUE = 1
_ADDFD_SEND = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Instruction(ctypes.Structure):
    """A `struct sock_filter`."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    """A `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


class Condition(NamedTuple):
    """A condition on an argument of a system call.

    Args:
        argument: its place.
        values: the lower 32 bits must be one of these; None for any argument that is not zero.
        is_excluded: whether they must be none of them.
    """

    argument: int
    values: tuple[int, ...] | None = None
    is_excluded: bool = False


Conditions = tuple[Condition, ...]


def build_filter(
    processor: Processor,
    caught: Mapping[str, Conditions],
    refused: Iterable[str],
) -> list[tuple[int, int, int, int]]:
    """Return the instructions of a filter; each is code, two jumps and a value.

    System calls of other architectures, as those of 32-bit programs, are refused with ENOSYS.

    Args:
        caught: names of system calls that are notified, with conditions that must all hold.
        refused: names of system calls that are refused with ENOSYS.
    """
    numbers = processor.numbers
    refuse = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    program: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, processor.architecture),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_GREATER, 0, 1, _X32_BIT - 1),
        refuse,
    ]
    for name in refused:
        if name in numbers:
            program += [(_JUMP_IF_EQUAL, 0, 1, numbers[name]), refuse]
    for name, conditions in caught.items():
        if name not in numbers:
            continue
        block = _build_conditions(conditions)
        program += [(_JUMP_IF_EQUAL, 0, len(block), numbers[name]), *block]
    program.append((_RETURN, 0, 0, _ALLOW))
    return program


def _build_conditions(conditions: Conditions) -> list[tuple[int, int, int, int]]:
    """Return instructions that notify a call if conditions hold, and else allow it."""
    block = [(_RETURN, 0, 0, _USER_NOTIF)]
    allow = (_RETURN, 0, 0, _ALLOW)
    for condition in reversed(conditions):
        low = _ARGUMENTS + 8 * condition.argument
        if condition.values is None:
            block = [
                (_LOAD, 0, 0, low),
                (_JUMP_IF_EQUAL, 0, 3, 0),
                (_LOAD, 0, 0, low + 4),
                (_JUMP_IF_EQUAL, 0, 1, 0),
                allow,
                *block,
            ]
        else:
            values = condition.values
            # Behind the tests is what follows where none of the values is found.
            found = [allow, *block]
            skipped = 1
            if condition.is_excluded:
                found, skipped = [*block, allow], len(block)
            tests = [
                (_JUMP_IF_EQUAL, len(values) - 1 - place + skipped, 0, value)
                for place, value in enumerate(values)
            ]
            block = [(_LOAD, 0, 0, low), *tests, *found]
    return block


def install_filter(processor: Processor, program: Sequence[tuple[int, int, int, int]]) -> int:
    """Put this process and those that it starts under a filter; returns the listener's descriptor.

    Raises:
        OSError: the kernel refuses it: EBUSY if a filter above has a listener, EINVAL before
            Linux 5.9, EPERM or ENOSYS by a profile of the machine.
    """
    forbid_new_privileges()
    instructions = (_Instruction * len(program))(*(_Instruction(*line) for line in program))
    filter_ = _Program(len(program), instructions)
    number = _SYS_SECCOMP[processor.architecture]
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE_RECV, _NEW_LISTENER):
        result = _libc.syscall(
            ctypes.c_long(number),
            ctypes.c_long(_SET_MODE_FILTER),
            ctypes.c_long(flags),
            ctypes.byref(filter_),
        )
        if result >= 0:
            return int(result)
        if ctypes.get_errno() != errno.EINVAL:  # the second flag is known from Linux 5.19
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def prepare_listener(listener: int) -> None:
    """Let a caller and what answers it take turns on one processor: from Linux 6.6."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, _NOTIF_SET_FLAGS, _SYNC_WAKE_UP)


class Notification(NamedTuple):
    """A system call that waits for its answer.

    Args:
        listener: the descriptor that has received it.
        id: of the notification.
        thread: the number of the thread.
        number: of the system call.
        instruction: the address after the one that makes the call.
        arguments: six, as 64 bits without sign.
    """

    listener: int
    id: int
    thread: int
    number: int
    instruction: int
    arguments: tuple[int, ...]

    def is_waiting(self) -> bool:
        """Return whether it still waits: else its thread's number may be another's by now."""
        try:
            fcntl.ioctl(self.listener, _NOTIF_ID_VALID, _ID.pack(self.id))
        except OSError:
            return False
        return True

    def let_continue(self) -> None:
        """Have the kernel perform the call; no-op if it waits no more, as all answers are."""
        self._send(0, 0, _CONTINUE)

    def answer(self, value: int) -> None:
        """Answer by a result, or a negative errno."""
        self._send(max(value, 0), min(value, 0), 0)

    def _send(self, value: int, error: int, flags: int) -> None:
        data = _RESPONSE.pack(self.id, value, error, flags)
        try:
            fcntl.ioctl(self.listener, _NOTIF_SEND, data)
        except OSError as failure:
            if failure.errno != errno.ENOENT:  # as `_ignored_end`, which takes longer
                raise

    def add_descriptor(self, fd: int) -> int:
        """Return a new descriptor of the process for an open file, before the answer.

        Programs that the process executes do not inherit it.

        Raises:
            OSError: EMFILE, if the process can have no more; ENOENT, if the call waits no more.
        """
        return self._add_descriptor(fd, os.O_CLOEXEC, 0)

    def _add_descriptor(self, fd: int, flags: int, how: int) -> int:
        # The result of the call is returned only for what it may change.
        data = bytearray(_ADDED_FD.pack(self.id, how, fd, 0, flags))
        return int(fcntl.ioctl(self.listener, _NOTIF_ADDFD, data))

    def answer_descriptor(self, fd: int, *, is_kept: bool) -> None:
        """Answer by a new descriptor for an open file.

        Args:
            is_kept: whether programs that the process executes inherit it.

        Raises:
            OSError: EMFILE, if the process can have no more.
        """
        flags = 0 if is_kept else os.O_CLOEXEC
        with _ignored_end():
            try:
                self._add_descriptor(fd, flags, _ADDFD_SEND)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # Before Linux 5.14 an answer follows.
                self.answer(self._add_descriptor(fd, flags, 0))


def receive_notification(listener: int) -> Notification | None:
    """Return the next notification; waits for it. None if its thread has been interrupted."""
    space = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _NOTIF_RECV, space)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    number, thread, _, call, _, instruction, *arguments = _NOTIFICATION.unpack(space)
    return Notification(listener, number, thread, call, instruction, tuple(arguments))


@contextlib.contextmanager
def _ignored_end() -> Iterator[None]:
    """Ignore that a call waits no more: a signal has interrupted it, or its thread has ended."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
