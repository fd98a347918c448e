"""The reflector: synchronizes a store with a collection by list and watch.

Ported from client-go `tools/cache/reflector.go` (with isExpiredError, isWatchErrorRetriable and
VeryShortWatchError). Deliberately different: lists are consistent reads (upstream's first list may
be old, and a test must see its own last write), and 410 relists at once instead of after a pause,
unless the watch before it had no event either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import (
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_text,
)
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.cache.collection_watch import (
    WATCH_INACTIVITY,
    CollectionWatch,
    Outcome,
    Recovery,
    VeryShortWatchError,
)
from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.errors import StartupGrace
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait.client.responses import Item, ObjectList, WatchEvent

LIST_TIMEOUT = 60.0
"""Seconds for a whole list, including all pages."""

MIN_WATCH_TIMEOUT = 300.0
"""Minimum seconds after which the server ends a watch; the maximum is twice that."""

ErrorHandler: TypeAlias = Callable[[Exception], object]
"""Handles the error that ended a list or watch; its own exceptions end the reflector."""

_STORE_METHODS = ("replace", "add", "update", "delete", "bookmark")
_PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 405, 406, 415, 422})
_MALFORMED = "NotJSON"
_MALFORMED_IN_ROW = 3
_BACKOFF = wait.Backoff(duration=0.8, factor=2.0, jitter=1.0, steps=38, cap=30.0)
_BACKOFF_RESET = 120.0

_logger = logging.getLogger("pytest_kwait.cache")


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

    Refused are 400, 401, 403, 404 (of the kind of resource), 405, 406, 415 and 422. A cluster that
    has ended answers nothing more. An error other than `ApiError` has ended the informer.

    Args:
        error: the latest failure; None for none.
        in_row: the number of consecutive failures; unreadable answers count from the third.
    """
    if not isinstance(error, ApiError):
        return error is not None and not isinstance(error, WaitTimeout | VeryShortWatchError)
    if error.reason == _MALFORMED:
        return in_row >= _MALFORMED_IN_ROW
    if isinstance(error, ClusterEnded):
        return True
    return error.status in _PERMANENT_STATUSES


class ReflectorStore(Protocol):
    """The store that a reflector keeps up to date; called in its thread only.

    Objects are decoded as the `ListWatch` specifies; `raw` is their whole JSON.
    """

    def replace(self, items: Sequence[Item], resource_version: str) -> object:
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


def parse_interval(what: str, interval: Duration | None) -> float | None:
    """Return an interval in seconds, above zero; None for never."""
    return None if interval is None else to_seconds(interval, what=what, allow_zero=False)


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
        send_list: lists instead of the collection what of it matters at first, with the version
            from which its watch is to begin; takes the deadline.
        publishes: whether others in this process may follow its watch, which keeps recent events.
        on_batch: called once the store has the events that had arrived together.
    """

    def __init__(
        self,
        lister_watcher: ListWatch,
        store: ReflectorStore,
        *,
        name: str | None = None,
        on_error: ErrorHandler | None = None,
        relist_interval: Duration | None = None,
        list_timeout: Duration = LIST_TIMEOUT,
        inactivity: Duration | None = WATCH_INACTIVITY,
        min_watch_timeout: Duration = MIN_WATCH_TIMEOUT,
        backoff: wait.Backoff = _BACKOFF,
        send_list: Callable[[Deadline], ObjectList] | None = None,
        publishes: bool = True,
        on_batch: Callable[[], object] | None = None,
    ) -> None:
        check_instance("lister_watcher", lister_watcher, ListWatch, "use a cache.ListWatch")
        valid = f"use an object with {', '.join(_STORE_METHODS)}"
        check_methods("store", store, _STORE_METHODS, valid)
        check_instance("backoff", backoff, wait.Backoff, "use a wait.Backoff")
        check_flag("publishes", publishes)
        if name is not None:
            check_text("name", name)
        functions = (("on_error", on_error), ("send_list", send_list), ("on_batch", on_batch))
        for what, function in functions:
            if function is not None:
                check_function(what, function)
        limit = to_seconds(list_timeout, what="list_timeout", allow_zero=False)
        send = send_list or lister_watcher.list
        self._watch = CollectionWatch(
            lister_watcher,
            send_list=lambda deadline: send(deadline.at_most(limit)),
            decide=self._decide,
            on_open=lambda: self._errors.pop("watch", None),
            name=name,
            relist_interval=parse_interval("relist_interval", relist_interval),
            inactivity=parse_interval("inactivity", inactivity),
            min_watch_timeout=to_seconds(min_watch_timeout, what="min_watch_timeout"),
            publishes=publishes,
        )
        self.name = self._watch.name
        self.clock = lister_watcher.clock
        self.failures_in_row = 0
        """The number of failed lists and watches since the last success."""
        self.excused: Exception | None = None
        """The latest refusal that an outage before it may explain; None without one."""
        self._outage = StartupGrace(self.clock)
        self._store = store
        self._on_error = on_error
        self._on_batch = on_batch
        self._backoff = backoff.delay_with_reset(self.clock, _BACKOFF_RESET)
        self._errors: dict[str, Exception] = {}
        self._expired = False
        self._watch.subscribe(self, Deadline.after(None, self.clock))

    @property
    def last_sync_resource_version(self) -> str:
        """The resourceVersion up to which the store is complete; empty at first."""
        return self._watch.resource_version

    @property
    def last_error(self) -> Exception | None:
        """The error of the latest list, or else the latest watch; None after success."""
        return self._errors.get("list") or self._errors.get("watch")

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._watch.stopped

    def stop(self) -> None:
        """End `run`, from any thread and from the store's methods too; returns at once.

        A watch ends at once. The answer of a pending list is dropped.
        """
        self._watch.stop()

    def refresh(self) -> None:
        """List again at once, from any thread."""
        self._watch.refresh()

    def run(self, deadline: Deadline | None = None) -> None:
        """List and watch in this thread; returns once `stop` is called.

        Args:
            deadline: the time limit; None for none.

        Raises:
            DeadlineExceeded: the deadline has passed.
        """
        self._watch.run(deadline)

    def on_list(self, items: Sequence[Item], resource_version: str, requested_at: float) -> None:
        """Replace the store's objects by those of a list."""
        self._store.replace(items, resource_version)
        _logger.debug("Listed %s: %d objects", self.name, len(items))

    def on_events(self, events: Sequence[WatchEvent]) -> None:
        """Update the store."""
        self._expired = False
        self.failures_in_row = 0
        for event in events:
            if self.stopped:
                break
            match event.type:
                case "ADDED":
                    self._store.add(event.object, event.raw)
                case "MODIFIED":
                    self._store.update(event.object, event.raw)
                case "DELETED":
                    self._store.delete(event.object, event.raw)
                case "BOOKMARK":
                    self._store.bookmark(event.resource_version)
                case unknown:
                    _logger.warning("Unknown event %r while watching %s", unknown, self.name)
        if self._on_batch is not None:
            self._on_batch()

    def on_error(self, verb: str, error: Exception) -> None:
        """Handle or log the error of a list or watch."""
        if self._on_error is not None:
            self._on_error(error)
        else:
            level = logging.DEBUG if is_expired(error) else logging.WARNING
            _logger.log(level, "Failed to %s %s: %s", verb, self.name, error)

    def on_end(self, error: BaseException) -> None:
        """Raise the error that ended the list and watch."""
        raise error

    def _decide(self, outcome: Outcome) -> Recovery:
        """Return the next step, and record the error."""
        verb, error = outcome.verb, outcome.error
        if error is None:
            self._record_success(verb)
            return Recovery()
        if isinstance(error, ApiError) and self._outage.record_error(error):
            self.excused = error
        self._errors[verb] = error
        self.failures_in_row += 1
        relist, at_once = True, False
        if is_expired(error):
            at_once, self._expired = not self._expired, True
        elif verb == "watch" and is_watch_error_retriable(error):
            relist = False
        elif (
            verb == "watch"
            and is_connection_lost(error)
            and (outcome.events or not outcome.is_short)
        ):
            relist, at_once = False, True
        if at_once:
            return Recovery(relist)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return Recovery(relist, max(self._backoff(), retry_after or 0.0))

    def _record_success(self, verb: str) -> None:
        self._errors.pop(verb, None)
        if verb == "watch" or "watch" not in self._errors:
            self.failures_in_row = 0
        if verb == "watch":
            self._expired = False
        self._outage.record_success()
