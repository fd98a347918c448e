"""Memory of a program, in a test."""

from __future__ import annotations

import errno
import os

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import SystemCall

BASE = 0x1000
_PAGE = 0x1000


class FakeMemory:
    """Bytes from the address `BASE` on, and zeros to the end of their last page."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)

    def read(self, address: int, size: int) -> bytes:
        start = address - BASE
        if start < 0 or start + size > (len(self.data) + _PAGE - 1) // _PAGE * _PAGE:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return bytes(self.data[start : start + size]).ljust(size, b"\0")

    def write(self, address: int, data: bytes) -> None:
        self.read(address, len(data))
        start = address - BASE
        self.data[start : start + len(data)] = data

    def add(self, data: bytes) -> int:
        """Append bytes; returns their address."""
        address = BASE + len(self.data)
        self.data += data
        return address


def make_call(name: str, memory: FakeMemory, *arguments: int) -> SystemCall:
    """Return a system call of this process."""
    padded = (*(argument & (1 << 64) - 1 for argument in arguments), *[0] * 6)[:6]
    return SystemCall(name, padded, os.getpid(), memory)
