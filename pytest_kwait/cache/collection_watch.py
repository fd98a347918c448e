"""One list and watch of a collection, for all its subscribers in this process.

It lists, then watches from the list's version with bookmarks. A quiet collection costs two
requests: the list and the watch, which resumes after an ordinary end. It lists again when its retry
policy says so (after 410, or after a watch that ended at once without an event), when a subscriber
joins, and after an interval in case an event was lost. If an informer of this process watches the
same collection, its watch is followed instead of a further one.

Waking up is most of the cost of an event. Frequent events can therefore be read in batches;
`EventPace` decides how long a batch collects.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_kwait.cache.listwatch import SHARED_WATCHES, parse_resource_version
from pytest_kwait.cache.transform import TransformError
from pytest_kwait.client.watch import Watch
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, KwaitError, WaitTimeout
from pytest_kwait.wait.backoff import DelayFunc
from pytest_kwait.wait.context import (
    Canceled,
    Context,
    DeadlineExceeded,
    background,
    with_cancel,
    with_deadline,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.cache.listwatch import ListWatch, SharedWatch, SharedWatchFollower
    from pytest_kwait.client.responses import Item, ObjectList, WatchEvent
    from pytest_kwait.clock import Clock

WATCH_INACTIVITY = 90.0
"""Seconds without a byte after which a watch counts as lost: bookmarks arrive every minute."""

GATHER = 0.05
"""Seconds for which a busy watch collects a batch of events."""

LONG_GATHER = 0.1
"""The same after `_LONG` consecutive events of a busy watch."""

_LONG = 200
_BUSY = 8
"""Events within `_BUSY_FOR` and the batch time that make a watch busy."""

_BUSY_FOR = 0.1
_BLOCKED = 0.0005

_SHORT_WATCH = 1.0
_GRACE = 30.0
_RELIST_GRACE = 5.0

_logger = logging.getLogger("pytest_kwait.cache")
_random = random.Random()  # noqa: S311 - spreads reconnections, keeps no secret


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


class EventPace:
    """Measures the rate of events, to read busy watches in batches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requested_at = clock.monotonic()
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
        waited, self._requested_at = now - self._requested_at, now
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
        self._requested_at = self._clock.monotonic()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one list or watch.

    Args:
        verb: `list` or `watch`.
        error: its error; None for an ordinary end.
        is_short: whether a watch of its own ended by itself within a second.
        events: the number of events of a watch.
    """

    verb: str
    error: Exception | None = None
    is_short: bool = False
    events: int = 0


@dataclass(frozen=True, slots=True)
class Recovery:
    """The next step after a list or watch.

    Args:
        relist: whether to list again.
        pause: seconds before the next request.
    """

    relist: bool = False
    pause: float = 0.0


RetryPolicy: TypeAlias = Callable[[Outcome], Recovery]
"""Returns the next step; raises the error to end the collection watch."""


class Subscriber(Protocol):
    """Receives the objects and events of a collection, in the thread that reads them.

    If it has several subscribers, each must return soon, to delay no other one.
    """

    def on_list(self, items: Sequence[Item], resource_version: str, requested_at: float) -> None:
        """Receive the objects of a list.

        Args:
            items: the objects; not to be changed if there are several subscribers.
            resource_version: the version of the list.
            requested_at: the time of its request, in monotonic seconds.
        """
        ...

    def on_events(self, events: Sequence[WatchEvent]) -> None:
        """Receive one or more events, bookmarks included."""
        ...

    def on_error(self, verb: str, error: Exception) -> None:
        """Receive the error of a `list` or `watch` that is retried."""
        ...

    def on_end(self, error: BaseException) -> None:
        """Receive the error that ended the collection watch."""
        ...


class Subscription:
    """One subscriber of a collection watch.

    Args:
        subscriber: receives objects, events and errors.
        deadline: the limit of its lists.
    """

    def __init__(self, watch: CollectionWatch, subscriber: Subscriber, deadline: Deadline) -> None:
        self._watch = watch
        self.subscriber = subscriber
        self.deadline = deadline

    def refresh(self) -> None:
        """List again at once, since a silent watch may be dead."""
        self._watch.refresh()

    def close_if_shared(self) -> bool:
        """Unsubscribe unless this is the only subscription; return whether others remain."""
        return self._watch.unsubscribe(self, only_if_shared=True)

    def close(self) -> None:
        """Unsubscribe; the last subscription to close ends the collection watch."""
        self._watch.unsubscribe(self)


class CollectionWatch:
    """Lists and watches one collection until it is stopped or its last subscriber leaves.

    A subscriber receives only lists requested after it joined, since an earlier list may be older
    than the test's last write.

    Args:
        lister_watcher: the collection.
        send_list: lists it; takes the deadline.
        decide: returns the next step after each list and watch.
        on_open: called when the server has accepted a watch.
        name: the collection's name in messages; None for its own.
        relist_interval: seconds after which to list again despite a working watch; None for never.
        inactivity: seconds of silence after which a watch counts as lost; None for never.
        min_watch_timeout: the minimum seconds after which the server ends a watch; the actual
            value is chosen at random up to twice that. None for the time of the next list.
        publishes: whether other collection watches may follow its watch. It then follows no watch
            that it would have to filter by labels: the final state of an object would differ.
        in_batches: whether frequent events are delivered in batches, up to 0.1 s late.
    """

    def __init__(
        self,
        lister_watcher: ListWatch,
        *,
        send_list: Callable[[Deadline], ObjectList],
        decide: RetryPolicy,
        on_open: Callable[[], object] = lambda: None,
        name: str | None = None,
        relist_interval: float | None = None,
        inactivity: float | None = None,
        min_watch_timeout: float | None = None,
        publishes: bool = False,
        in_batches: bool = False,
    ) -> None:
        self.name = name or lister_watcher.name
        self.lister_watcher = lister_watcher
        self.resource_version = ""
        """The version up to which all subscribers are complete; empty at first."""
        self._clock = lister_watcher.clock
        self._send_list = send_list
        self._decide = decide
        self._on_open = on_open
        self._relist_interval = math.inf if relist_interval is None else relist_interval
        self._inactivity = inactivity
        self._min_watch_timeout = min_watch_timeout
        self._publishes = publishes
        self._in_batches = in_batches
        self._ctx, self._cancel = with_cancel(background(self._clock))
        self._lock = threading.Lock()
        # Replaced, never mutated: the reader iterates over them without a lock.
        self._subscriptions: tuple[Subscription, ...] = ()
        self._listed: tuple[Subscription, ...] = ()
        self._stream: Watch | SharedWatchFollower | None = None
        self._outdated = threading.Event()
        self._outdated.set()
        self._relist_at = math.inf
        self._events = 0
        self._is_failing = False
        self._shared_watch: SharedWatch | None = None
        self._followed = False
        self._caught_up = False

    @property
    def stopped(self) -> bool:
        """True once it was stopped or its last subscriber has left."""
        return self._ctx.done.is_set()

    def subscribe(self, subscriber: Subscriber, deadline: Deadline) -> Subscription | None:
        """Return a new subscription; None if it was stopped or pauses after an error."""
        with self._lock:
            if self.stopped or self._is_failing:
                return None
            subscription = Subscription(self, subscriber, deadline)
            self._subscriptions += (subscription,)
            return subscription

    def unsubscribe(self, subscription: Subscription, *, only_if_shared: bool = False) -> bool:
        """Remove a subscription, and stop after the last one; return whether others remain.

        An event in delivery may still reach the subscriber.
        """
        with self._lock:
            other_subscriptions = tuple(
                other_subscription
                for other_subscription in self._subscriptions
                if other_subscription is not subscription
            )
            if other_subscriptions or not only_if_shared:
                self._subscriptions = other_subscriptions
                self._listed = tuple(
                    other_subscription
                    for other_subscription in self._listed
                    if other_subscription is not subscription
                )
            if not other_subscriptions and not only_if_shared:
                self._cancel()
            stream = self._stream
        if self.stopped and stream is not None:
            stream.close()
        return bool(other_subscriptions)

    def refresh(self) -> None:
        """List again at once, for all subscribers."""
        with self._lock:
            self._outdated.set()
            stream = self._stream
        if stream is not None:
            stream.close()

    def stop(self) -> None:
        """End `run`, from any thread; returns at once.

        A watch ends at once. The answer of a pending list is dropped.
        """
        with self._lock:
            self._cancel()
            stream = self._stream
        if stream is not None:
            stream.close()

    def run(self, deadline: Deadline | None = None) -> None:
        """List and watch in this thread; returns once it is stopped.

        Args:
            deadline: the time limit; None for none.

        Raises:
            DeadlineExceeded: the deadline has passed. Any other error that ends it, raised by
                `decide` or a subscriber, is passed to its subscribers.
        """
        pause = 0.0

        def list_and_watch(ctx: Context) -> bool:
            nonlocal pause
            pause = 0.0
            while not pause and ctx.err() is None:
                pause = self._list_or_watch(ctx)
            return False

        ctx, _ = with_deadline(self._ctx, deadline or Deadline.after(None, self._clock))
        try:
            DelayFunc(lambda: pause).until(ctx, True, True, list_and_watch)
        except Canceled:
            _logger.debug("Stopped listing and watching %s", self.name)
        except DeadlineExceeded:
            raise
        except BaseException as error:
            self.stop()
            for subscription in self._subscriptions:
                subscription.subscriber.on_end(error)
        finally:
            self._stop_publishing()

    def _list_or_watch(self, ctx: Context) -> float:
        """Send one list or watch; return the seconds to pause after it."""
        begun = self._clock.monotonic()
        is_list = self._outdated.is_set() or begun >= self._relist_at
        self._events, self._followed = 0, False
        error: Exception | None = None
        try:
            if is_list:
                self._list(ctx)
            else:
                self._watch(ctx)
        except (ApiError, WaitTimeout, TransformError) as caught:
            error = caught
        if ctx.err() is not None:
            return 0.0  # the loop ends: the result of a stopped request is ignored
        if is_list:
            return self._recover("list", error)
        if isinstance(error, WaitTimeout):
            error = None  # it ran for its full duration
        lasted = self._clock.monotonic() - begun
        ended_by_itself = not (self._followed or self._outdated.is_set())
        is_short = lasted < _SHORT_WATCH and ended_by_itself
        if error is None and is_short and not self._events:
            error = VeryShortWatchError(self.name, lasted)
        return self._recover("watch", error, is_short=is_short)

    def _recover(self, verb: str, error: Exception | None, *, is_short: bool = False) -> float:
        """Prepare the next step and report the error; return the seconds to pause."""
        if error is not None:
            self._is_failing = True
            self._stop_publishing()
        recovery = self._decide(Outcome(verb, error, is_short, self._events))
        if recovery.relist:
            self._outdated.set()
        if error is not None:
            for subscription in self._subscriptions:
                subscription.subscriber.on_error(verb, error)
        return recovery.pause

    def _stop_publishing(self) -> None:
        """Stop publishing; followers open their own watch."""
        if self._shared_watch is not None:
            self._shared_watch.end()
            self._shared_watch = None

    def _list(self, ctx: Context) -> None:
        self._stop_publishing()
        with self._lock:
            self._outdated.clear()
            subscriptions = self._subscriptions
        requested_at = self._clock.monotonic()
        latest = max(
            (subscription.deadline.at for subscription in subscriptions), default=requested_at
        )
        try:
            answer = self._send_list(Deadline(min(latest, ctx.deadline.at), self._clock))
            if ctx.err() is not None:
                self._outdated.set()
                return
            with self._lock:
                # A subscriber that joined during the request waits for the next list.
                self._listed = tuple(
                    subscription
                    for subscription in subscriptions
                    if subscription in self._subscriptions
                )
                listed = self._listed
            for subscription in listed:
                subscription.subscriber.on_list(answer.items, answer.resource_version, requested_at)
        except BaseException:  # on an interrupt too, the next call lists again
            self._outdated.set()
            raise
        self._relist_at = self._clock.monotonic() + self._relist_interval
        self.resource_version = answer.resource_version

    def _watch(self, ctx: Context) -> None:
        remaining_seconds = self._relist_at - self._clock.monotonic()
        if self._min_watch_timeout is None:
            timeout = max(1, round(remaining_seconds))
            # For servers that ignore the requested timeout.
            limit = remaining_seconds + _RELIST_GRACE
        else:
            timeout = int(self._min_watch_timeout * (1 + _random.random()))
            limit = min(timeout + _GRACE, remaining_seconds)
        stream = self._open(timeout, ctx.deadline.at_most(limit))
        if stream is None:
            return
        with self._lock:
            opens = not (self._outdated.is_set() or self.stopped)
            if opens:
                self._stream = stream
        if not opens:
            stream.close()
            return
        try:
            with stream:
                self._is_failing = False
                self._on_open()
                if self._shared_watch is not None:
                    self._shared_watch.record_activity()
                self._read(stream, ctx)
        finally:
            self._stream = None

    def _open(self, timeout: int, deadline: Deadline) -> Watch | SharedWatchFollower | None:
        """Return another collection watch's events or a watch; None to list once more first."""
        watched = self.lister_watcher
        if self._shared_watch is None or self._shared_watch.ended:
            stream = SHARED_WATCHES.follow(
                watched.session,
                watched.collection,
                self.resource_version,
                deadline=deadline,
                shape=watched.type,
                by_labels=not self._publishes,
            )
            if stream is not None:
                self._followed, self._caught_up = True, False
                return stream
            if self._publishes and not self._publish():
                return None
        self._caught_up = False
        return watched.watch(
            self.resource_version,
            timeout_seconds=timeout,
            inactivity=self._inactivity,
            deadline=deadline,
        )

    def _publish(self) -> bool:
        """Publish the own watch; return False if a list would let it follow another instead."""
        watched = self.lister_watcher
        self._shared_watch = SHARED_WATCHES.publish(
            watched.session,
            watched.collection,
            self.resource_version,
            clock=self._clock,
            silence=self._inactivity,
        )
        comparable = parse_resource_version(self.resource_version) is not None
        if self._shared_watch is None and comparable and not self._caught_up:
            # Published from a later version on; one more list spares a watch for long.
            self._caught_up = True
            self._outdated.set()
            return False
        return True

    def _read(self, stream: Watch | SharedWatchFollower, ctx: Context) -> None:
        """Deliver the events of a watch until it ends."""
        pace = EventPace(self._clock) if self._in_batches else None
        for events in _read_batches(stream, pace, self._clock):
            if self.stopped:
                return
            self._deliver(events)
            if pace is None:
                continue
            drained = isinstance(stream, Watch) and stream.drained
            gather = pace.gather(len(events), drained=drained)
            if gather:
                ctx.wait(gather)
            pace.record_wakeup()

    def _deliver(self, events: Sequence[WatchEvent]) -> None:
        self._events += len(events)
        if self._shared_watch is not None and not self._followed:
            for event in events:
                self._shared_watch.broadcast(
                    event.type, event.object, event.raw, event.resource_version
                )
        for subscription in self._listed:
            subscription.subscriber.on_events(events)
        if self.stopped and len(events) > 1:
            return  # before the last of them, perhaps
        self.resource_version = events[-1].resource_version or self.resource_version


def _read_batches(
    stream: Watch | SharedWatchFollower, pace: EventPace | None, clock: Clock
) -> Iterator[Sequence[WatchEvent]]:
    """Yield the events of a watch as they have arrived; a busy watch gives larger batches."""
    if not isinstance(stream, Watch):
        yield from ([event] for event in stream)
        return
    if pace is not None:
        while events := stream.read(drain=pace.is_busy):
            yield events
        return
    # Draining costs more than the read of a single event: only where events are waiting.
    has_backlog, requested_at = False, clock.monotonic()
    while events := stream.read(drain=has_backlog):
        has_backlog = clock.monotonic() - requested_at < _BLOCKED
        yield events
        requested_at = clock.monotonic()


class CollectionWatches:
    """The collection watches of this process that several subscribers share."""

    def __init__(self) -> None:
        self.open: dict[ListWatch, CollectionWatch] = {}
        self._lock = threading.Lock()

    def reset_after_fork(self) -> None:
        """Drop all of them: a forked child has none of its parent's threads."""
        self.__init__()  # type: ignore[misc]  # a lock that was held while forking stays held

    def subscribe(
        self,
        lister_watcher: ListWatch,
        make: Callable[[ListWatch], CollectionWatch],
        subscriber: Subscriber,
        deadline: Deadline,
    ) -> Subscription:
        """Subscribe to the watch of a collection; starts it in a thread if there is none.

        Subscribers to the same collection, with the same session and fields, share it. If it has
        begun already, it lists once more for the new one.

        Args:
            lister_watcher: the collection.
            make: makes its collection watch.
            subscriber: receives objects, events and errors.
            deadline: the deadline of the subscriber.
        """
        with self._lock:
            watch = self.open.get(lister_watcher)
            subscription = None if watch is None else watch.subscribe(subscriber, deadline)
            if watch is not None and subscription is not None:
                watch.refresh()
            while subscription is None:
                watch = self.open[lister_watcher] = make(lister_watcher)
                subscription = watch.subscribe(subscriber, deadline)
                threading.Thread(
                    target=self._run,
                    args=(watch,),
                    name=f"kwait-watch-{lister_watcher.resource.plural}",
                    daemon=True,
                ).start()
        return subscription

    def _run(self, watch: CollectionWatch) -> None:
        try:
            watch.run()
        finally:
            with self._lock:
                if self.open.get(watch.lister_watcher) is watch:
                    del self.open[watch.lister_watcher]


COLLECTION_WATCHES = CollectionWatches()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=COLLECTION_WATCHES.reset_after_fork)
