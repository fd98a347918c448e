"""The reflector: synchronizes a store with a collection by list and watch.

Ported from client-go `tools/cache/reflector.go` (with isExpiredError, isWatchErrorRetriable and
VeryShortWatchError). Deliberately different: lists are consistent reads (upstream's first list may
be old, and a test must see its own last write), and 410 relists at once instead of after a pause,
unless the watch before it had no event either.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_kwait import wait
from pytest_kwait.cache.shared_watch import SHARED_WATCHES, parse_resource_version
from pytest_kwait.cache.transform import TransformError
from pytest_kwait.client.errors import StartupGrace
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, KwaitError, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait.cache.listwatch import EventStream, ListWatch, WatchedEvent
    from pytest_kwait.cache.shared_watch import SharedWatch, SharedWatchFollower
    from pytest_kwait.cache.store import Listed

__all__ = [
    "LIST_TIMEOUT",
    "MIN_WATCH_TIMEOUT",
    "WATCH_INACTIVITY",
    "ErrorHandler",
    "Reflector",
    "ReflectorStore",
    "VeryShortWatchError",
    "is_connection_lost",
    "is_expired",
    "is_permanent",
    "is_watch_error_retriable",
]

_PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 405, 406, 415, 422})
_MALFORMED = "NotJSON"
_MALFORMED_IN_ROW = 3


class VeryShortWatchError(KwaitError):
    """A watch ended at once without an event, as with a broken proxy.

    Args:
        name: the watched collection.
        seconds: the duration of the watch.
    """

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name, seconds)
        self.name = name
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the watch of {self.name} ended after {self.seconds:.3f} s without any event"


def is_expired(error: Exception) -> bool:
    """Return whether the server has dropped the events after our resourceVersion."""
    return isinstance(error, ApiError) and (
        error.status == 410 or error.reason in {"Expired", "Gone"}
    )


def is_watch_error_retriable(error: Exception) -> bool:
    """Return whether the server is only overloaded, so that the watch can resume later."""
    return isinstance(error, ApiError) and (
        error.status == 429 or (error.status == 0 and error.reason == "ConnectionRefused")
    )


def is_connection_lost(error: Exception) -> bool:
    """Return whether the connection failed rather than the request, so that no event is lost."""
    return isinstance(error, ApiError) and error.status == 0


def is_permanent(error: Exception | None, *, in_row: int = 1) -> bool:
    """Return whether retrying is pointless: a refused request, or unreadable answers.

    Refused are 400, 401, 403, 404 (of the kind of resource), 405, 406, 415 and 422. An error other
    than `ApiError` has ended the informer.

    Args:
        error: the latest failure; None for none.
        in_row: the number of consecutive failures; unreadable answers count from the third.
    """
    if not isinstance(error, ApiError):
        return error is not None and not isinstance(error, WaitTimeout | VeryShortWatchError)
    if error.reason == _MALFORMED:
        return in_row >= _MALFORMED_IN_ROW
    return error.status in _PERMANENT_STATUSES


LIST_TIMEOUT = 60.0
"""Seconds for a whole list, including all pages."""

MIN_WATCH_TIMEOUT = 300.0
"""Minimum seconds after which the server ends a watch; the maximum is twice that."""

WATCH_INACTIVITY = 90.0
"""Seconds without a byte after which a watch counts as lost: bookmarks arrive every minute."""

_BACKOFF = wait.Backoff(duration=0.8, factor=2.0, jitter=1.0, steps=38, cap=30.0)
_BACKOFF_RESET = 120.0
_SHORT_WATCH = 1.0
_GRACE = 30.0

_logger = logging.getLogger("pytest_kwait.cache")
_random = random.Random()  # noqa: S311 - spreads reconnections, keeps no secret

ErrorHandler: TypeAlias = Callable[[Exception], object]
"""Handles the error that ended a list or watch; its own exceptions end the reflector."""


class ReflectorStore(Protocol):
    """The store that a reflector keeps up to date; called in its thread only.

    Objects are decoded as the `ListWatch` specifies; `raw` is their whole JSON.
    """

    def replace(self, items: Sequence[Listed], resource_version: str) -> object:
        """Replace the whole collection."""
        ...

    def add(self, obj: Mapping[str, Any], raw: bytes) -> object:
        """Add an object."""
        ...

    def update(self, obj: Mapping[str, Any], raw: bytes) -> object:
        """Update an object."""
        ...

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> object:
        """Remove an object that has left the collection; this is its final state."""
        ...

    def bookmark(self, resource_version: str) -> object:
        """Record that nothing else has changed up to this version."""
        ...


class Reflector:
    """Synchronizes a store with the server's collection until stopped.

    It lists, then watches from the list's version with bookmarks; each event has a constant cost.
    The end of a watch is handled by its cause. A watch that ran is resumed at once; after
    429 or a refused connection, after a pause. A 410 relists at once. Anything else relists after a
    pause, also a clean end without an event within a second. Pauses grow from 0.8 s to 30 s, with
    jitter of up to 100 %, and reset after two minutes. Retry-After extends them. No error ends the
    reflector; waits read `last_error`.

    Args:
        lister_watcher: the collection.
        store: the store to update; its exceptions end the reflector.
        name: the collection's name in messages; None for its own.
        on_error: handles the error that ended a list or watch; None to log it.
        relist_interval: seconds after which to relist despite a working watch; None for never.
        list_timeout: seconds for a list.
        inactivity: seconds of silence after which a watch counts as lost; None for never.
        min_watch_timeout: the minimum seconds after which the server ends a watch; the actual
            value is chosen at random up to twice that.
        backoff: the pauses, instead of those above.
    """

    def __init__(
        self,
        lister_watcher: ListWatch,
        store: ReflectorStore,
        *,
        name: str | None = None,
        on_error: ErrorHandler | None = None,
        relist_interval: float | None = None,
        list_timeout: float = LIST_TIMEOUT,
        inactivity: float | None = WATCH_INACTIVITY,
        min_watch_timeout: float = MIN_WATCH_TIMEOUT,
        backoff: wait.Backoff = _BACKOFF,
    ) -> None:
        self.name = name or lister_watcher.name
        self.clock = lister_watcher.clock
        self.last_sync_resource_version = ""
        """The resourceVersion up to which the store is complete; empty at first."""
        self.failures_in_row = 0
        """The number of failed lists and watches since the last success."""
        self.excused: Exception | None = None
        """The latest refusal that an outage before it may explain; None without one."""
        self._outage = StartupGrace(self.clock)
        self._lister_watcher = lister_watcher
        self._store = store
        self._on_error = on_error
        self._relist_interval = math.inf if relist_interval is None else relist_interval
        self._list_timeout = list_timeout
        self._inactivity = inactivity
        self._min_watch_timeout = min_watch_timeout
        self._backoff = backoff.delay_with_reset(self.clock, _BACKOFF_RESET)
        self._context, self._cancel = wait.with_cancel(wait.background(self.clock))
        self._lock = threading.Lock()
        self._stream: EventStream | None = None
        self._errors: dict[str, Exception] = {}
        self._list_due_at = -math.inf
        self._events = 0
        self._shared_watch: SharedWatch | None = None
        self._followed = False
        self._caught_up = False
        self._expired = False
        self._pause = 0.0

    @property
    def last_error(self) -> Exception | None:
        """The error of the latest list, or else the latest watch; None after success."""
        return self._errors.get("list") or self._errors.get("watch")

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._context.done.is_set()

    def stop(self) -> None:
        """End `run`, from any thread and from the store's methods too; returns at once.

        A watch ends at once. The answer of a pending list is dropped.
        """
        self._cancel()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def run(self, deadline: Deadline | None = None) -> None:
        """List and watch in this thread; returns once `stop` is called.

        Args:
            deadline: the time limit; None for none.

        Raises:
            DeadlineExceeded: the deadline has passed.
        """
        limit = deadline or Deadline.after(None, self.clock)
        context, _ = wait.with_deadline(self._context, limit)
        try:
            if context.err() is None:
                steps = wait.DelayFunc(lambda: self._pause)
                steps.until(context, immediate=True, sliding=True, condition=self._step)
        except wait.Canceled:
            _logger.debug("Stopped listing and watching %s", self.name)
        finally:
            self._stop_publishing()

    def _step(self, context: wait.Context) -> bool:
        """Run one list or watch, and set the pause after it; return whether to continue."""
        self._pause = 0.0
        verb = "list" if self.clock.monotonic() >= self._list_due_at else "watch"
        begun, events = self.clock.monotonic(), self._events
        self._followed = False
        try:
            if verb == "list":
                self._list(context)
            else:
                self._watch(context)
            failure: Exception | None = None
        except (ApiError, WaitTimeout, TransformError) as error:
            failure = error
        if context.err() is not None:
            return False  # the loop ends: the result of a stopped request is ignored
        lasted = self.clock.monotonic() - begun
        short = verb == "watch" and lasted < _SHORT_WATCH and self._events == events
        if failure is None and short and not self._followed:
            failure = VeryShortWatchError(self.name, lasted)
        if verb == "watch" and isinstance(failure, WaitTimeout):
            failure = None  # it ran for its full duration
        if failure is not None:
            self._recover(verb, failure, short=short)
        else:
            self._record_success(verb)
        return False

    def _record_success(self, verb: str) -> None:
        self._errors.pop(verb, None)
        if verb == "watch" or "watch" not in self._errors:
            self.failures_in_row = 0
        if verb == "watch":
            self._expired = False
        self._outage.over()

    def _recover(self, verb: str, failure: Exception, *, short: bool) -> None:
        """Choose the next step and its pause, then report the error."""
        self._stop_publishing()
        if isinstance(failure, ApiError) and self._outage.tolerates(failure):
            self.excused = failure
        self._errors[verb] = failure
        self.failures_in_row += 1
        relist, at_once = True, False
        if is_expired(failure):
            at_once, self._expired = not self._expired, True
        elif verb == "watch" and is_watch_error_retriable(failure):
            relist = False
        elif verb == "watch" and is_connection_lost(failure) and not short:
            relist, at_once = False, True
        if relist:
            self._list_due_at = -math.inf
        if not at_once:
            asked = failure.retry_after if isinstance(failure, ApiError) else None
            self._pause = max(self._backoff(), asked or 0.0)
        if self._on_error is not None:
            self._on_error(failure)
        else:
            level = logging.DEBUG if is_expired(failure) else logging.WARNING
            _logger.log(level, "Failed to %s %s: %s", verb, self.name, failure)

    def _stop_publishing(self) -> None:
        """Stop publishing; followers open their own watch."""
        if self._shared_watch is not None:
            self._shared_watch.end()
            self._shared_watch = None

    def _list(self, context: wait.Context) -> None:
        self._stop_publishing()
        deadline = context.deadline.at_most(self._list_timeout)
        listed = self._lister_watcher.list(deadline=deadline)
        if context.err() is not None:
            return
        self._list_due_at = self.clock.monotonic() + self._relist_interval
        self._store.replace(listed.items, listed.resource_version)
        self.last_sync_resource_version = listed.resource_version
        _logger.debug("Listed %s: %d objects", self.name, len(listed.items))

    def _watch(self, context: wait.Context) -> None:
        least = self._min_watch_timeout
        timeout = int(least + _random.random() * least)
        left = self._list_due_at - self.clock.monotonic()
        deadline = context.deadline.at_most(min(timeout + _GRACE, left))
        stream: EventStream | None = self._follow(deadline)
        if self._followed and stream is None:
            return
        if stream is None:
            stream = self._lister_watcher.watch(
                self.last_sync_resource_version,
                timeout_seconds=timeout,
                inactivity=self._inactivity,
                deadline=deadline,
            )
        try:
            with self._lock:
                self._stream = stream
            if self.stopped:  # `stop` was called before the stream was known
                stream.close()
            with stream as events:
                self._errors.pop("watch", None)  # the server took the request
                if self._shared_watch is not None:
                    self._shared_watch.record_activity()
                for event in events:
                    if self.stopped:
                        return
                    self._take(event)
        finally:
            with self._lock:
                self._stream = None

    def _follow(self, deadline: Deadline) -> SharedWatchFollower | None:
        """Follow another reflector's watch; publish the own watch if there is none."""
        if self._shared_watch is not None and not self._shared_watch.ended:
            return None
        watched = self._lister_watcher
        feed = SHARED_WATCHES.follow(
            watched.session,
            watched.collection,
            self.last_sync_resource_version,
            deadline=deadline,
            shape=watched.type,
        )
        if feed is None:
            self._shared_watch = SHARED_WATCHES.publish(
                watched.session,
                watched.collection,
                self.last_sync_resource_version,
                clock=self.clock,
                silence=self._inactivity,
            )
            comparable = parse_resource_version(self.last_sync_resource_version) is not None
            if self._shared_watch is None and comparable and not self._caught_up:
                # Published from a later version on: one more list spares a watch for long.
                self._followed = self._caught_up = True
                self._list_due_at = -math.inf
                return None
        self._caught_up = False
        self._followed = feed is not None
        return feed

    def _take(self, event: WatchedEvent) -> None:
        self._events += 1
        self._expired = False
        self.failures_in_row = 0
        version = event.resource_version
        if self._shared_watch is not None and not self._followed:
            self._shared_watch.broadcast(event.type, event.object, event.raw, version)
        match event.type:
            case "ADDED":
                self._store.add(event.object, event.raw)
            case "MODIFIED":
                self._store.update(event.object, event.raw)
            case "DELETED":
                self._store.delete(event.object, event.raw)
            case "BOOKMARK":
                self._store.bookmark(version)
            case unknown:
                _logger.warning("Unknown event %r while watching %s", unknown, self.name)
        if version:
            self.last_sync_resource_version = version
