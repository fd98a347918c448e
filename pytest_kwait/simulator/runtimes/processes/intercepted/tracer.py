"""Threads whose system calls are changed, or seen when they return, by ptrace.

A thread that waits for the answer of its notification is seized and interrupted; then the answer
is sent. A call that is to be made with other arguments is answered by ERESTARTNOINTR: the thread
stops before it makes the call again, maps memory for them if it has none, and gets other
registers. A call whose result matters stops after it. One that blocks is made again under
PTRACE_SYSCALL, and stops when it returns.

All of it is done by one thread, which is a parent of the threads, or their ancestor.

Source: man 2 ptrace; kernel/signal.c, `get_signal`; arch/x86/kernel/signal.c,
`arch_do_signal_or_restart`; arch/arm64/kernel/signal.c, `do_signal`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.users import as_user_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import Processor

_DETACH, _SYSCALL = 17, 24
_GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
_NT_PRSTATUS = 1
_O_TRACESYSGOOD = 1
WALL = 0x40000000
"""Wait for threads as well as for children."""
RESTART = -513
"""ERESTARTNOINTR, which the kernel never shows to programs."""
# ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
_RESTARTS = (-512, -513, -514, -516)
# Source: include/uapi/asm-generic/mman-common.h.
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x3, 0x4022

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long


class _Vector(ctypes.Structure):
    """A `struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _ptrace(request: int, thread: int, address: int = 0, data: object = 0) -> None:
    if isinstance(data, int):
        data = ctypes.c_void_p(data)
    result = _libc.ptrace(
        ctypes.c_long(request), ctypes.c_long(thread), ctypes.c_void_p(address), data
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Registers:
    """The registers of a thread that is stopped.

    Args:
        processor: the kind of processor.
        thread: the thread's number.
    """

    def __init__(self, processor: Processor, thread: int) -> None:
        self._processor, self._thread = processor, thread
        self._values = (ctypes.c_uint64 * processor.register_count)()
        self._vector = _Vector(ctypes.addressof(self._values), ctypes.sizeof(self._values))
        _ptrace(_GETREGSET, thread, _NT_PRSTATUS, ctypes.byref(self._vector))

    @property
    def result(self) -> int:
        """The result of the last system call: a number, or a negative errno."""
        return ctypes.c_int64(self._values[self._processor.result]).value

    def is_restarting(self, instruction: int) -> bool:
        """Return whether the system call is to be made again.

        Args:
            instruction: the address after the one that makes it.
        """
        if self._processor.is_result_kept:
            return self.result in _RESTARTS
        return self._values[self._processor.program_counter] != instruction

    def make_again(self, number: int, instruction: int) -> None:
        """Have the thread make a system call again that an interruption has ended."""
        processor = self._processor
        if processor.is_result_kept:
            self._values[processor.result] = number
        self._values[processor.program_counter] = instruction - processor.call_bytes
        self._store()

    def map_memory(self, size: int, instruction: int) -> int:
        """Have the thread map memory of its process, before a call that is to be made again.

        `make_again` follows, even after an error.

        Args:
            size: bytes, a multiple of the length of a page.
            instruction: the address after the one that makes system calls.

        Returns:
            The address of the memory.

        Raises:
            Interrupted: the thread has stopped for another reason, or has ended; it is as before.
            OSError: the kernel has refused it.
        """
        processor = self._processor
        saved = type(self._values)(*self._values)
        arguments = (0, size, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
        for place, value in enumerate(arguments):
            self._values[processor.arguments[place]] = value
        self._values[processor.call] = processor.numbers["mmap"]
        self._values[processor.program_counter] = instruction - processor.call_bytes
        self._store()
        for _ in range(2):  # it begins, it returns
            status = wait_for_stop(self._thread) if follow_call(self._thread) else None
            if status is None or not is_system_call_stop(status):
                self._copy(saved)
                if status is not None and os.WIFSTOPPED(status):
                    self._store()
                raise Interrupted(status)
        _ptrace(_GETREGSET, self._thread, _NT_PRSTATUS, ctypes.byref(self._vector))
        result = self.result
        self._copy(saved)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def _copy(self, values: ctypes.Array[ctypes.c_uint64]) -> None:
        ctypes.memmove(self._values, values, ctypes.sizeof(values))

    def make_call(self, number: int, instruction: int, arguments: Sequence[int]) -> None:
        """Have the thread make one more system call; signals come after it.

        Args:
            number: of the call, which must not block.
            instruction: the address after an instruction that makes calls.
            arguments: of the call.

        Raises:
            OSError: it has ended.
        """
        before = list(self._values)
        processor = self._processor
        self._values[processor.call] = number
        self._values[processor.program_counter] = instruction - processor.call_bytes
        self.set_arguments(dict(enumerate(arguments)))
        self._store()
        signals = []
        for _ in ("begins", "returns"):
            while True:
                _ptrace(_SYSCALL, self._thread)
                status = _wait_for_status(self._thread)
                if is_system_call_stop(status):
                    break
                if get_signal(status):
                    signals.append(get_signal(status))
        self._values[:] = before
        self._store()
        for signal_number in signals:
            os.kill(self._thread, signal_number)

    def set_arguments(self, values: Mapping[int, int]) -> None:
        """Set arguments of the system call by their places; `make_again` follows."""
        for place, value in values.items():
            self._values[self._processor.arguments[place]] = value

    def fail(self, number: int, instruction: int) -> None:
        """Have the system call that was to be made again return an errno.

        Args:
            instruction: the address after the one that makes it.
        """
        self._values[self._processor.result] = -number & 0xFFFFFFFFFFFFFFFF
        self._values[self._processor.program_counter] = instruction
        self._store()

    def _store(self) -> None:
        _ptrace(_SETREGSET, self._thread, _NT_PRSTATUS, ctypes.byref(self._vector))


class Interrupted(Exception):
    """A thread has not done what it was to do.

    Args:
        status: how it has stopped or ended, as `os.waitpid` returns it; None if it is not known.
    """

    def __init__(self, status: int | None) -> None:
        super().__init__()
        self.status = status


def seize(thread: int) -> bool:
    """Trace a thread that is to stop soon; returns False if it cannot be traced or is gone."""
    try:
        with as_user_of(thread):
            _ptrace(_SEIZE, thread, 0, _O_TRACESYSGOOD)
        _ptrace(_INTERRUPT, thread)
    except OSError:
        return False
    return True


def wait_for_stop(thread: int) -> int | None:
    """Wait until a traced thread stops or ends.

    Returns:
        Its status, as `os.waitpid` returns it; None if it is gone.
    """
    try:
        return os.waitpid(thread, WALL)[1]
    except ChildProcessError:
        return None


def _wait_for_status(thread: int) -> int:
    """Return the status of a traced thread once it stops.

    Raises:
        OSError: it has ended, and its status is still to be read.
    """
    flags = os.WSTOPPED | os.WEXITED | os.WNOWAIT | WALL
    report = os.waitid(os.P_PID, thread, flags)
    if report is None or report.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    return os.waitpid(thread, WALL)[1]


def detach(thread: int, number: int = 0) -> None:
    """Let a stopped thread go on, traced no more.

    Args:
        number: the signal that it gets; 0 for none.
    """
    with contextlib.suppress(OSError):
        _ptrace(_DETACH, thread, 0, number)


def follow_call(thread: int) -> bool:
    """Let a stopped thread go on until its system call begins or returns.

    Returns:
        False if it has ended.
    """
    try:
        _ptrace(_SYSCALL, thread)
    except OSError:
        return False
    return True


def get_signal(status: int) -> int:
    """Return the signal that a stopped thread is about to get; 0 for a stop of another kind."""
    return 0 if status >> 16 else os.WSTOPSIG(status)


def is_system_call_stop(status: int) -> bool:
    """Return whether a thread has stopped where a system call begins or returns."""
    return os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP | 0x80
