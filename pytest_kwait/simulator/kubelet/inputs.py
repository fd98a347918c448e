"""How programs read: everything, line by line, or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.processes import Effect, Pipe, Read, Write

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["copy", "read_all", "read_line"]


def copy(source: Pipe) -> Generator[Effect, None, None]:
    """Write out all that comes until the end."""
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return
        yield Write(1, read.data)


def read_all(source: bytes | Pipe, most: int) -> Generator[Effect, None, bytes]:
    """Everything that comes until the end, or until it is more than `most` bytes."""
    if not isinstance(source, Pipe):
        return source
    data = bytearray()
    while len(data) <= most:
        read = Read(source)
        yield read
        if not read.data:
            break
        data += read.data
    return bytes(data)


def read_line(source: Pipe) -> Generator[Effect, None, bytes]:
    """The next line with its end; what comes last may have none, and nothing is the end."""
    line = b""
    while b"\n" not in line:
        read = Read(source)
        yield read
        if not read.data:
            return line
        line += read.data
    line, newline, rest = line.partition(b"\n")
    source.put_back(rest)
    return line + newline
