"""Watches: one stream of JSON lines per request, with back-pressure.

Each change is encoded once for all watches of the same form. A client that does not read is
disconnected when its buffer is full. Watches through a conversion webhook send changes in order, as
the webhook answers, and end when a conversion fails.

Source: k8s.io/apiserver pkg/endpoints/handlers/watch.go,
pkg/storage/cacher/{cache_watcher,cacher}.go.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.handlers.listing import (
    REVISION_TIMEOUT,
    parse_revision,
    wait_for_revision,
)
from pytest_kwait.simulator.apiserver.request import negotiate_stream
from pytest_kwait.simulator.apiserver.responses import (
    add_response_headers,
    entries_to_requested_version,
)
from pytest_kwait.simulator.apiserver.tables import to_partial_object_metadata, to_table
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.faults import CLIENT_HEADER
from pytest_kwait.simulator.no_exploration import UnexploredWatch
from pytest_kwait.simulator.store import Entry, with_revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from pytest_kwait.simulator.apiserver.handlers.listing import ListOptions
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind, VersionWebhook
    from pytest_kwait.simulator.store import Change

_WRITE_BYTES = 256 * 1024
"""The size of one write to a connection."""
_TRANSPORT_HIGH_WATER = 256 * 1024
"""The unsent bytes of a connection above which chunks wait here."""
_MAX_BUFFERED_BYTES = 16 * 1024 * 1024
_MAX_STALLED_SECONDS = 60.0
"""Seconds that a client may leave chunks unread."""
_MIN_TIMEOUT = 1800
_BOOKMARK_PAUSE = 60.0
_LAST_BOOKMARK_LEAD = 2.0

_encode = msgspec.json.Encoder().encode

_MAX_PENDING_CHANGES = 4096


class StreamBuffer:
    """Buffers the chunks of one stream.

    Args:
        transport: the connection.
        drained: waits until the connection takes more.
        ended: called when the connection has ended.
        most: the maximum of buffered bytes.
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
        """Return whether the connection is closed."""
        return self._transport.is_closing()

    def begin(self, source: Iterator[bytes]) -> None:
        """Send the chunks of `source` first, as fast as the client reads."""
        self._source = source
        self.flush()

    def send(self, chunk: bytes) -> None:
        """Enqueue `chunk`; disconnect a client that is too far behind."""
        self._waiting.append(chunk)
        self._size += len(chunk)
        if self._size > self._most:
            self.cut()
        elif not self._planned and self._pump is None:
            self._planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the waiting chunks, now or as the connection drains."""
        self._planned = False
        if self._pump is not None:
            return
        if self._transport.is_closing():
            self._end()
            return
        if self._transport.get_write_buffer_size() < _TRANSPORT_HIGH_WATER:
            self._write()
        if self._waiting or self._source is not None:
            self._pump = self._loop.create_task(self._drain())

    def finish(self) -> bool:
        """End the stream; return whether the connection can be reused."""
        self.flush()
        if self._pump is not None:
            self._pump.cancel()
            self.cut()
        return not self._transport.is_closing()

    async def _drain(self) -> None:
        """Write the waiting chunks as the client reads them."""
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
        """Abort the connection."""
        self._transport.abort()
        self._end()

    def _end(self) -> None:
        self._waiting.clear()
        self._source, self._size = None, 0
        self._ended()


def _frame_event(event: str, raw: bytes) -> bytes:
    """Frame an event as a line in an HTTP chunk."""
    line = b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
    return b"%x\r\n%b\r\n" % (len(line), line)


def error_event(error: StatusError) -> bytes:
    """Return the event that ends a failed watch."""
    return _frame_event("ERROR", _encode(error.status()))


def _no_op() -> None:
    pass


class LatestChunk:
    """The latest change's chunk, shared by all watches of one cluster of the same form."""

    def __init__(self) -> None:
        self.key: tuple[int, str, str] = (0, "", "")
        self.chunk = b""


async def serve_watch(
    cluster: ApiServerCluster,
    request: ApiRequest,
    kind: Kind,
    namespace: str | None,
    options: ListOptions,
) -> web.StreamResponse:
    """Send changes until the timeout, or until the client disconnects.

    Raises:
        StatusError: 500 for an invalid resourceVersion, as upstream, 406 for an unsupported form.
    """
    try:
        revision = parse_revision(options.version)
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    negotiate_stream(request.header("Accept"))
    stream = WatchStream(cluster, request, kind, namespace, options, revision)
    if kind.structure is not None and kind.structure.conversion is not None:
        conversion = kind.structure.conversion
        stream = ConvertedWatchStream(
            cluster, request, kind, namespace, options, revision, conversion
        )
        await stream.prepare()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    add_response_headers(response, request, cluster)
    response.enable_chunked_encoding()
    await response.prepare(request.http)
    if request.http.transport is None:
        stream.end()
        return response
    buffer = StreamBuffer(request.http.transport, request.http.writer.drain, stream.end)
    seconds = options.timeout or random.uniform(_MIN_TIMEOUT, 2 * _MIN_TIMEOUT)  # noqa: S311 - spread
    if options.initial_events:
        try:
            await wait_for_revision(cluster, revision, min(REVISION_TIMEOUT, seconds))
        except StatusError as error:
            buffer.send(error_event(error))
            stream.end()
            if buffer.finish():
                await response.write_eof()
            return response
    stream.start(buffer)
    cluster.faults.watches.add(stream)
    try:
        await stream.run(float(seconds))
    finally:
        cluster.faults.watches.discard(stream)
        whole = stream.stop()
    if whole:
        await response.write_eof()
    return response


class WatchStream:
    """One watch."""

    def __init__(
        self,
        cluster: ApiServerCluster,
        request: ApiRequest,
        kind: Kind,
        namespace: str | None,
        options: ListOptions,
        revision: int,
    ) -> None:
        self._cluster = cluster
        self.request = request
        self._latest = cluster.services.get(LatestChunk, LatestChunk)
        self._revision = revision
        self._kind = kind
        self._prefix = f"{namespace}/" if namespace and kind.namespaced else ""
        self._options = options
        self.wants_bookmarks = options.bookmarks
        self._convert = request.form.convert
        self._version = request.form.version
        self._query = request.query
        self._expired = request.expired
        self.place = (namespace or "", request.header(CLIENT_HEADER), kind.plural)
        """Namespace, client and resource, by which faults cut watches."""
        self._headed = True
        self._plain = not self._convert and kind.stored and not kind.custom
        self._view = f"{kind.api_version}|{self._convert}|{self._version}|"
        self._done = asyncio.Event()
        self.buffer: StreamBuffer
        self.explored = UnexploredWatch(self)
        """The events that an exploration holds back."""
        self._unsubscribe: Callable[[], None] = _no_op
        self._loop = asyncio.get_running_loop()

    def start(self, buffer: StreamBuffer) -> None:
        """Send the initial state, and subscribe to changes."""
        self.buffer = buffer
        if self._has_expired():
            return
        options, store = self._options, self._cluster.store
        if options.initial_events or (options.initial_events is None and not self._revision):
            namespace = self._prefix[:-1] or None
            entries = store.entries(self._kind.bucket, namespace)
            self.explored.send_initial(self._initial_chunks(entries, store.revision))
        elif self._revision:
            try:
                buffer.begin(self._past_chunks(store.since(self._kind.bucket, self._revision)))
            except StatusError as error:
                buffer.send(error_event(error))
                self._done.set()
                return
        self._unsubscribe = store.watch(self._kind.bucket, self._on_change, self._prefix[:-1])

    def end(self) -> None:
        """Unsubscribe and end `run`."""
        self._unsubscribe()
        self.explored.close()
        self._done.set()

    def cut(self) -> None:
        """Abort the connection."""
        self.buffer.cut()

    async def run(self, seconds: float) -> None:
        """Send bookmarks until the timeout or the end of the stream."""
        deadline = self._loop.time() + seconds
        while not self._done.is_set():
            remaining_seconds = deadline - self._loop.time()
            if remaining_seconds <= 0:
                break
            pause = min(_BOOKMARK_PAUSE, remaining_seconds)
            if self._options.bookmarks and remaining_seconds > 2 * _LAST_BOOKMARK_LEAD:
                pause = min(pause, remaining_seconds - _LAST_BOOKMARK_LEAD)
            try:
                await asyncio.wait_for(self._done.wait(), pause)
            except TimeoutError:
                if self.buffer.closed:
                    return
                if (
                    self._options.bookmarks
                    and remaining_seconds > 2 * _LAST_BOOKMARK_LEAD
                    and self._current
                    and not self.explored.skips_bookmark()
                ):
                    self.buffer.send(self.make_bookmark(self._cluster.store.revision))

    @property
    def _current(self) -> bool:
        """Return whether all changes have been sent."""
        return not self.explored.is_late

    def stop(self) -> bool:
        """Unsubscribe; return whether the connection can be reused."""
        self._unsubscribe()
        self.explored.close()
        return self.buffer.finish()

    def _has_expired(self) -> bool:
        """Return whether a fault or an exploration ends the watch at its start, with an error."""
        if self._expired is None:
            self._cluster.exploration.explore_watch(self)
            revision = 0 if self._options.initial_events else self._revision
            self._expired = self.explored.find_expiry(revision, self._cluster.store.revision)
        if self._expired is None:
            return False
        self.buffer.send(error_event(self._expired))
        self._done.set()
        return True

    def _send(self, change: Change) -> None:
        """Send the event of a change, if the watch selects it."""
        chunk = self._change_chunk(change)
        if chunk:
            self._cluster.exploration.explore_watch(self)
            self.explored.send_change(chunk, change)

    def _selects(self, entry: Entry) -> bool:
        if self._prefix and not entry.key.startswith(self._prefix):
            return False
        return not self._options.is_selective or self._options.selects(entry)

    def _initial_chunks(
        self, entries: Iterable[Entry], revision: int
    ) -> Iterator[tuple[bytes, Obj]]:
        """Yield each event with the metadata of its object, empty for a bookmark."""
        for stored_entry in entries:
            entry = (
                self._entry_to_watched_version(stored_entry) if self._kind.custom else stored_entry
            )
            if self._selects(entry):
                yield self._chunk("ADDED", entry), entry.obj["metadata"]
        if self._options.initial_events and self._options.bookmarks:
            yield self.make_bookmark(revision, initial=True), {}

    def _past_chunks(self, changes: Iterable[Change]) -> Iterator[bytes]:
        return filter(None, map(self._change_chunk, changes))

    def _on_change(self, change: Change) -> None:
        self._send(change)

    def _change_chunk(self, change: Change) -> bytes:
        """Return the chunk of a change; empty if the watch does not select it."""
        if self._kind.custom:
            change = self._to_watched_version(change)
        if self._prefix and not change.new.key.startswith(self._prefix):
            return b""
        if not self._options.is_selective:
            return self._chunk(change.type, change.new)
        before = change.old is not None and self._options.selects(change.old)
        if change.type == "DELETED":
            return self._chunk("DELETED", change.new) if before else b""
        if self._options.selects(change.new):
            return self._chunk("MODIFIED" if before else "ADDED", change.new)
        if before and change.old is not None:
            last = with_revision(change.old.obj, change.revision)
            return self._framed_object("DELETED", last)
        return b""

    def _to_watched_version(self, change: Change) -> Change:
        """Convert a change of custom objects to the version of the watch."""
        new, old = self._entry_to_watched_version(change.new), change.old
        return change._replace(
            new=new, old=None if old is None else self._entry_to_watched_version(old)
        )

    def _entry_to_watched_version(self, entry: Entry) -> Entry:
        obj = to_version_without_webhook(self._kind, entry.obj)
        return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)

    def _chunk(self, event: str, entry: Entry) -> bytes:
        if self._convert == "PartialObjectMetadataList":
            self._done.set()  # An event is no list: upstream ends the watch silently.
            return b""
        if self._convert == "Table" and self._headed:
            return self._framed_object(event, entry.obj)
        key = (entry.revision, event, self._view + self._query.get("includeObject", ""))
        if self._latest.key == key:
            return self._latest.chunk
        chunk = (
            _frame_event(event, entry.raw) if self._plain else self._framed_object(event, entry.obj)
        )
        self._latest.key, self._latest.chunk = key, chunk
        return chunk

    def _framed_object(self, event: str, obj: Obj) -> bytes:
        if self._convert == "Table":
            body = to_table(
                self._kind,
                [obj],
                obj["metadata"],
                self._query,
                headed=self._headed,
                version=self._version,
            )
            self._headed = False
        elif self._convert:
            body = to_partial_object_metadata(
                to_version_without_webhook(self._kind, obj), self._version
            )
        else:
            body = to_version_without_webhook(self._kind, obj)
        return _frame_event(event, _encode(body))

    def make_bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        """Return the chunk of a bookmark.

        Args:
            initial: whether it ends the initial state.
        """
        metadata: Obj = {"resourceVersion": str(revision)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Obj = {
            "kind": self._kind.kind,
            "apiVersion": self._kind.api_version,
            "metadata": metadata,
        }
        if self._convert == "Table":
            body: Obj = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self._version}",
                "metadata": {"resourceVersion": metadata["resourceVersion"]},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": to_partial_object_metadata(obj, self._version)}],
            }
            return _frame_event("BOOKMARK", _encode(body))
        if self._convert:
            obj = to_partial_object_metadata(obj, self._version)
        return _frame_event("BOOKMARK", _encode(obj))


class ConvertedWatchStream(WatchStream):
    """A watch whose changes are converted by a webhook."""

    def __init__(
        self,
        cluster: ApiServerCluster,
        request: ApiRequest,
        kind: Kind,
        namespace: str | None,
        options: ListOptions,
        revision: int,
        conversion: VersionWebhook,
    ) -> None:
        super().__init__(cluster, request, kind, namespace, options, revision)
        self._conversion = conversion
        self._ahead: deque[Change] = deque()
        self._due = asyncio.Event()
        self._busy = False
        self._initial: Sequence[Entry] | None = None
        self._initial_revision = 0
        self._worker: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Convert the initial state, and queue the changes meanwhile.

        Raises:
            StatusError: 429, the webhook fails.
        """
        options, store = self._options, self._cluster.store
        bucket, namespace = self._kind.bucket, self._prefix[:-1]
        self._unsubscribe = store.watch(bucket, self._on_change, namespace)
        if options.initial_events or (options.initial_events is None and not self._revision):
            self._initial_revision = store.revision
            try:
                entries = store.entries(bucket, namespace or None)
                self._initial = await entries_to_requested_version(self._kind, entries)
            except StatusError:
                self._unsubscribe()
                raise

    def start(self, buffer: StreamBuffer) -> None:
        """Send the initial state, and start converting changes."""
        self.buffer = buffer
        if self._has_expired():
            return
        if self._initial is not None:
            chunks = self._initial_chunks(self._initial, self._initial_revision)
            self.explored.send_initial(chunks)
        elif self._revision:
            try:
                past = [*self._cluster.store.since(self._kind.bucket, self._revision)]
            except StatusError as error:
                buffer.send(error_event(error))
                self._done.set()
                return
            # The past includes the changes since the watch began.
            self._ahead = deque(past)
        self._due.set()
        self._worker = self._loop.create_task(self._convert_changes())

    def end(self) -> None:
        """Unsubscribe and stop converting."""
        super().end()
        if self._worker is not None:
            self._worker.cancel()

    def stop(self) -> bool:
        """Stop converting; return whether the connection can be reused."""
        if self._worker is not None:
            self._worker.cancel()
        return super().stop()

    @property
    def _current(self) -> bool:
        return not self._ahead and not self._busy and super()._current

    def _on_change(self, change: Change) -> None:
        self._ahead.append(change)
        self._due.set()
        if len(self._ahead) > _MAX_PENDING_CHANGES:
            self._done.set()

    async def _convert_changes(self) -> None:
        """Convert and send one change after the other."""
        while True:
            await self._due.wait()
            while self._ahead:
                change, self._busy = self._ahead.popleft(), True
                try:
                    converted = await self._conversion.convert_change(change, self._kind)
                except StatusError:
                    self._done.set()
                    return
                self._send(converted)
                self._busy = False
            self._due.clear()
