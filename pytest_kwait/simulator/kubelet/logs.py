"""Logs of containers: the last 10 MiB of each, and a limit on all of a cluster.

When the logs of a cluster exceed their total limit, the largest one drops its older half.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakSet

from pytest_kwait.simulator.busybox.os.files import StorageQuota

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pytest_kwait.simulator.cluster_protocol import Cluster

# The limit of a log; source: kubelet config, `containerLogMaxSize`.
_MAX_LOG = 10 << 20
# The limit of all logs of a cluster.
_MAX_ALL_LOGS = 256 << 20
# The memory overhead of a line.
_LINE_OVERHEAD = 120
# The length of time and stream before each line of the node's log file.
_LINE_PREFIX = 40
_DISK_BLOCK = 4096


class ClusterLogs:
    """The logs of a cluster, with a limit on their total size."""

    def __init__(self) -> None:
        self._all: WeakSet[ContainerLog] = WeakSet()
        self._log_quota = StorageQuota(
            _MAX_ALL_LOGS, lambda: sum(log.memory_size for log in self._all)
        )

    def create(self) -> ContainerLog:
        """Create the log of a container."""
        log = ContainerLog()
        self._all.add(log)
        log.cluster_logs = self
        return log

    def grow(self, size: int) -> None:
        """Count more bytes; shorten the largest log if the total exceeds the limit."""
        if not self._log_quota.reserve(size):
            max(self._all, key=lambda log: log.memory_size).drop_older_half()


def get_cluster_logs(cluster: Cluster) -> ClusterLogs:
    """Return the logs of a cluster's containers."""
    return cluster.services.get(ClusterLogs, ClusterLogs)


class ContainerLog:
    """The log of a container: its last 10 MiB, as lines with their newline if they have one."""

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_lines",
        "_partial",
        "_readers",
        "cluster_logs",
        "ended",
        "memory_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cluster_logs: ClusterLogs | None = None
        self._lines: deque[tuple[float, bytes]] = deque()
        self._partial: dict[int, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self._dropped = 0
        self.memory_size = 0
        """Bytes of memory in use."""
        self.ended = False

    def __iter__(self) -> Iterator[tuple[float, bytes]]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes on the node's disk."""
        size = self.memory_size - len(self._lines) * (_LINE_OVERHEAD - _LINE_PREFIX)
        return -(-size // _DISK_BLOCK) * _DISK_BLOCK

    def read_from(self, position: int) -> tuple[int, list[tuple[float, bytes]]]:
        """Return the lines from a position on, and the position after them."""
        end = self._dropped + len(self._lines)
        if position >= end:
            return end, []
        first = max(position - self._dropped, 0)
        return end, [*islice(self._lines, first, None)]

    def read_end(self, most: int) -> bytes:
        """Return the last lines; the output may end within a line."""
        return b"".join(line for _, line in list(self._lines)[-most:])

    def write(self, now: float, stream: int, data: bytes) -> None:
        """Append output of a stream; a line is added once it is complete.

        Source: containerd internal/cri/io/logger.go, `readLine`, which takes a carriage return
        before the end of a line for a part of it.
        """
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(now, line.removesuffix(b"\r") + b"\n")
        if len(rest) > _MAX_LOG // 10:
            # A very long line is split, as the container runtime does.
            self._add(now, rest)
            rest = b""
        if rest:
            self._partial[stream] = rest
        if lines:
            self._wake()

    def _add(self, now: float, line: bytes) -> None:
        self._lines.append((now, line))
        self.memory_size += len(line) + _LINE_OVERHEAD
        self._keep(_MAX_LOG)
        if self.cluster_logs is not None:
            self.cluster_logs.grow(len(line) + _LINE_OVERHEAD)

    def drop_older_half(self) -> None:
        """Drop the older half of the lines, by size."""
        self._keep(self.memory_size // 2)

    def _keep(self, most: int) -> None:
        while self.memory_size > most:
            self.memory_size -= len(self._lines.popleft()[1]) + _LINE_OVERHEAD
            self._dropped += 1

    def end(self, now: float) -> None:
        """Add incomplete lines and end the log."""
        for rest in self._partial.values():
            self._add(now, rest)
        self._partial.clear()
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Yield all lines, and new ones until the end."""
        position, changed = 0, asyncio.Event()
        self._readers.append(changed)
        try:
            while True:
                while position < self._dropped + len(self._lines):
                    position = max(position, self._dropped)
                    yield self._lines[position - self._dropped]
                    position += 1
                if self.ended:
                    return
                changed.clear()
                await changed.wait()
        finally:
            self._readers.remove(changed)
