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

from pytest_kwait.apimachinery.arguments import check_answer, check_function, check_methods
from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.cache.sync import Signal
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.cache.store import Delta, Object
    from pytest_kwait.cache.sync import DoneChecker
    from pytest_kwait.clock import Clock

MINIMUM_RESYNC_PERIOD = 1.0
"""The minimum resync period in seconds."""

_logger = logging.getLogger("pytest_kwait.cache")
_Listener = TypeVar("_Listener")


class ResourceEventHandler(Protocol):
    """Handles every change of an informer's objects, one call at a time.

    The objects are copies; changing them has no effect elsewhere.
    """

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Handle an object that is new, or was listed before the watch began."""
        ...

    def on_update(self, old: Object, new: Object) -> None:
        """Handle a new resourceVersion of an object with the same UID.

        Also called for every object at each resync; old and new are the same then.
        """
        ...

    def on_delete(self, obj: Object) -> None:
        """Handle a deletion; a `DeletedFinalStateUnknown` if the final state was missed."""
        ...


def check_handler(handler: object) -> None:
    """Check a handler.

    Raises:
        InvalidArgument: it lacks one of the methods, or has an async one.
    """
    methods = ("on_add", "on_update", "on_delete")
    check_methods("handler", handler, methods, f"use an object with {', '.join(methods)}")


@dataclass(frozen=True, slots=True)
class ResourceEventHandlerFuncs:
    """A handler made of functions, each of which is optional.

    Args:
        add: called with an object that is new.
        update: called with the old and the new state.
        delete: called with the last known state.
    """

    add: Callable[[Object], object] | None = None
    update: Callable[[Object, Object], object] | None = None
    delete: Callable[[Object], object] | None = None

    def __post_init__(self) -> None:
        for name in ("add", "update", "delete"):
            if getattr(self, name) is not None:
                check_function(name, getattr(self, name))

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Call `add`, if given."""
        if self.add is not None:
            check_answer("result of add", self.add(obj))

    def on_update(self, old: Object, new: Object) -> None:
        """Call `update`, if given."""
        if self.update is not None:
            check_answer("result of update", self.update(old, new))

    def on_delete(self, obj: Object) -> None:
        """Call `delete`, if given."""
        if self.delete is not None:
            check_answer("result of delete", self.delete(obj))


@dataclass(frozen=True, slots=True)
class FilteringResourceEventHandler:
    """Filters objects for a handler; a changed filter result is an add or a delete.

    Args:
        passes: whether the handler receives an object in this state.
    """

    passes: Callable[[Object], bool]
    handler: ResourceEventHandler

    def __post_init__(self) -> None:
        check_function("passes", self.passes)
        check_handler(self.handler)

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Pass on an object that passes the filter."""
        if self.passes(obj):
            self.handler.on_add(obj, is_in_initial_list)

    def on_update(self, old: Object, new: Object) -> None:
        """Pass on as an update, add or delete, depending on which states pass."""
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
    """Marks the end of the initial list in the queue."""


class _Stop:
    """Marks the end of the queue."""


_SYNCED: Final = _Synced()
_STOP: Final = _Stop()


class HandlerRegistration:
    """The registration of a handler; also a `DoneChecker` of the handler's own sync.

    Returned by `SharedInformer.add_event_handler`.

    Args:
        name: the handler's name in messages.
        informer: the informer that calls it; None for none.
    """

    def __init__(
        self, handler: ResourceEventHandler, name: str, informer: DoneChecker | None = None
    ) -> None:
        self.name = name
        self.informer: DoneChecker = informer or self
        """The informer that calls the handler."""
        self.done: Signal = Signal()
        """Set once the handler has been called for the whole initial list."""
        self.last_error: BaseException | None = None
        """The last exception of the handler; None without one."""
        self._handler = handler
        self._queue: queue.SimpleQueue[_Notification | _Synced | _Stop] = queue.SimpleQueue()
        self._worker = Worker(f"kwait {name}", self._run)

    def has_synced(self) -> bool:
        """True once the handler has been called for every object of the initial list."""
        return self.done.is_set()

    def __repr__(self) -> str:
        return f"<handler {self.name}>"

    def start(self) -> None:
        """Start calling the handler, in a thread of its own (called by the informer)."""
        self._worker.start()

    def notify(self, delta: Delta, *, initial: bool = False) -> None:
        """Queue a change, of the initial list or a later one (called by the informer)."""
        self._queue.put(_Notification(delta, initial))

    def end_initial_list(self) -> None:
        """Queue the end of the initial list (called by the informer)."""
        self._queue.put(_SYNCED)

    def stop(self) -> None:
        """Stop calling the handler; returns at once, a running call continues."""
        self._worker.stop()
        self._queue.put(_STOP)

    def _run(self) -> None:
        while not isinstance(item := self._queue.get(), _Stop) and not self._worker.is_stopped:
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


def parse_resync_period(period: Duration | None, name: str) -> float:
    """Return a resync period in seconds; 0 for never.

    Args:
        period: None and 0 mean never; a period below a second is raised to one and logged.
        name: the owner of the period, for the log.

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
    """Calls a function for each listener at its own period, in a separate thread.

    The thread starts with the first listener that has a period.

    Args:
        name: the thread's name.
        clock: measures the periods.
        resync: called with each due listener; must return quickly.
    """

    def __init__(self, name: str, clock: Clock, resync: Callable[[_Listener], object]) -> None:
        self._clock = clock
        self._resync = resync
        self._lock = threading.Lock()
        self._periods: dict[_Listener, float] = {}
        self._due: dict[_Listener, float] = {}
        self._running = False
        self._worker = Worker(f"kwait resync of {name}", self._run, clock)

    def add(self, listener: _Listener, period: float) -> None:
        """Call for a listener every `period` seconds from now on; 0 for never."""
        if period <= 0:
            return
        with self._lock:
            self._periods[listener] = period
            self._due[listener] = self._clock.monotonic() + period
        self._start_if_needed()
        self._worker.wake()

    def remove(self, listener: _Listener) -> None:
        """Stop calling for a listener."""
        with self._lock:
            self._periods.pop(listener, None)
            self._due.pop(listener, None)

    def start(self) -> None:
        """Start; periods count from when their listeners were added."""
        self._running = True
        self._start_if_needed()

    def stop(self) -> None:
        """Stop; returns at once."""
        self._worker.stop()

    def _start_if_needed(self) -> None:
        with self._lock:
            if (
                self._running
                and self._periods
                and not self._worker.is_stopped
                and not self._worker.is_started
            ):
                self._worker.start()

    def _run(self) -> None:
        while self._worker.pause(self._next_pause()):
            for listener in self._take_due():
                self._resync(listener)

    def _next_pause(self) -> float | None:
        """Return the seconds until the first listener is due; None without any."""
        with self._lock:
            earliest = min(self._due.values(), default=None)
        return None if earliest is None else max(0.0, earliest - self._clock.monotonic())

    def _take_due(self) -> list[_Listener]:
        """Return the due listeners, and set their next times."""
        now = self._clock.monotonic()
        with self._lock:
            due = [listener for listener, at in self._due.items() if at <= now]
            for listener in due:
                self._due[listener] = now + self._periods[listener]
        return due
