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


# Bytes of unread output before a process is blocked.
_MAX_PENDING = 1 << 20
_INTERRUPT, _END_OF_INPUT, _ERASE = 3, 4, (8, 127)
_NEWLINES = (10, 13)


class Pipe:
    """A buffer of bytes that were sent and not yet read."""

    __slots__ = ("_data", "_readers", "_waiting", "closed")

    def __init__(self) -> None:
        self._data = bytearray()
        self._readers: list[Callable[[], None]] = []
        self._waiting: list[Callable[[], None]] = []
        self.closed = False
        """True once no more data will be sent."""

    def __len__(self) -> int:
        return len(self._data)

    @property
    def ready(self) -> bool:
        """Return whether a read returns without waiting."""
        return bool(self._data) or self.closed

    def send(self, data: bytes) -> None:
        """Append data; ignored after the end."""
        if not self.closed:
            self._data += data
            self._wake()

    def close(self) -> None:
        """End the data."""
        self.closed = True
        self._wake()
        self.notify_drained()

    def take(self, most: int = 1 << 20, *, line: bool = False) -> bytes:
        """Return available data: at most `most` bytes, or one line."""
        end = self._data.find(b"\n") + 1 if line else 0
        size = min(most, end or len(self._data))
        data = bytes(self._data[:size])
        del self._data[:size]
        self.notify_drained()
        return data

    def when_ready(self, reader: Callable[[], None]) -> None:
        """Call `reader` once, when a read returns without waiting."""
        self._readers.append(reader)
        if self.ready:
            self._wake()

    def when_drained(self, writer: Callable[[], None]) -> None:
        """Call `writer` once, after the next read."""
        self._waiting.append(writer)

    def notify_drained(self) -> None:
        """Resume blocked writers."""
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

    def close(self) -> None:
        """End the input."""

    def __len__(self) -> int:
        """Return the number of bytes that were sent and not yet read."""


class Sink(Protocol):
    """A receiver of a process's output."""

    def write(self, stream: int, data: bytes) -> None:
        """Take output of stdout (1) or stderr (2)."""

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether the writer must wait; `resume` is called once it may go on."""

    def end(self, code: int) -> None:
        """Handle the end of the process."""


class OutputBuffer:
    """A sink that a client reads piece by piece."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._resume: list[Callable[[], None]] = []
        self.code: int | None = None
        """The exit code; None while the process runs."""
        self.failure = ""
        """Why the process could not be started; empty if it was."""
        self.on_output: Callable[[], None] | None = None
        """Called after new output, and at the end."""

    def write(self, stream: int, data: bytes) -> None:
        """Append output."""
        if data and self.code is None:
            self._pieces.append((stream, data))
            self._size += len(data)
            self._notify()

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether too much output is unread."""
        if self._size < _MAX_PENDING:
            return False
        self._resume.append(resume)
        return True

    def end(self, code: int) -> None:
        """Record the exit code."""
        if self.code is None:
            self.code = code
            self._notify()

    def fail(self, why: str) -> None:
        """Record that the process could not be started."""
        self.failure = why
        self.end(126)

    def _notify(self) -> None:
        self._changed.set()
        if self.on_output is not None:
            self.on_output()

    def drain(self) -> list[tuple[int, bytes]]:
        """Return all unread pieces with their streams."""
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
        """Wait for the next piece and return it with its stream; None at the end."""
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
class ProcessSession:
    """A client's connection to a process.

    Args:
        stdin: the input; None if the process takes none.
        output: the output and exit code.
        stop: ends the process, or detaches from it.
        resize: sets columns and rows of its terminal; None without a real one.
    """

    stdin: Input | None
    output: OutputBuffer
    stop: Callable[[], None]
    resize: Callable[[int, int], None] | None = None


class Terminal:
    """The line discipline of a terminal; also the sink of its process.

    Args:
        stdin: takes finished lines; None without an input.
        output: takes what the terminal shows.
    """

    def __init__(self, stdin: Pipe | None, output: OutputBuffer) -> None:
        self._stdin = stdin
        self._output = output
        self._line = bytearray()
        self.interrupted: Callable[[], None] | None = None
        """Called on Ctrl-C."""

    # -- input

    def send(self, data: bytes) -> None:
        """Handle typed keys."""
        echoed, stopped = bytearray(), False
        for key in data:
            if key in _NEWLINES:
                echoed += b"\r\n"
                self._flush(b"\n")
            elif key == _END_OF_INPUT:
                if self._line:
                    self._flush(b"")
                elif self._stdin is not None:
                    self._stdin.close()
            elif key == _INTERRUPT:
                echoed += b"^C\r\n"
                self._line.clear()
                stopped = True
            elif key in _ERASE:
                if self._line:
                    del self._line[-1]
                    echoed += b"\b \b"
            else:
                self._line.append(key)
                echoed.append(key)
        self._output.write(1, bytes(echoed))
        if stopped and self.interrupted is not None:
            self.interrupted()

    def __len__(self) -> int:
        """Return the number of typed bytes that were not read."""
        return len(self._line) + (len(self._stdin) if self._stdin is not None else 0)

    def close(self) -> None:
        """Hang up."""
        if self._stdin is not None:
            self._flush(b"")
            self._stdin.close()

    def _flush(self, end: bytes) -> None:
        if self._stdin is not None:
            self._stdin.send(bytes(self._line) + end)
        self._line.clear()

    # -- output

    def write(self, stream: int, data: bytes) -> None:
        """Show output; stdout and stderr are one stream."""
        del stream
        self._output.write(1, data.replace(b"\n", b"\r\n"))

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether too much output is unread."""
        return self._output.must_wait(resume)

    def end(self, code: int) -> None:
        """Record the exit code."""
        self._output.end(code)
