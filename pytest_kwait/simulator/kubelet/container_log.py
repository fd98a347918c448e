"""What a container has written, line by line."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["ContainerLog"]

# What a log may take before its oldest lines go; source: kubelet config, `containerLogMaxSize`.
_MOST = 10 << 20
# What a line takes beside its text.
_OVERHEAD = 120


class ContainerLog:
    """A log, which keeps the last 10 MiB."""

    __slots__ = ("_dropped", "_lines", "_partial", "_readers", "_size", "ended")

    def __init__(self) -> None:
        self._lines: deque[tuple[float, bytes]] = deque()
        self._partial: dict[int, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self._dropped = 0
        self._size = 0
        self.ended = False

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def last(self, most: int) -> list[tuple[float, bytes]]:
        """Its last lines."""
        return list(self._lines)[-most:]

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Add what was written to a stream; a line is there with its end."""
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(now, line)
        if len(rest) > _MOST // 10:
            # A line without an end is cut, as the container runtime cuts it.
            self._add(now, rest)
            rest = b""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _add(self, now: float, line: bytes) -> None:
        self._lines.append((now, line))
        self._size += len(line) + _OVERHEAD
        while self._size > _MOST:
            self._size -= len(self._lines.popleft()[1]) + _OVERHEAD
            self._dropped += 1

    def end(self, now: float) -> None:
        """Nothing more is written."""
        for rest in self._partial.values():
            self._add(now, rest)
        self._partial.clear()
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Return the lines from the first one until the end."""
        position, news = 0, asyncio.Event()
        self._readers.append(news)
        try:
            while True:
                while position < self._dropped + len(self._lines):
                    position = max(position, self._dropped)
                    yield self._lines[position - self._dropped]
                    position += 1
                if self.ended:
                    return
                news.clear()
                await news.wait()
        finally:
            self._readers.remove(news)
