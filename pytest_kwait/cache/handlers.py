"""Event handlers: a thread, a queue, a sync state and a resync period each.

Ported from client-go `tools/cache` (controller.go ResourceEventHandler, shared_informer.go
processorListener, resyncCheckPeriod, shouldResync, determineNextResync). Deliberately different:
there is no common period of checks, so a handler that is added late gets exactly its own period.
"""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from pytest_kwait.apimachinery.durations import Duration, format_duration, to_seconds
from pytest_kwait.cache.sync import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.cache.store import Delta, Object
    from pytest_kwait.clock import Clock

__all__ = [
    "MINIMUM_RESYNC_PERIOD",
    "FilteringResourceEventHandler",
    "HandlerRegistration",
    "ResourceEventHandler",
    "ResourceEventHandlerFuncs",
    "Resyncer",
    "parse_resync_period",
]

_logger = logging.getLogger("pytest_kwait.cache")


class ResourceEventHandler(Protocol):
    """Handles every change of an informer's objects, one call after the other.

    The objects are the handler's own: changing them changes nothing elsewhere.
    """

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Take note of an object that is new, or was there before the watch began."""
        ...

    def on_update(self, old: Object, new: Object) -> None:
        """Take note of a new resourceVersion of an object; its UID is the same.

        At the handler's resync period of every object again, old and new being the same then.
        """
        ...

    def on_delete(self, obj: Object) -> None:
        """Take note of a deletion; a `DeletedFinalStateUnknown` if the final state was missed."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceEventHandlerFuncs:
    """A handler made of functions, each of which may be left out.

    Args:
        add: called with an object that is new.
        update: called with the old and the new state.
        delete: called with the last known state.
    """

    add: Callable[[Object], object] | None = None
    update: Callable[[Object, Object], object] | None = None
    delete: Callable[[Object], object] | None = None

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Call `add`, if given."""
        if self.add is not None:
            self.add(obj)

    def on_update(self, old: Object, new: Object) -> None:
        """Call `update`, if given."""
        if self.update is not None:
            self.update(old, new)

    def on_delete(self, obj: Object) -> None:
        """Call `delete`, if given."""
        if self.delete is not None:
            self.delete(obj)


@dataclass(frozen=True, slots=True)
class FilteringResourceEventHandler:
    """Filters objects for a handler; a change of the filter's answer is an add or a delete.

    Args:
        passes: whether the handler shall see an object in this state.
        handler: the handler.
    """

    passes: Callable[[Object], bool]
    handler: ResourceEventHandler

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Pass on an object that passes the filter."""
        if self.passes(obj):
            self.handler.on_add(obj, is_in_initial_list)

    def on_update(self, old: Object, new: Object) -> None:
        """Pass on as an update, an addition or a deletion, by which of the states pass."""
        before, after = self.passes(old), self.passes(new)
        if before and after:
            self.handler.on_update(old, new)
        elif after:
            self.handler.on_add(new, False)
        elif before:
            self.handler.on_delete(old)

    def on_delete(self, obj: Object) -> None:
        """Pass on an object that passes the filter."""
        if self.passes(obj):
            self.handler.on_delete(obj)


@dataclass(frozen=True, slots=True)
class _Notification:
    delta: Delta
    initial: bool


class _Synced:
    """Everything of the initial list is ahead of this in the queue."""


class _Stop:
    """Nothing is delivered after this."""


_SYNCED: Final = _Synced()
_STOP: Final = _Stop()


class HandlerRegistration:
    """A handler's place at an informer; also a `DoneChecker` of the handler's own sync.

    Made by `SharedInformer.add_event_handler`, not by hand.

    Args:
        handler: the handler.
        name: the handler's name in messages.
    """

    def __init__(self, handler: ResourceEventHandler, name: str) -> None:
        self.name = name
        self.done = Signal()
        """Set once the handler has been called for the whole initial list."""
        self.last_error: BaseException | None = None
        """The last exception of the handler; None without any."""
        self._handler = handler
        self._queue: queue.SimpleQueue[_Notification | _Synced | _Stop] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kwait {name}", daemon=True)

    def has_synced(self) -> bool:
        """Whether the handler has been called for everything that was in the initial list."""
        return self.done.is_set()

    def __repr__(self) -> str:
        return f"<handler {self.name}>"

    def start(self) -> None:
        """Begin to call the handler, in a thread of its own (called by the informer)."""
        self._thread.start()

    def notify(self, delta: Delta, *, initial: bool = False) -> None:
        """Queue a change, of the initial list or a later one (called by the informer)."""
        self._queue.put(_Notification(delta, initial))

    def end_initial_list(self) -> None:
        """Queue the end of the initial list (called by the informer)."""
        self._queue.put(_SYNCED)

    def stop(self) -> None:
        """Stop calling the handler; returns at once, a running call continues."""
        self._stopped.set()
        self._queue.put(_STOP)

    def _run(self) -> None:
        while not isinstance(item := self._queue.get(), _Stop) and not self._stopped.is_set():
            if isinstance(item, _Synced):
                self.done.set()
            else:
                self._deliver(item.delta, initial=item.initial)

    def _deliver(self, delta: Delta, *, initial: bool) -> None:
        old = delta.old_object() if delta.type in {"MODIFIED", "SYNC"} else None
        obj = delta.object()
        try:
            if old is not None:
                self._handler.on_update(old, obj)
            elif delta.type == "DELETED":
                self._handler.on_delete(obj)
            else:
                self._handler.on_add(obj, initial)
        except (
            BaseException
        ) as error:  # any exception, pytest.fail too: the next event must be handled
            self.last_error = error
            _logger.exception("Handler %s failed on %s %s", self.name, delta.type, delta.key)


MINIMUM_RESYNC_PERIOD = 1.0
"""Seconds: shorter periods are made this long."""

_Listener = TypeVar("_Listener")


def parse_resync_period(period: Duration | None, name: str) -> float:
    """Return a resync period in seconds; 0 for never.

    Args:
        period: None and 0 mean never; below a second it is a second, which is logged.
        name: whose it is, for the log.

    Raises:
        InvalidArgument: no duration, or a negative one.
    """
    seconds = 0.0 if period is None else to_seconds(period, what="resync")
    if 0 < seconds < MINIMUM_RESYNC_PERIOD:
        _logger.warning(
            "The resync period of %s, %s, is too short: it is %s",
            name,
            format_duration(seconds),
            format_duration(MINIMUM_RESYNC_PERIOD),
        )
        return MINIMUM_RESYNC_PERIOD
    return seconds


class Resyncer(Generic[_Listener]):
    """Calls a function for each listener whenever its period has passed, in a thread of its own.

    The thread starts with the first listener that has a period.

    Args:
        name: the thread's name.
        clock: the time that periods are measured by.
        tell: called with each due listener; must return quickly.
    """

    def __init__(self, name: str, clock: Clock, tell: Callable[[_Listener], object]) -> None:
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._periods: dict[_Listener, float] = {}
        self._due: dict[_Listener, float] = {}
        self._running = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kwait resync of {name}")
        self._thread.daemon = True

    def add(self, listener: _Listener, period: float) -> None:
        """Call for a listener every `period` seconds from now on; 0 for never."""
        if period <= 0:
            return
        with self._lock:
            self._periods[listener] = period
            self._due[listener] = self._clock.monotonic() + period
        self._start_if_needed()
        self._wake.set()

    def remove(self, listener: _Listener) -> None:
        """Call for a listener no more."""
        with self._lock:
            self._periods.pop(listener, None)
            self._due.pop(listener, None)

    def start(self) -> None:
        """Begin; periods are counted from when their listeners came."""
        self._running = True
        self._start_if_needed()

    def stop(self) -> None:
        """End; returns at once."""
        self._stopped.set()
        self._wake.set()

    def _start_if_needed(self) -> None:
        with self._lock:
            if (
                self._running
                and self._periods
                and not self._stopped.is_set()
                and self._thread.ident is None
            ):
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            for listener in self._take_due():
                self._tell(listener)
            with self._lock:
                earliest = min(self._due.values(), default=None)
            if self._stopped.is_set():
                return
            pause = None if earliest is None else max(0.0, earliest - self._clock.monotonic())
            self._clock.wait(self._wake, pause)

    def _take_due(self) -> list[_Listener]:
        """Return the due listeners, and set their next time."""
        now = self._clock.monotonic()
        with self._lock:
            due = [listener for listener, at in self._due.items() if at <= now]
            for listener in due:
                self._due[listener] = now + self._periods[listener]
        return due
