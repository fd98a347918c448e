"""Watches: one stream of JSON lines per request, with back-pressure.

Each change is encoded once for all watches that show it the same way. A client that does not read
is cut off when its buffer is full. Watches of a custom kind in a version that a webhook converts to
send changes in order, as the webhook answers, and end where a conversion fails.

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
from pytest_kwait.simulator.apiserver.negotiation import negotiate_stream
from pytest_kwait.simulator.apiserver.printers.tables import to_partial_object_metadata, to_table
from pytest_kwait.simulator.apiserver.responses import (
    add_response_headers,
    entries_to_requested_version,
)
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.faults.active_faults import CLIENT_HEADER
from pytest_kwait.simulator.store import Entry, with_revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from pytest_kwait.simulator.apiserver.handlers.listing import ListOptions
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind, VersionWebhook
    from pytest_kwait.simulator.store import Change

__all__ = ["ConvertedWatchStream", "StreamBuffer", "WatchStream", "error_event", "serve_watch"]

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


_MIN_TIMEOUT = 1800
_BOOKMARK_PAUSE = 60.0
_LAST_BOOKMARK_LEAD = 2.0

_encode = msgspec.json.Encoder().encode


def _frame_event(event: str, raw: bytes) -> bytes:
    """An event as a line in a chunk of its own."""
    line = b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
    return b"%x\r\n%b\r\n" % (len(line), line)


def error_event(error: StatusError) -> bytes:
    """The event that a watch ends with where it is refused."""
    return _frame_event("ERROR", _encode(error.status()))


def _no_op() -> None:
    pass


class _LatestChunk:
    """The latest change's chunk, shared by all watches that show it the same way."""

    key: tuple[int, str, str] = (0, "", "")
    chunk = b""


async def serve_watch(
    api: Cluster,
    request: ApiRequest,
    kind: Kind,
    namespace: str | None,
    options: ListOptions,
) -> web.StreamResponse:
    """Send changes until the time is over or the client is gone.

    Raises:
        StatusError: 500 for a resourceVersion that is none, as upstream, 406 for a form that
            events do not have.
    """
    try:
        revision = parse_revision(options.version)
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    negotiate_stream(request.header("Accept"))
    stream = WatchStream(api, request, kind, namespace, options, revision)
    if kind.structure is not None and kind.structure.conversion is not None:
        # Not at import: hardly any definition has a webhook.

        conversion = kind.structure.conversion
        stream = ConvertedWatchStream(api, request, kind, namespace, options, revision, conversion)
        await stream.prepare()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    add_response_headers(response, request)
    response.enable_chunked_encoding()
    await response.prepare(request.http)
    if request.http.transport is None:
        stream.end()
        return response
    outlet = StreamBuffer(request.http.transport, request.http.writer.drain, stream.end)
    seconds = options.timeout or random.uniform(_MIN_TIMEOUT, 2 * _MIN_TIMEOUT)  # noqa: S311 - spread
    if options.initial_events:
        try:
            await wait_for_revision(api, revision, min(REVISION_TIMEOUT, seconds))
        except StatusError as error:
            outlet.send(error_event(error))
            stream.end()
            if outlet.finish():
                await response.write_eof()
            return response
    stream.start(outlet)
    api.faults.watches.add(stream)
    try:
        await stream.run(float(seconds))
    finally:
        api.faults.watches.discard(stream)
        whole = stream.stop()
    if whole:
        await response.write_eof()
    return response


class WatchStream:
    """One watch."""

    def __init__(
        self,
        api: Cluster,
        request: ApiRequest,
        kind: Kind,
        namespace: str | None,
        options: ListOptions,
        revision: int,
    ) -> None:
        self._api = api
        self._revision = revision
        self._kind = kind
        self._prefix = f"{namespace}/" if namespace and kind.namespaced else ""
        self._options = options
        self._convert = request.form.convert
        self._version = request.form.version
        self._query = request.query
        self._expired = request.expired
        self.place = (namespace or "", request.header(CLIENT_HEADER), kind.plural)
        """Namespace, client and resource, for those who cut watches."""
        self._headed = True
        self._plain = not self._convert and kind.stored and not kind.custom
        self._view = f"{kind.api_version}|{self._convert}|{self._version}|"
        self._done = asyncio.Event()
        self._outlet: StreamBuffer
        self._unsubscribe: Callable[[], None] = _no_op
        self._loop = asyncio.get_running_loop()

    # -- life

    def start(self, outlet: StreamBuffer) -> None:
        """Send what there is, and follow what comes."""
        self._outlet = outlet
        if self._expired is not None:
            outlet.send(error_event(self._expired))
            self._done.set()
            return
        options, store = self._options, self._api.store
        if options.initial_events or (options.initial_events is None and not self._revision):
            namespace = self._prefix[:-1] or None
            entries = store.entries(self._kind.bucket, namespace)
            outlet.begin(self._initial_chunks(entries, store.revision))
        elif self._revision:
            try:
                outlet.begin(self._past_chunks(store.since(self._kind.bucket, self._revision)))
            except StatusError as error:
                outlet.send(error_event(error))
                self._done.set()
                return
        self._unsubscribe = store.watch(self._kind.bucket, self._on_change, self._prefix[:-1])

    def end(self) -> None:
        """Nothing more can be sent."""
        self._unsubscribe()
        self._done.set()

    def cut(self) -> None:
        """End the connection in the middle."""
        self._outlet.cut()

    async def run(self, seconds: float) -> None:
        """Return when the time is over or the stream has ended; bookmarks go out meanwhile."""
        deadline = self._loop.time() + seconds
        while not self._done.is_set():
            left = deadline - self._loop.time()
            if left <= 0:
                break
            pause = min(_BOOKMARK_PAUSE, left)
            if self._options.bookmarks and left > 2 * _LAST_BOOKMARK_LEAD:
                pause = min(pause, left - _LAST_BOOKMARK_LEAD)
            try:
                await asyncio.wait_for(self._done.wait(), pause)
            except TimeoutError:
                if self._outlet.closed:
                    return
                if self._options.bookmarks and left > 2 * _LAST_BOOKMARK_LEAD and self._current:
                    self._outlet.send(self._bookmark(self._api.store.revision))

    @property
    def _current(self) -> bool:
        """Whether everything that happened has been sent."""
        return True

    def stop(self) -> bool:
        """No longer follow; whether the client has got everything."""
        self._unsubscribe()
        return self._outlet.finish()

    # -- events

    def _wanted(self, entry: Entry) -> bool:
        if self._prefix and not entry.key.startswith(self._prefix):
            return False
        return not self._options.is_selective or self._options.selects(entry)

    def _initial_chunks(self, entries: Iterable[Entry], revision: int) -> Iterator[bytes]:
        """The chunks that show the state of `revision`."""
        for one in entries:
            entry = self._seen_entry(one) if self._kind.custom else one
            if self._wanted(entry):
                yield self._chunk("ADDED", entry)
        if self._options.initial_events and self._options.bookmarks:
            yield self._bookmark(revision, initial=True)

    def _past_chunks(self, changes: Iterable[Change]) -> Iterator[bytes]:
        """The chunks that show `changes`."""
        return filter(None, map(self._change_chunk, changes))

    def _on_change(self, change: Change) -> None:
        chunk = self._change_chunk(change)
        if chunk:
            self._outlet.send(chunk)

    def _change_chunk(self, change: Change) -> bytes:
        """What the client is to see of a change; empty for nothing."""
        if self._kind.custom:
            change = self._seen(change)
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

    def _seen(self, change: Change) -> Change:
        """A change of custom objects in the version of the watch."""
        new, old = self._seen_entry(change.new), change.old
        return change._replace(new=new, old=None if old is None else self._seen_entry(old))

    def _seen_entry(self, entry: Entry) -> Entry:
        obj = to_version_without_webhook(self._kind, entry.obj)
        return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)

    def _chunk(self, event: str, entry: Entry) -> bytes:
        if self._convert == "PartialObjectMetadataList":
            self._done.set()  # an event is no list: upstream ends without a word
            return b""
        if self._convert == "Table" and self._headed:
            return self._framed_object(event, entry.obj)
        key = (entry.revision, event, self._view + self._query.get("includeObject", ""))
        if _LatestChunk.key == key:
            return _LatestChunk.chunk
        chunk = (
            _frame_event(event, entry.raw) if self._plain else self._framed_object(event, entry.obj)
        )
        _LatestChunk.key, _LatestChunk.chunk = key, chunk
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

    def _bookmark(self, revision: int, *, initial: bool = False) -> bytes:
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


_MAX_PENDING_CHANGES = 4096


class ConvertedWatchStream(WatchStream):
    """One such watch.

    Args:
        conversion: the webhook; the rest is as for every watch.
    """

    def __init__(
        self,
        api: Cluster,
        request: ApiRequest,
        kind: Kind,
        namespace: str | None,
        options: ListOptions,
        revision: int,
        conversion: VersionWebhook,
    ) -> None:
        super().__init__(api, request, kind, namespace, options, revision)
        self._conversion = conversion
        self._ahead: deque[Change] = deque()
        self._due = asyncio.Event()
        self._busy = False
        self._initial: Sequence[Entry] | None = None
        self._initial_revision = 0
        self._worker: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Convert what is there, and keep what comes meanwhile.

        Raises:
            StatusError: 429, the webhook fails.
        """
        options, store = self._options, self._api.store
        bucket, namespace = self._kind.bucket, self._prefix[:-1]
        self._unsubscribe = store.watch(bucket, self._on_change, namespace)
        if options.initial_events or (options.initial_events is None and not self._revision):
            self._initial_revision = store.revision
            try:
                found = store.entries(bucket, namespace or None)
                self._initial = await entries_to_requested_version(self._kind, found)
            except StatusError:
                self._unsubscribe()
                raise

    def start(self, outlet: StreamBuffer) -> None:
        """Send what there is, and follow what comes."""
        self._outlet = outlet
        if self._initial is not None:
            outlet.begin(self._initial_chunks(self._initial, self._initial_revision))
        elif self._revision:
            try:
                past = [*self._api.store.since(self._kind.bucket, self._revision)]
            except StatusError as error:
                outlet.send(error_event(error))
                self._done.set()
                return
            # What came since the watch began stands at the end of the past as well.
            self._ahead = deque(past)
        self._due.set()
        self._worker = self._loop.create_task(self._follow())

    def end(self) -> None:
        """Nothing more can be sent."""
        super().end()
        if self._worker is not None:
            self._worker.cancel()

    def stop(self) -> bool:
        """No longer follow; whether the client has got everything."""
        if self._worker is not None:
            self._worker.cancel()
        return super().stop()

    @property
    def _current(self) -> bool:
        return not self._ahead and not self._busy

    def _on_change(self, change: Change) -> None:
        self._ahead.append(change)
        self._due.set()
        if len(self._ahead) > _MAX_PENDING_CHANGES:
            self._done.set()

    async def _follow(self) -> None:
        """Send one change after the other."""
        while True:
            await self._due.wait()
            while self._ahead:
                change, self._busy = self._ahead.popleft(), True
                try:
                    converted = await self._conversion.change(change, self._kind)
                except StatusError:
                    self._done.set()
                    return
                if chunk := self._change_chunk(converted):
                    self._outlet.send(chunk)
                self._busy = False
            self._due.clear()
