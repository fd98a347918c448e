"""Streams of processes: output sinks, sessions, and the line discipline of terminals.

A session connects a process to a client that sends input and takes output. A terminal
echoes, edits lines, and turns control keys into signals.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = [
    "Input",
    "OutputBuffer",
    "Pipe",
    "Session",
    "Sink",
    "Terminal",
]

# Bytes that wait for whoever reads a process's output before the process is held up.
_MAX_PENDING = 1 << 20


class Pipe:
    """Bytes on their way to a process: sent, and not yet read."""

    __slots__ = ("_data", "_readers", "_waiting", "closed")

    def __init__(self) -> None:
        self._data = bytearray()
        self._readers: list[Callable[[], None]] = []
        self._waiting: list[Callable[[], None]] = []
        self.closed = False
        """Whether nothing more will be sent."""

    def __len__(self) -> int:
        return len(self._data)

    @property
    def ready(self) -> bool:
        """Whether a reader need not wait: there is something, or there will never be."""
        return bool(self._data) or self.closed

    def send(self, data: bytes) -> None:
        """Add bytes to what is to be read; after the end they are dropped."""
        if not self.closed:
            self._data += data
            self._wake()

    def close(self) -> None:
        """Say that this was all."""
        self.closed = True
        self._wake()
        self.notify_drained()

    def take(self, most: int = 1 << 20, *, line: bool = False) -> bytes:
        """What is there, at most so many bytes or one line of it; nothing at the end."""
        end = self._data.find(b"\n") + 1 if line else 0
        size = min(most, end or len(self._data))
        data = bytes(self._data[:size])
        del self._data[:size]
        self.notify_drained()
        return data

    def put_back(self, data: bytes) -> None:
        """Return what was taken and is for the next reader."""
        self._data[:0] = data

    def when_ready(self, reader: Callable[[], None]) -> None:
        """Call `reader` once, as soon as a read need not wait."""
        self._readers.append(reader)
        if self.ready:
            self._wake()

    def when_drained(self, writer: Callable[[], None]) -> None:
        """Call `writer` once, as soon as something was taken."""
        self._waiting.append(writer)

    def notify_drained(self) -> None:
        """Let those go on who wait until there is room."""
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            reader()


class Input(Protocol):
    """The input of a process, as its client sends it."""

    def send(self, data: bytes) -> None:
        """Send data."""
        ...

    def close(self) -> None:
        """End the input."""
        ...

    def __len__(self) -> int:
        """Return the number of bytes that were sent and not yet read."""
        ...


class Sink(Protocol):
    """Where a process's output goes."""

    def write(self, stream: int, data: bytes) -> None:
        """Take what was written to stdout (1) or stderr (2)."""
        ...

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether no more is taken for now; `resume` is called once there is room."""
        ...

    def end(self, code: int) -> None:
        """Take note that the process has ended."""
        ...


class OutputBuffer:
    """A sink whose output is taken by a task, piece by piece."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._resume: list[Callable[[], None]] = []
        self.code: int | None = None
        """How the process ended; None as long as it has not."""
        self.on_output: Callable[[], None] | None = None
        """Called whenever there is a piece to take, and at the end."""

    def write(self, stream: int, data: bytes) -> None:
        """Keep a piece until it is taken."""
        if data and self.code is None:
            self._pieces.append((stream, data))
            self._size += len(data)
            self._notify()

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether too much waits to be taken."""
        if self._size < _MAX_PENDING:
            return False
        self._resume.append(resume)
        return True

    def end(self, code: int) -> None:
        """No more comes."""
        if self.code is None:
            self.code = code
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        if self.on_output is not None:
            self.on_output()

    def drain(self) -> list[tuple[int, bytes]]:
        """All the pieces that wait to be taken, with their streams."""
        pieces = list(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._resume_writers()
        return pieces

    def _resume_writers(self) -> None:
        waiting, self._resume = self._resume, []
        for resume in waiting:
            resume()

    async def take(self) -> tuple[int, bytes] | None:
        """The next piece and its stream; None at the end."""
        while not self._pieces:
            if self.code is not None:
                return None
            self._changed.clear()
            await self._changed.wait()
        stream, data = self._pieces.popleft()
        self._size -= len(data)
        if self._size < _MAX_PENDING:
            self._resume_writers()
        return stream, data


@dataclass(slots=True)
class Session:
    """A process that somebody follows.

    Args:
        stdin: where to send its input; None where it takes none.
        output: its output and how it ended.
        stop: ends it, or lets go of it.
    """

    stdin: Input | None
    output: OutputBuffer
    stop: Callable[[], None]


_INTERRUPT, _END_OF_INPUT, _ERASE = 3, 4, (8, 127)
_NEWLINES = (10, 13)


class Terminal:
    """The line discipline of a terminal; also the sink of its process.

    Args:
        stdin: where finished lines go; None where nobody reads them.
        output: what the person sees.
    """

    def __init__(self, stdin: Pipe | None, output: OutputBuffer) -> None:
        self._stdin = stdin
        self._output = output
        self._line = bytearray()
        self.interrupted: Callable[[], None] | None = None
        """Called for Ctrl-C."""

    # -- what the person does

    def send(self, data: bytes) -> None:
        """Take what was typed."""
        shown, stopped = bytearray(), False
        for key in data:
            if key in _NEWLINES:
                shown += b"\r\n"
                self._flush(b"\n")
            elif key == _END_OF_INPUT:
                if self._line:
                    self._flush(b"")
                elif self._stdin is not None:
                    self._stdin.close()
            elif key == _INTERRUPT:
                shown += b"^C\r\n"
                self._line.clear()
                stopped = True
            elif key in _ERASE:
                if self._line:
                    del self._line[-1]
                    shown += b"\b \b"
            else:
                self._line.append(key)
                shown.append(key)
        self._output.write(1, bytes(shown))
        if stopped and self.interrupted is not None:
            self.interrupted()

    def __len__(self) -> int:
        """How much of what was typed has not been read."""
        return len(self._line) + (len(self._stdin) if self._stdin is not None else 0)

    def close(self) -> None:
        """The person has gone."""
        if self._stdin is not None:
            self._flush(b"")
            self._stdin.close()

    def _flush(self, end: bytes) -> None:
        if self._stdin is not None:
            self._stdin.send(bytes(self._line) + end)
        self._line.clear()

    # -- what the process does

    def write(self, stream: int, data: bytes) -> None:
        """Show what the process writes; there is one stream for all of it."""
        del stream
        self._output.write(1, data.replace(b"\n", b"\r\n"))

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether the person has too much to read."""
        return self._output.hold(resume)

    def end(self, code: int) -> None:
        """The process has ended."""
        self._output.end(code)
