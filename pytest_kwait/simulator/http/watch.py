"""Watches: one stream of JSON lines per request, each change encoded once for all of them.

Source: k8s.io/apiserver pkg/endpoints/handlers/watch.go, pkg/storage/cacher/cache_watcher.go.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.http.answer import add_heads
from pytest_kwait.simulator.http.listing import PATIENCE, parse_revision, wait_for_revision
from pytest_kwait.simulator.http.negotiation import negotiate_stream
from pytest_kwait.simulator.http.tables import partial_object, table
from pytest_kwait.simulator.kind_view import view
from pytest_kwait.simulator.status_error import StatusError
from pytest_kwait.simulator.store import with_revision

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.list_options import ListOptions
    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.store import Change, Entry

__all__ = ["serve_watch"]

_SHORTEST = 1800
_BOOKMARK_PAUSE = 60.0
_LAST_BOOKMARK = 2.0
_MOST_UNSENT = 32 * 1024 * 1024
"""Bytes that a client may leave unread before its watch is cut."""

_encode = msgspec.json.Encoder().encode


def _framed(event: str, raw: bytes) -> bytes:
    """An event as a line in a chunk of its own."""
    line = b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
    return b"%x\r\n%b\r\n" % (len(line), line)


def _nothing() -> None:
    pass


class _Memory:
    """The latest change's chunk, shared by all watches that show it the same way."""

    key: tuple[int, str, str] = (0, "", "")
    chunk = b""


async def serve_watch(
    api: ClusterApi,
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
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    add_heads(response, request)
    response.enable_chunked_encoding()
    stream = _Stream(api, request, kind, namespace, options, revision)
    await response.prepare(request.http)
    if request.http.transport is None:
        return response
    seconds = options.timeout or random.uniform(_SHORTEST, 2 * _SHORTEST)  # noqa: S311 - spread
    if options.initial_events:
        try:
            await wait_for_revision(api, revision, min(PATIENCE, seconds))
        except StatusError as error:
            stream.fail(request.http.transport, error)
            await response.write_eof()
            return response
    stream.start(request.http.transport)
    try:
        await stream.run(float(seconds))
    finally:
        stream.stop()
    if stream.cut:
        return response
    await response.write_eof()
    return response


class _Stream:
    """One watch."""

    def __init__(
        self,
        api: ClusterApi,
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
        self._headed = True
        self._plain = not self._convert and kind.stored and not kind.custom
        self._view = f"{kind.api_version}|{self._convert}|{self._version}|"
        self._out: list[bytes] = []
        self._planned = False
        self._done = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._unsubscribe: Callable[[], None] = _nothing
        self._loop = asyncio.get_running_loop()

    @property
    def cut(self) -> bool:
        """Whether the connection is gone."""
        return self._transport is None or self._transport.is_closing()

    # -- life

    def start(self, transport: asyncio.Transport) -> None:
        """Send what there is, and follow what comes."""
        self._transport = transport
        options, store = self._options, self._api.store
        if options.initial_events or (options.initial_events is None and not self._revision):
            namespace = self._prefix[:-1] or None
            for entry in store.entries(self._kind.bucket, namespace):
                if self._wanted(entry):
                    self._emit("ADDED", entry)
            if options.initial_events and options.bookmarks:
                self._bookmark(initial=True)
        elif self._revision:
            try:
                for change in store.since(self._kind.bucket, self._revision):
                    self._on_change(change)
            except StatusError as error:
                self.fail(transport, error)
                return
        self._flush()
        self._unsubscribe = store.watch(self._kind.bucket, self._on_change)

    def fail(self, transport: asyncio.Transport, error: StatusError) -> None:
        """Send why there is nothing to follow, and end."""
        self._transport = transport
        self._out.append(_framed("ERROR", _encode(error.status())))
        self._flush()
        self._done.set()

    async def run(self, seconds: float) -> None:
        """Return when the time is over or the stream has ended; bookmarks go out meanwhile."""
        deadline = self._loop.time() + seconds
        while not self._done.is_set():
            left = deadline - self._loop.time()
            if left <= 0:
                break
            pause = min(_BOOKMARK_PAUSE, left)
            if self._options.bookmarks and left > 2 * _LAST_BOOKMARK:
                pause = min(pause, left - _LAST_BOOKMARK)
            try:
                await asyncio.wait_for(self._done.wait(), pause)
            except TimeoutError:
                if self.cut:
                    return
                if self._options.bookmarks and left > 2 * _LAST_BOOKMARK:
                    self._bookmark()
                    self._flush()

    def stop(self) -> None:
        """No longer follow; what is not sent yet goes out."""
        self._unsubscribe()
        self._flush()

    # -- events

    def _wanted(self, entry: Entry) -> bool:
        if self._prefix and not entry.key.startswith(self._prefix):
            return False
        return not self._options.selective or self._options.selects(entry)

    def _on_change(self, change: Change) -> None:
        if self._prefix and not change.new.key.startswith(self._prefix):
            return
        if not self._options.selective:
            self._emit(change.type, change.new)
            return
        before = change.old is not None and self._options.selects(change.old)
        if change.type == "DELETED":
            if before:
                self._emit("DELETED", change.new)
            return
        now = self._options.selects(change.new)
        if now:
            self._emit("MODIFIED" if before else "ADDED", change.new)
        elif before and change.old is not None:
            last = with_revision(change.old.obj, change.revision)
            self._send(self._framed_object("DELETED", last))

    def _emit(self, event: str, entry: Entry) -> None:
        if self._convert == "PartialObjectMetadataList":
            self._done.set()  # an event is no list: upstream ends without a word
            return
        if self._convert == "Table" and self._headed:
            self._send(self._framed_object(event, entry.obj))
            return
        key = (entry.revision, event, self._view + self._query.get("includeObject", ""))
        if _Memory.key == key:
            self._send(_Memory.chunk)
            return
        chunk = _framed(event, entry.raw) if self._plain else self._framed_object(event, entry.obj)
        _Memory.key, _Memory.chunk = key, chunk
        self._send(chunk)

    def _framed_object(self, event: str, obj: Obj) -> bytes:
        if self._convert == "Table":
            body = table(
                self._kind,
                [obj],
                obj["metadata"],
                self._query,
                headed=self._headed,
                version=self._version,
            )
            self._headed = False
        elif self._convert:
            body = partial_object(view(self._kind, obj), self._version)
        else:
            body = view(self._kind, obj)
        return _framed(event, _encode(body))

    def _bookmark(self, *, initial: bool = False) -> None:
        metadata: Obj = {"resourceVersion": str(self._api.store.revision)}
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
                "rows": [{"cells": [], "object": partial_object(obj, self._version)}],
            }
            self._out.append(_framed("BOOKMARK", _encode(body)))
            return
        if self._convert:
            obj = partial_object(obj, self._version)
        self._out.append(_framed("BOOKMARK", _encode(obj)))

    # -- bytes

    def _send(self, chunk: bytes) -> None:
        self._out.append(chunk)
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._planned = False
        transport = self._transport
        if transport is None or not self._out:
            return
        chunks, self._out = self._out, []
        if transport.is_closing():
            self._done.set()
            return
        transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        if transport.get_write_buffer_size() > _MOST_UNSENT:
            transport.abort()
            self._done.set()
