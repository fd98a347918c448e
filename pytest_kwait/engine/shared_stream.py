"""Shared streams: one list and watch per collection for all waits of this process.

A quiet wait costs two requests: the list and the watch. The watch resumes after an ordinary end.
The stream relists after 410, after a watch that ended at once without an event (a server that
cannot serve our version does so), and every few minutes in case an event was lost. If an informer
of this process watches the same collection, the stream follows its watch instead.

Waking up is most of the cost of an event. Frequent events are therefore read in batches;
`EventPace` decides how long a batch collects.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_kwait.cache.shared_watch import SHARED_WATCHES, ResourceCollection
from pytest_kwait.client.watch import Watch
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import ErrorAction, ErrorLog, make_retry_backoff, request_once
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import Context, background, with_cancel
from pytest_kwait.wait.errors import Canceled, DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.cache.shared_watch import SharedWatchFollower
    from pytest_kwait.client.responses import WatchEvent
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Clock
    from pytest_kwait.engine.condition import Source

__all__ = [
    "EventPace",
    "SharedStream",
    "Subscriber",
    "Subscription",
    "follow_informer",
    "subscribe",
]

GATHER = 0.05
"""Seconds for which a busy stream collects a batch of events."""

LONG_GATHER = 0.1
"""The same after `_LONG` consecutive events of a busy stream."""

_LONG = 200
_BUSY = 8
"""Events within `_BUSY_FOR` and the batch time that make a stream busy."""

_BUSY_FOR = 0.1
_BLOCKED = 0.0005


class EventPace:
    """Measures the rate of events, to read busy watches in batches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked = clock.monotonic()
        self._last: deque[float] = deque([-math.inf] * _BUSY, _BUSY)
        self._on_end = 0
        self._gathered = 0.0
        self.is_busy = False
        """True if the watch is busy."""

    def gather(self, events: int = 1, *, drained: bool = False) -> float:
        """Record a batch of events; return the seconds to collect more before the next read.

        Only a busy watch is paused; events that have already arrived are read first.

        Args:
            events: the number of events.
            drained: whether nothing is left to read at once. False if unknown; the time spent
                waiting then decides.

        Returns:
            Seconds; 0 for no pause.
        """
        now = self._clock.monotonic()
        waited, self._asked = now - self._asked, now
        self.is_busy = now - self._last[0] < _BUSY_FOR + self._gathered
        self._on_end = self._on_end + events if self.is_busy else 0
        self._last.extend(itertools.repeat(now, min(events, _BUSY)))
        if not self.is_busy or not (drained or waited > _BLOCKED):
            self._gathered = 0.0
        else:
            self._gathered = GATHER if self._on_end < _LONG else LONG_GATHER
        return self._gathered

    def record_wakeup(self) -> None:
        """Record that the next event is requested now."""
        self._asked = self._clock.monotonic()


def follow_informer(
    session: Session, source: Source, version: str, deadline: Deadline
) -> SharedWatchFollower | None:
    """Follow an informer's watch of a source after a version; None without such an informer.

    The informer may watch more: all namespaces, or all objects of the collection. The events equal
    those of a separate watch, since the wait makes its own list first. The follower ends when the
    informer stops or fails; the wait then opens its own watch.

    Args:
        session: the session, which must be the informer's.
        source: the wait's source.
        version: the version of the wait's list.
        deadline: the end of the watch.
    """
    collection = ResourceCollection.of(
        source.resource, source.namespace, source.selector, source.field_selector
    )
    return SHARED_WATCHES.follow(
        session, collection, version, deadline=deadline, shape=source.fields, by_labels=True
    )


RELIST = 300.0
"""Seconds after which a source is listed again, in case an event was lost."""

INACTIVITY = 90.0
"""Seconds of silence after which a watch counts as dead; bookmarks come about every minute."""

INSTANT = 1.0
"""Seconds within which a watch that ends without an event is not resumed."""

_RESET = 120.0
_random = random.Random()  # noqa: S311 - spreads relists, keeps no secret


class Subscriber(Protocol):
    """Receives lists, events and errors of a stream, in the stream's thread.

    All methods but `process_changes` only queue and return at once: a busy wait must not delay the
    others of its stream.
    """

    def on_list(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        """Queue the objects of a list, and the time of its request."""
        ...

    def on_event(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        """Queue an event: `ADDED`, `MODIFIED` or `DELETED`."""
        ...

    def on_error(self, source: Source, error: ApiError) -> None:
        """Queue an error that is retried."""
        ...

    def on_end(self, source: Source, error: BaseException) -> None:
        """Queue the error that ends the stream."""
        ...

    def process_changes(self) -> None:
        """Process the queue, unless another thread is doing so; that thread then does it."""
        ...


class Subscription:
    """One wait's subscription to a stream.

    Args:
        source: the wait's source.
        subscriber: receives lists, events and errors.
        deadline: the deadline of the wait.
    """

    def __init__(
        self, stream: SharedStream, source: Source, subscriber: Subscriber, deadline: Deadline
    ) -> None:
        self._stream = stream
        self.source = source
        self.subscriber = subscriber
        self.deadline = deadline

    def refresh(self) -> None:
        """List again at once, since a silent watch may be dead."""
        self._stream.refresh()

    def close_if_shared(self) -> bool:
        """Unsubscribe unless this is the only subscription; return whether others remain."""
        return self._stream.close_if_shared(self)

    def close(self) -> None:
        """Unsubscribe; the last subscription to close ends the stream."""
        self._stream.unsubscribe(self)


class SharedStream:
    """One list and watch of a collection, open while it has subscribers.

    A subscriber receives only lists requested after it joined, since an earlier list may be older
    than the test's last write. A stream that has already listed therefore lists again for it.

    Args:
        session: the session of all requests.
        source: the collection.
        ended: called once the stream has ended, in any thread.
    """

    def __init__(
        self, session: Session, source: Source, ended: Callable[[SharedStream], object]
    ) -> None:
        self._session = session
        self._source = source
        self._on_ended = ended
        self._ctx, self._cancel = with_cancel(background(session.clock))
        self._errors = ErrorLog(session.clock)
        self._is_failing = False
        self._version = ""
        self._outdated = threading.Event()
        self._outdated.set()
        self._relist_at = 0.0
        self._watch: Watch | SharedWatchFollower | None = None
        self._lock = threading.Lock()
        self._started = False
        self._ended = False
        # Replaced, never mutated: the reader iterates over them without a lock.
        self._subscriptions: tuple[Subscription, ...] = ()
        self._listed: tuple[Subscription, ...] = ()
        self._thread = threading.Thread(
            target=self._run, name=f"kwait-watch-{source.resource.plural}", daemon=True
        )

    def join(
        self, source: Source, subscriber: Subscriber, deadline: Deadline
    ) -> Subscription | None:
        """Return a subscription of another wait; None if it needs its own stream.

        None is returned once this stream has ended, or while it pauses after an error.
        """
        with self._lock:
            if self._ended or self._is_failing:
                return None
            subscription = Subscription(self, source, subscriber, deadline)
            self._subscriptions += (subscription,)
            starts, self._started = not self._started, True
        if starts:
            self._thread.start()
        else:
            self.refresh()
        return subscription

    def refresh(self) -> None:
        """List again at once, for all subscribers."""
        with self._lock:
            self._outdated.set()
            watch = self._watch
        if watch is not None:
            watch.close()

    def close_if_shared(self, subscription: Subscription) -> bool:
        """Remove a subscription unless it is the only one; return whether others remain."""
        with self._lock:
            others = any(each is not subscription for each in self._subscriptions)
            if others:
                self._drop(subscription)
            return others

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(
            each for each in self._subscriptions if each is not subscription
        )
        self._listed = tuple(each for each in self._listed if each is not subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription; an event in delivery may still reach it."""
        with self._lock:
            self._drop(subscription)
            if self._subscriptions or self._ended:
                return
            self._ended = True
            self._cancel()
            watch = self._watch
        if watch is not None:
            watch.close()
        self._on_ended(self)

    def _run(self) -> None:
        pauses = make_retry_backoff().delay_with_reset(self._session.clock, _RESET)
        try:
            pauses.until(self._ctx, True, True, self._follow)
        except Canceled:
            return
        except BaseException as error:  # raised by the waiting threads
            with self._lock:
                self._ended = True
                subscriptions = self._subscriptions
            self._on_ended(self)
            for subscription in subscriptions:
                subscription.subscriber.on_end(subscription.source, error)
                subscription.subscriber.process_changes()

    def _follow(self, ctx: Context) -> bool:
        """List if needed and watch until the watch ends, repeatedly; never returns."""
        try:
            while ctx.err() is None and self._watch_once():
                self._record_success()
        except DeadlineExceeded:
            # All deadlines had passed: the subscribers leave, or new ones have joined.
            return False
        except ApiError as error:
            decision = self._errors.decide(error)
            if ctx.err() is not None:
                return False
            if decision is ErrorAction.STOP:
                raise
            self._is_failing = True
            if decision is ErrorAction.RELIST:
                self._outdated.set()
            for subscription in self._subscriptions:
                subscription.subscriber.on_error(subscription.source, error)
                subscription.subscriber.process_changes()
            if error.retry_after:
                ctx.wait(error.retry_after)
        return False

    def _record_success(self) -> None:
        self._is_failing = False
        self._errors.record_success()

    def _list(self) -> None:
        source = self._source
        with self._lock:
            self._outdated.clear()
            subscriptions = self._subscriptions
        asked = self._session.clock.monotonic()
        latest = max((subscription.deadline.at for subscription in subscriptions), default=asked)
        try:
            answer = request_once(
                lambda deadline: self._session.list(
                    source.resource,
                    source.namespace,
                    label_selector=source.selector,
                    field_selector=source.field_selector,
                    deadline=deadline,
                    type=source.fields,
                ),
                Deadline(latest, self._session.clock),
            )
        except (ApiError, DeadlineExceeded):
            self._outdated.set()
            raise
        self._errors.repeats = 0
        self._version = answer.resource_version
        items = [(item.object, item.raw) for item in answer.items]
        with self._lock:
            # A subscriber that joined during the request waits for the next list.
            self._listed = tuple(
                subscription
                for subscription in subscriptions
                if subscription in self._subscriptions
            )
            listed = self._listed
        for subscription in listed:
            subscription.subscriber.on_list(subscription.source, items, asked)
            subscription.subscriber.process_changes()

    def _publish(self, events: list[WatchEvent]) -> None:
        """Pass a batch of events to all subscribers."""
        self._version = events[-1].resource_version or self._version
        subscriptions = self._listed
        for event in events:
            if event.type != "BOOKMARK":
                for subscription in subscriptions:
                    subscription.subscriber.on_event(
                        subscription.source, event.type, event.object, event.raw
                    )
        for subscription in subscriptions:
            subscription.subscriber.process_changes()

    def _watch_once(self) -> bool:
        """List if needed, watch until its end; return whether to continue without a pause."""
        clock = self._session.clock
        source = self._source
        if self._outdated.is_set() or clock.monotonic() >= self._relist_at:
            self._relist_at = clock.monotonic() + RELIST * (1 + _random.random() / 5)
            self._list()
            if self._outdated.is_set():
                return True
        left = self._relist_at - clock.monotonic()
        begun = clock.monotonic()
        events = 0
        # For servers that ignore the requested limit.
        over = Deadline.after(left + 5, clock)
        watch: Watch | SharedWatchFollower | None = follow_informer(
            self._session, source, self._version, over
        )
        shared = watch is not None
        if watch is None:
            watch = self._session.watch(
                source.resource,
                source.namespace,
                label_selector=source.selector,
                field_selector=source.field_selector,
                resource_version=self._version,
                inactivity=INACTIVITY,
                timeout_seconds=max(1, round(left)),
                deadline=over,
                type=source.fields,
            )
        with self._lock:
            if self._ctx.done.is_set():
                return False
            if self._outdated.is_set():
                return True
            self._watch = watch
        try:
            with watch:
                self._is_failing = False
                pace = EventPace(clock)
                for together in _read_batches(watch, pace):
                    events += len(together)
                    drained = isinstance(watch, Watch) and watch.drained
                    gather = pace.gather(len(together), drained=drained)
                    self._publish(together)
                    if gather:
                        self._ctx.wait(gather)
                    pace.record_wakeup()
        except DeadlineExceeded:
            pass  # an ordinary end
        finally:
            self._watch = None
        if shared or self._outdated.is_set() or clock.monotonic() - begun >= INSTANT:
            return True
        if events == 0:
            self._outdated.set()
        return False


def _read_batches(
    watch: Watch | SharedWatchFollower, pace: EventPace
) -> Iterator[list[WatchEvent]]:
    """Yield the events of a watch in batches; a busy watch gives larger ones."""
    if not isinstance(watch, Watch):
        yield from ([event] for event in watch)
        return
    while events := watch.read(drain=pace.is_busy):
        yield events


_Key: TypeAlias = tuple[int, str, str | None, str | None, Any]


class _Streams:
    """The open streams of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[_Key, SharedStream] = {}

    def reset_after_fork(self) -> None:
        """Drop all streams: a forked child has none of its parent's threads."""
        self.__init__()  # type: ignore[misc]  # a lock that was held while forking stays held


_streams = _Streams()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_streams.reset_after_fork)


def subscribe(
    session: Session, source: Source, subscriber: Subscriber, deadline: Deadline
) -> Subscription:
    """Subscribe to the stream of a source; opens it if there is none.

    Waits on the same client, kind, namespace, selectors and fields share a stream. Each has
    its own deadline, verdict and errors.

    Args:
        session: the session of all requests.
        source: the source to watch.
        subscriber: receives lists, events and errors.
        deadline: the deadline of the wait.
    """
    # The session lives at least as long as any stream found here.
    path = source.resource.path(source.namespace)
    key = (id(session), path, source.field_selector, source.selector, source.fields)
    with _streams.lock:
        stream = _streams.open.get(key)
        subscription = stream.join(source, subscriber, deadline) if stream is not None else None
        while subscription is None:
            stream = _streams.open[key] = SharedStream(
                session, source, lambda ended: _remove_stream(key, ended)
            )
            subscription = stream.join(source, subscriber, deadline)
    return subscription


def _remove_stream(key: _Key, stream: SharedStream) -> None:
    with _streams.lock:
        if _streams.open.get(key) is stream:
            del _streams.open[key]
