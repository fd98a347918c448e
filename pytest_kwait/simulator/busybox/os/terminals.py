"""A terminal between a person and a process: echo, lines, control keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.streams import OutputBuffer
    from pytest_kwait.simulator.busybox.os.syscalls import Pipe

__all__ = ["Terminal"]

_INTERRUPT, _END_OF_INPUT, _ERASE = 3, 4, (8, 127)
_NEWLINES = (10, 13)


class Terminal:
    """The line discipline of a terminal; also the sink of its process.

    Args:
        stdin: where finished lines go; None where nobody reads them.
        outlet: what the person sees.
    """

    def __init__(self, stdin: Pipe | None, outlet: OutputBuffer) -> None:
        self._stdin = stdin
        self._outlet = outlet
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
        self._outlet.write(1, bytes(shown))
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
        self._outlet.write(1, data.replace(b"\n", b"\r\n"))

    def hold(self, resume: Callable[[], None]) -> bool:
        """Whether the person has too much to read."""
        return self._outlet.hold(resume)

    def end(self, code: int) -> None:
        """The process has ended."""
        self._outlet.end(code)
