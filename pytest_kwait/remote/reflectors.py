"""Reflectors of a mirror: threads that list and watch, and their changes on the event loop.

A reflector of `cache` lists and watches in a thread. The mirror belongs to the event loop, where
components read it. So changes are queued, and the loop takes them in order. A full queue holds the
reflectors up until the loop has caught up.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.reflector import Reflector, is_permanent
from pytest_kwait.client.resource import Resource
from pytest_kwait.errors import ApiError
from pytest_kwait.remote.rest_client import make_status_error
from pytest_kwait.wait import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.client.responses import Item, ObjectList
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.remote.mirror import Mirror
    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_log = logging.getLogger(__name__)

_MAX_QUEUED = 1000
"""Changes, a list counting as one, after which reflectors wait for the loop."""
_MAX_AT_ONCE = 100
"""Changes that the loop takes before it serves others."""
_BACKOFF = Backoff(0.1, factor=2.0, jitter=1.0, steps=38, cap=30.0)
"""Pauses after errors: the kinds of a new definition are served a moment after it."""
_JOIN_SECONDS = 5.0
"""Seconds for the end of a thread, which a server that answers no list would hold up."""


class LoopQueue:
    """Calls from threads, made in order on the running event loop.

    Args:
        limit: the number of calls that may wait.
    """

    def __init__(self, limit: int = _MAX_QUEUED) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._calls: deque[Callable[[], object]] = deque()
        self._is_scheduled = False
        self._is_closed = False

    def put(self, calls: Iterable[Callable[[], object]]) -> None:
        """Let the loop make calls; waits while too many are waiting. No-op once closed."""
        with self._lock:
            while len(self._calls) >= self._limit and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return
            self._calls.extend(calls)
            is_scheduled, self._is_scheduled = self._is_scheduled, True
        if not is_scheduled:
            # Without the lock, which the loop takes as soon as it is awake.
            self._loop.call_soon_threadsafe(self._run)

    def close(self) -> None:
        """Drop the calls that wait, and let all threads go on."""
        with self._lock:
            self._is_closed = True
            self._calls.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        with self._lock:
            count = min(len(self._calls), _MAX_AT_ONCE)
            calls = deque(self._calls.popleft() for _ in range(count))
            self._changed.notify_all()
        try:
            while calls and not self._is_closed:
                calls.popleft()()
        finally:
            with self._lock:
                if not self._is_closed:
                    # Those after a call that has failed.
                    self._calls.extendleft(reversed(calls))
                self._is_scheduled = bool(self._calls)
                if self._calls:
                    self._loop.call_soon(self._run)


class MirrorReflector:
    """Mirrors the objects of one kind, in a thread of its own.

    Args:
        session: the session of its lists and watches.
        mirror: where the objects go.
        kind: the kind, in a version that is served.
        queue: the way to the mirror's event loop.
    """

    def __init__(self, session: ApiSession, mirror: Mirror, kind: Kind, queue: LoopQueue) -> None:
        self._mirror = mirror
        self._kind = kind
        self._queue = queue
        self._calls: list[Callable[[], object]] = []
        """The changes of the events in delivery."""
        self._deletions = 0
        self._error: StatusError | None = None
        self._listed = asyncio.Event()
        self._is_stopped = False
        self._lister_watcher = ListWatch(session, resource_of(kind))
        self._reflector = Reflector(
            self._lister_watcher,
            self,
            name=kind.qualified,
            on_error=self._on_error,
            backoff=_BACKOFF,
            send_list=self._send_list,
            publishes=False,
            on_batch=self._flush,
        )
        name = f"kwait-mirror-{kind.qualified}"
        self._thread = threading.Thread(target=self._reflector.run, name=name, daemon=True)

    def start(self) -> None:
        """List, and follow the changes after the list."""
        self._thread.start()

    async def wait_listed(self) -> None:
        """Return once the objects of the first list are in the mirror.

        Raises:
            StatusError: the server refuses to list.
        """
        await self._listed.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop; the objects stay in the mirror, and it changes no more."""
        self._is_stopped = True
        self._reflector.stop()

    def join(self) -> None:
        """Wait for the end of the thread and its connections, after `stop`."""
        if self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)

    # -- called by the reflector in its thread

    def replace(self, items: Sequence[Item], resource_version: str) -> None:
        """Let the mirror have the objects of a list."""
        objects = [self._complete(item.object) for item in items]
        self._queue_call(self._replace, objects, resource_version, self._deletions)
        self._flush()

    def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Let the mirror have an object."""
        self._queue_call(self._mirror.set, self._kind.bucket, obj)

    update = add

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Let the mirror remove an object."""
        self._queue_call(self._mirror.discard_watched, self._kind.bucket, obj)

    def bookmark(self, resource_version: str) -> None:
        """Ignore it: the reflector itself resumes from there."""

    def _send_list(self, deadline: Deadline) -> ObjectList:
        # Deletions that are answered from now on may be missing in the list.
        self._deletions = self._mirror.deletions
        return self._lister_watcher.list(deadline)

    def _complete(self, obj: Obj) -> Obj:
        """Return an object of a list with what only the list has said."""
        return {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **obj}

    def _on_error(self, error: Exception) -> None:
        _log.debug("%s: %s", self._kind.qualified, error)
        if isinstance(error, ApiError) and is_permanent(error):
            self._queue_call(self._refuse, make_status_error(error))
            self._flush()

    def _queue_call(self, call: Callable[..., object], *arguments: object) -> None:
        self._calls.append(partial(self._call, call, *arguments))

    def _flush(self) -> None:
        """Hand over all at once: each time that the loop is woken costs as much as some changes."""
        calls, self._calls = self._calls, []
        self._queue.put(calls)

    # -- called on the event loop

    def _call(self, call: Callable[..., object], *arguments: object) -> None:
        if not self._is_stopped:
            call(*arguments)

    def _replace(self, objects: list[Obj], resource_version: str, deletions: int) -> None:
        try:
            self._mirror.replace(self._kind.bucket, objects, resource_version, deletions)
        finally:
            self._listed.set()

    def _refuse(self, error: StatusError) -> None:
        if not self._listed.is_set():
            self._error = error
            self._listed.set()


@lru_cache(maxsize=512)
def resource_of(kind: Kind) -> Resource:
    """Return a kind as the resource of requests."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
