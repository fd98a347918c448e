"""What a stream still has to send: as fast as its client reads, and no more than can be kept.

Chunks are shared by all streams that send them; what is copied for one client alone is bounded by
what its connection takes at a time.

Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go (a watcher that does not keep up ends).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from pytest_kwait.clock import async_sleep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["StreamBuffer"]

_WRITE_BYTES = 256 * 1024
"""Bytes that are handed to a connection at a time."""
_TRANSPORT_HIGH_WATER = 256 * 1024
"""Bytes that a connection has taken and not sent, from which on what follows waits here."""
_MAX_BUFFERED_BYTES = 16 * 1024 * 1024
_MAX_STALLED_SECONDS = 60.0
"""How long a client may read nothing at all while something waits for it."""


class StreamBuffer:
    """The way out of one stream.

    Args:
        transport: the connection.
        drained: waits until the connection takes more.
        ended: called when nothing can be sent any more.
        most: bytes that may wait here.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        drained: Callable[[], Awaitable[None]],
        ended: Callable[[], None],
        most: int = _MAX_BUFFERED_BYTES,
    ) -> None:
        self._transport = transport
        self._drained = drained
        self._ended = ended
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._source: Iterator[bytes] | None = None
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._planned = False
        self._pump: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self._transport.is_closing()

    def begin(self, source: Iterator[bytes]) -> None:
        """Send what `source` yields, as the client reads it, before anything else."""
        self._source = source
        self.flush()

    def send(self, chunk: bytes) -> None:
        """Send `chunk` in its turn; a client that is too far behind is cut off."""
        self._waiting.append(chunk)
        self._size += len(chunk)
        if self._size > self._most:
            self.cut()
        elif not self._planned and self._pump is None:
            self._planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what waits, now where the connection takes it, otherwise as it does."""
        self._planned = False
        if self._pump is not None:
            return
        if self._transport.is_closing():
            self._end()
            return
        if self._transport.get_write_buffer_size() < _TRANSPORT_HIGH_WATER:
            self._write()
        if self._waiting or self._source is not None:
            self._pump = self._loop.create_task(self._follow())

    def finish(self) -> bool:
        """End; whether everything has been sent, and the connection can be used again."""
        self.flush()
        if self._pump is not None:
            self._pump.cancel()
            self.cut()
        return not self._transport.is_closing()

    async def _follow(self) -> None:
        """Write one portion after the other as the client reads them."""
        try:
            while self._waiting or self._source is not None:
                async with asyncio.timeout(_MAX_STALLED_SECONDS):
                    await self._drained()
                self._write()
                await async_sleep(0)
        except (ConnectionError, TimeoutError):
            self.cut()
        finally:
            self._pump = None

    def _write(self) -> None:
        parts: list[bytes] = []
        size = 0
        while size < _WRITE_BYTES:
            if self._source is not None:
                part = next(self._source, b"")
                if not part:
                    self._source = None
                    continue
            elif self._waiting:
                part = self._waiting.popleft()
                self._size -= len(part)
            else:
                break
            parts.append(part)
            size += len(part)
        if parts:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def cut(self) -> None:
        """End the connection, whatever has been sent."""
        self._transport.abort()
        self._end()

    def _end(self) -> None:
        self._waiting.clear()
        self._source, self._size = None, 0
        self._ended()
