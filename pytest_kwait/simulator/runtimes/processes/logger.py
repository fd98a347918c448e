"""The logger: a process that reads the output of programs in the order in which it was written.

A pipe of its own for each stream cannot say which of two writes was the first. Here each pipe holds
one write, and a program that writes on waits until the logger has read it. So of each stream at
most one write is unread, and the kernel reports the streams as they became readable.

The launcher passes on the pipes of each program with a connection to the server, whose pauses reach
the program: what the connection does not take stays in the pipes.

Source: conmon src/ctr_logging.c; man 2 pipe, `O_DIRECT`; man 7 epoll, `EPOLLET`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
from collections import deque
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.messages import receive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOG_DESCRIPTORS = 3
"""Descriptors that the logger needs of a program: both pipes, and its connection to the server."""

HAS_LOGGER = sys.platform == "linux"
"""False on systems that cannot tell the order; the server reads the pipes itself."""

_READ_BYTES = 65536
_ONE_PAGE = 1
_HEADER = struct.Struct("=BI")
_DONE = b"+"


def hold_one_write(pipe: int) -> None:
    """Let a pipe hold one write, up to a page; takes the end for writing.

    Where that is refused, the streams are in the order of their first unread writes.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
            fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_DIRECT)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _ONE_PAGE)


def _holds_one_write(pipe: int) -> bool:
    """Return whether a pipe is empty after one read; a program may have enlarged it."""
    return sys.platform != "linux" or fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) <= os.sysconf(
        "SC_PAGESIZE"
    )


def pack_output(stream: int, data: bytes) -> bytes:
    """Return the bytes that tell the server of output: 0 is stdout, 1 is stderr."""
    return _HEADER.pack(stream, len(data)) + data


class OutputReader:
    """Splits what the logger sends into the output of both streams."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield each stream's number with its next output; writes of one stream are joined."""
        self._data += data
        joined, last = bytearray(), -1
        while len(self._data) >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._data)
            end = _HEADER.size + length
            if len(self._data) < end:
                break
            if stream != last and joined:
                yield last, bytes(joined)
                joined.clear()
            last = stream
            joined += self._data[_HEADER.size : end]
            del self._data[:end]
        if joined:
            yield last, bytes(joined)


class _Output:
    """The output of one program.

    Args:
        pipes: stdout and stderr.
        connection: to the server.
    """

    def __init__(self, pipes: Sequence[int], connection: socket.socket) -> None:
        self.streams = {pipe: number for number, pipe in enumerate(pipes)}
        self.connection = connection
        self.unsent = b""
        self.waiting: deque[tuple[int, int]] = deque()
        """Pipes with their events, while the server takes nothing."""


class Logger:
    """Reads the output of all programs of a cluster.

    Args:
        control: the connection to the launcher.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, _Output] = {}

    def run(self) -> None:
        """Read until the launcher ends."""
        self._epoll.register(self._control, select.EPOLLIN)
        while True:
            for number, events in self._epoll.poll():
                output = self._by_descriptor.get(number)
                if number == self._control.fileno():
                    if not self._accept():
                        return
                elif output is None:
                    continue  # closed by an event before this one
                elif number == output.connection.fileno():
                    self._flush(output)
                elif output.unsent:
                    output.waiting.append((number, events))
                else:
                    self._read(output, number, events)

    def _accept(self) -> bool:
        """Take over the pipes of a program; returns False once the launcher has ended."""
        data, descriptors = receive(self._control, len(_DONE))
        if not data:
            return False
        *pipes, connection = descriptors
        output = _Output(pipes, socket.socket(fileno=connection))
        output.connection.setblocking(False)
        self._epoll.register(connection, select.EPOLLOUT | select.EPOLLET)
        for number in (*pipes, connection):
            self._by_descriptor[number] = output
        for pipe in pipes:
            os.set_blocking(pipe, False)
            self._epoll.register(pipe, select.EPOLLIN | select.EPOLLET)
        # The program starts after that: what it writes is seen from the first byte on.
        self._control.send(_DONE)
        return True

    def _read(self, output: _Output, pipe: int, events: int) -> None:
        """Send one write on, or all that is left of a pipe that is closed, or holds several."""
        is_drained = bool(events & select.EPOLLHUP) or not _holds_one_write(pipe)
        while pipe in output.streams:
            try:
                data = os.read(pipe, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._close_pipe(output, pipe)
                return
            output.unsent = pack_output(output.streams[pipe], data)
            self._flush(output)
            if not is_drained:
                return
            if output.unsent:
                output.waiting.append((pipe, events))
                return

    def _flush(self, output: _Output) -> None:
        """Send what is unsent; then read on where that was put off."""
        try:
            while output.unsent:
                sent = output.connection.send(output.unsent)
                output.unsent = output.unsent[sent:]
        except BlockingIOError:
            return
        except OSError:
            # The server reads no more: its programs see closed pipes.
            for pipe in tuple(output.streams):
                self._close_pipe(output, pipe)
            return
        while output.waiting and not output.unsent:
            self._read(output, *output.waiting.popleft())

    def _close_pipe(self, output: _Output, pipe: int) -> None:
        del output.streams[pipe], self._by_descriptor[pipe]
        os.close(pipe)
        if not output.streams:
            del self._by_descriptor[output.connection.fileno()]
            output.connection.close()


class LoggerProcess:
    """The launcher's connection to the logger.

    Args:
        connection: to the process.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def take(self, descriptors: Sequence[int]) -> None:
        """Have the logger read the output of a program that starts afterwards.

        Raises:
            OSError: the logger has ended.
        """
        socket.send_fds(self._connection, [_DONE], descriptors)
        if not self._connection.recv(len(_DONE)):
            raise BrokenPipeError("the logger has ended")

    def close(self) -> None:
        """End the process."""
        self._connection.close()
