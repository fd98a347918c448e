"""Shared streams: one list and watch per collection for all waits of this process.

The list and the watch are the two requests that a quiet wait costs. The watch resumes after an
ordinary end. The stream relists after 410, after a watch that ended at once without an event (a
server that cannot serve our version ends it this way), and every few minutes in case an event was
lost. Where an informer of this process watches the same collection, its watch is followed instead.

Most of the cost of an event is to be woken up for it. Where events come fast, several are read at
a time; `EventPace` decides how long they may gather.
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
"""Seconds in which the events of a busy stream gather."""

LONG_GATHER = 0.1
"""Seconds in which they gather once it has been busy for `_LONG` events on end."""

_LONG = 200
_BUSY = 8
"""So many events within `_BUSY_FOR`, and the time they were let gather, make a stream busy."""

_BUSY_FOR = 0.1
_BLOCKED = 0.0005


class EventPace:
    """How fast events come.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked = clock.monotonic()
        self._last: deque[float] = deque([-math.inf] * _BUSY, _BUSY)
        self._on_end = 0
        self._gathered = 0.0
        self.thick = False
        """Whether events come thick."""

    def gather(self, events: int = 1, *, drained: bool = False) -> float:
        """Note events that came together; return for how long to let more gather before the next.

        That pays where they come thick; whatever has gathered already is read first.

        Args:
            events: how many.
            drained: whether nothing is left to be read at once. Where nobody knows, what had to be
                waited for tells.

        Returns:
            seconds, 0 for not at all.
        """
        now = self._clock.monotonic()
        waited, self._asked = now - self._asked, now
        self.thick = now - self._last[0] < _BUSY_FOR + self._gathered
        self._on_end = self._on_end + events if self.thick else 0
        self._last.extend(itertools.repeat(now, min(events, _BUSY)))
        if not self.thick or not (drained or waited > _BLOCKED):
            self._gathered = 0.0
        else:
            self._gathered = GATHER if self._on_end < _LONG else LONG_GATHER
        return self._gathered

    def record_wakeup(self) -> None:
        """Note that the next event is asked for now."""
        self._asked = self._clock.monotonic()


def follow_informer(
    session: Session, source: Source, version: str, deadline: Deadline
) -> SharedWatchFollower | None:
    """Return what an informer's watch brings of a source after a version; None if nobody watches.

    The informer may watch more: all namespaces, or all objects where the source is one of them or
    those with certain labels. What a wait is told is the same as by a watch of its own, since it
    lists for itself before it follows. It ends where the informer stops or has trouble, and the
    wait goes on by a watch of its own.

    Args:
        session: who asks the server: the same one as the informer's.
        source: what the wait looks at.
        version: the version of the wait's list.
        deadline: when the watch is over.
    """
    collection = ResourceCollection.of(
        source.resource, source.namespace, source.selector, source.field_selector
    )
    return SHARED_WATCHES.follow(
        session, collection, version, deadline=deadline, shape=source.fields, by_labels=True
    )


RELIST = 300.0
"""Seconds after which a source is listed anew even if nothing seems wrong."""

INACTIVITY = 90.0
"""Seconds of silence after which a watch counts as dead: bookmarks come about every minute."""

INSTANT = 1.0
"""A watch that ends within so many seconds and without an event cannot be trusted."""

_RESET = 120.0
_random = random.Random()  # noqa: S311 - spreads relists, keeps no secret


class Subscriber(Protocol):
    """Who is told what a stream has seen; called in the stream's thread.

    All but `take_in` only keep what they are told and return at once: one wait that is busy must
    not hold up the others of its stream.
    """

    def on_list(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        """Keep all objects that there are, by a list that was asked for at that moment."""
        ...

    def on_event(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        """Keep one change: `ADDED`, `MODIFIED` or `DELETED`."""
        ...

    def on_error(self, source: Source, error: ApiError) -> None:
        """Keep an error that is retried."""
        ...

    def on_end(self, source: Source, error: BaseException) -> None:
        """Keep what ends the stream: a final error, or one of the code that was called."""
        ...

    def process_changes(self) -> None:
        """Judge what was kept, unless another thread is at it; it then judges this as well."""
        ...


class Subscription:
    """One wait's part in a stream.

    Args:
        stream: what it is a part of.
        source: what the wait looks at.
        subscriber: who is told.
        deadline: when the wait ends.
    """

    def __init__(
        self, stream: SharedStream, source: Source, subscriber: Subscriber, deadline: Deadline
    ) -> None:
        self._stream = stream
        self.source = source
        self.subscriber = subscriber
        self.deadline = deadline

    def refresh(self) -> None:
        """List anew, at once: what a watch has not told of late may be its silence."""
        self._stream.refresh()

    def close_if_shared(self) -> bool:
        """Be told nothing more, if somebody else has a share; return whether somebody has."""
        return self._stream.close_if_shared(self)

    def close(self) -> None:
        """Be told nothing more; the last one to leave ends the stream."""
        self._stream.unsubscribe(self)


class SharedStream:
    """Keeps one collection up to date for as long as somebody has a share in it.

    Whoever joins is told only what was asked for after he has: a list that was sent before may be
    older than what his test did last. So a stream that has listed already lists anew for him.

    Args:
        session: who asks the server.
        source: what to look at.
        ended: called once nobody can join any more, in any thread.
    """

    def __init__(
        self, session: Session, source: Source, ended: Callable[[SharedStream], object]
    ) -> None:
        self._session = session
        self._source = source
        self._tell_end = ended
        self._ctx, self._cancel = with_cancel(background(session.clock))
        self._errors = ErrorLog(session.clock)
        self._in_trouble = False
        self._version = ""
        self._outdated = threading.Event()
        self._outdated.set()
        self._relist_at = 0.0
        self._watch: Watch | SharedWatchFollower | None = None
        self._lock = threading.Lock()
        self._started = False
        self._ended = False
        # Replaced, never changed: the reader goes through them without a lock.
        self._shares: tuple[Subscription, ...] = ()
        self._listed: tuple[Subscription, ...] = ()
        self._thread = threading.Thread(
            target=self._run, name=f"kwait-watch-{source.resource.plural}", daemon=True
        )

    def join(
        self, source: Source, subscriber: Subscriber, deadline: Deadline
    ) -> Subscription | None:
        """Return a share for one more wait; None where it is better off with a stream of its own.

        That is where this one has ended, or pauses after an error that may be over by now.
        """
        with self._lock:
            if self._ended or self._in_trouble:
                return None
            share = Subscription(self, source, subscriber, deadline)
            self._shares += (share,)
            starts, self._started = not self._started, True
        if starts:
            self._thread.start()
        else:
            self.refresh()
        return share

    def refresh(self) -> None:
        """List anew for everybody, at once."""
        with self._lock:
            self._outdated.set()
            watch = self._watch
        if watch is not None:
            watch.close()

    def close_if_shared(self, share: Subscription) -> bool:
        """Tell that share nothing more if it is not the only one; return whether it is not."""
        with self._lock:
            others = any(each is not share for each in self._shares)
            if others:
                self._drop(share)
            return others

    def _drop(self, share: Subscription) -> None:
        self._shares = tuple(each for each in self._shares if each is not share)
        self._listed = tuple(each for each in self._listed if each is not share)

    def unsubscribe(self, share: Subscription) -> None:
        """Tell that share nothing more but what is being told already."""
        with self._lock:
            self._drop(share)
            if self._shares or self._ended:
                return
            self._ended = True
            self._cancel()
            watch = self._watch
        if watch is not None:
            watch.close()
        self._tell_end(self)

    def _run(self) -> None:
        pauses = make_retry_backoff().delay_with_reset(self._session.clock, _RESET)
        try:
            pauses.until(self._ctx, True, True, self._follow)
        except Canceled:
            return
        except BaseException as error:  # the waiting threads raise it
            with self._lock:
                self._ended = True
                shares = self._shares
            self._tell_end(self)
            for share in shares:
                share.subscriber.on_end(share.source, error)
                share.subscriber.process_changes()

    def _follow(self, ctx: Context) -> bool:
        """List where needed, then watch until the watch ends; never done."""
        try:
            while ctx.err() is None and self._watch_once():
                self._fine()
        except DeadlineExceeded:
            # Everybody's time was up when this was asked for: they leave, or others have come.
            return False
        except ApiError as error:
            decision = self._errors.decide(error)
            if ctx.err() is not None:
                return False
            if decision is ErrorAction.STOP:
                raise
            self._in_trouble = True
            if decision is ErrorAction.RELIST:
                self._outdated.set()
            for share in self._shares:
                share.subscriber.on_error(share.source, error)
                share.subscriber.process_changes()
            if error.retry_after:
                ctx.wait(error.retry_after)
        return False

    def _fine(self) -> None:
        self._in_trouble = False
        self._errors.record_success()

    def _list(self) -> None:
        source = self._source
        with self._lock:
            self._outdated.clear()
            shares = self._shares
        asked = self._session.clock.monotonic()
        latest = max((share.deadline.at for share in shares), default=asked)
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
            # Who has come while the list was on its way waits for the next one.
            self._listed = tuple(share for share in shares if share in self._shares)
            told = self._listed
        for share in told:
            share.subscriber.on_list(share.source, items, asked)
            share.subscriber.process_changes()

    def _tell(self, events: list[WatchEvent]) -> None:
        """Tell everybody of events that came together."""
        self._version = events[-1].resource_version or self._version
        shares = self._listed
        for event in events:
            if event.type != "BOOKMARK":
                for share in shares:
                    share.subscriber.on_event(share.source, event.type, event.object, event.raw)
        for share in shares:
            share.subscriber.process_changes()

    def _watch_once(self) -> bool:
        """List if needed, watch until the watch ends; return whether to go on without a pause."""
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
        # For servers that do not keep the limit they are asked for.
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
                self._in_trouble = False
                pace = EventPace(clock)
                for together in _read_batches(watch, pace):
                    events += len(together)
                    drained = isinstance(watch, Watch) and watch.drained
                    gather = pace.gather(len(together), drained=drained)
                    self._tell(together)
                    if gather:
                        self._ctx.wait(gather)
                    pace.record_wakeup()
        except DeadlineExceeded:
            pass  # an end like any other
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
    """Yield the events of a watch: where they come thick those that have come, together."""
    if not isinstance(watch, Watch):
        yield from ([event] for event in watch)
        return
    while events := watch.read(drain=pace.thick):
        yield events


_Key: TypeAlias = tuple[int, str, str | None, str | None, Any]


class _Streams:
    """The streams that can be joined."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[_Key, SharedStream] = {}

    def reset_after_fork(self) -> None:
        """Forget them: a forked child has none of its parent's threads."""
        self.__init__()  # type: ignore[misc]  # a lock that was held while forking stays held


_streams = _Streams()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_streams.reset_after_fork)


def subscribe(
    session: Session, source: Source, subscriber: Subscriber, deadline: Deadline
) -> Subscription:
    """Return a share in the stream of a source, which is opened where there is none.

    Waits share a stream when they ask over the same client for the same kind, namespace,
    selectors and fields. Each has its own deadline, its own verdict and its own errors.

    Args:
        session: who asks the server.
        source: what to look at.
        subscriber: who is told.
        deadline: when the wait ends.
    """
    # The session lives at least as long as a stream that can be found.
    path = source.resource.path(source.namespace)
    key = (id(session), path, source.field_selector, source.selector, source.fields)
    with _streams.lock:
        stream = _streams.open.get(key)
        share = stream.join(source, subscriber, deadline) if stream is not None else None
        while share is None:
            stream = _streams.open[key] = SharedStream(
                session, source, lambda ended: _remove_stream(key, ended)
            )
            share = stream.join(source, subscriber, deadline)
    return share


def _remove_stream(key: _Key, stream: SharedStream) -> None:
    with _streams.lock:
        if _streams.open.get(key) is stream:
            del _streams.open[key]
