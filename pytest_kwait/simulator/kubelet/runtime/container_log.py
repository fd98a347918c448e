"""What a container has written, line by line."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.simulator.busybox.os.memory import StorageQuota

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pytest_kwait.simulator.clock import SimClock

__all__ = ["ClusterLogs", "ContainerLog", "get_cluster_logs"]

# What a log may take before its oldest lines go; source: kubelet config, `containerLogMaxSize`.
_MAX_LOG = 10 << 20
# What all logs of a cluster may take.
_MAX_ALL_LOGS = 256 << 20
# What a line takes beside its text.
_LINE_OVERHEAD = 120
# What a line takes beside its text in the node's file: when and where it was written.
_LINE_PREFIX = 41
_DISK_BLOCK = 4096


class ClusterLogs:
    """The logs of a cluster: when they take too much together, the largest loses its older half."""

    def __init__(self) -> None:
        self._all: WeakSet[ContainerLog] = WeakSet()
        self._room = StorageQuota(_MAX_ALL_LOGS, lambda: sum(log.taken for log in self._all))

    def add(self, log: ContainerLog) -> None:
        """Count a log in."""
        self._all.add(log)
        log.together = self

    def grow(self, size: int) -> None:
        """Take note of bytes more in one of them."""
        if not self._room.fits(size):
            max(self._all, key=lambda log: log.taken).cut()


def get_cluster_logs(clock: SimClock) -> ClusterLogs:
    """The logs of a cluster, which are there as long as its clock."""
    found = clock.attached.get("logs")
    if not isinstance(found, ClusterLogs):
        found = clock.attached["logs"] = ClusterLogs()
    return found


class ContainerLog:
    """A log, which keeps the last 10 MiB."""

    __slots__ = (
        "__weakref__", "_dropped", "_lines", "_partial", "_readers", "ended", "taken", "together",
    )  # fmt: skip

    def __init__(self) -> None:
        self.together: ClusterLogs | None = None
        self._lines: deque[tuple[float, bytes]] = deque()
        self._partial: dict[int, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self._dropped = 0
        self.taken = 0
        """The bytes of memory that it takes."""
        self.ended = False

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """The bytes of the node's disk that it takes."""
        size = self.taken - len(self._lines) * (_LINE_OVERHEAD - _LINE_PREFIX)
        return -(-size // _DISK_BLOCK) * _DISK_BLOCK

    def last(self, most: int) -> list[tuple[float, bytes]]:
        """Its last lines."""
        return list(self._lines)[-most:]

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Add what was written to a stream; a line is there with its end."""
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(now, line)
        if len(rest) > _MAX_LOG // 10:
            # A line without an end is cut, as the container runtime cuts it.
            self._add(now, rest)
            rest = b""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _add(self, now: float, line: bytes) -> None:
        self._lines.append((now, line))
        self.taken += len(line) + _LINE_OVERHEAD
        self._keep(_MAX_LOG)
        if self.together is not None:
            self.together.grow(len(line) + _LINE_OVERHEAD)

    def cut(self) -> None:
        """Let go of its older half."""
        self._keep(self.taken // 2)

    def _keep(self, most: int) -> None:
        while self.taken > most:
            self.taken -= len(self._lines.popleft()[1]) + _LINE_OVERHEAD
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
