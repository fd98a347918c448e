"""One watch for all in this process who follow the same collection over the same client.

Who watches for as long as it lives, an informer, publishes what its watch brings. Who comes later
lists for itself, so that it misses nothing that was written before, and then follows from the
version of its list: the same events that a watch of its own would bring from there. Versions of one
API server are numbers that grow (upstream promises it since 1.35); where they are not, nothing is
shared. A publication ends with whatever ends the watch but its ordinary end, and the followers go
on where they are, each by a watch of its own or by another publication.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from pytest_kwait.cache.selection import ResourceCollection, SharedEvent
from pytest_kwait.client.responses import WatchEvent, decode_object
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.cache.selection import EventFilter
    from pytest_kwait.clock import Clock, Deadline

__all__ = [
    "SHARED_WATCHES",
    "SharedWatch",
    "SharedWatchFollower",
    "SharedWatches",
    "parse_resource_version",
]

_RECENT = 500
"""So many events are kept for those whose list is older than the latest of them."""


def parse_resource_version(resource_version: str) -> int | None:
    """Return a resourceVersion as a number; None where it is none that can be compared."""
    if resource_version.isascii() and resource_version.isdecimal():
        return int(resource_version) or None
    return None


class SharedWatch:
    """What the watch of a collection brings, for those who follow it.

    Args:
        session: who watches; kept, so that nobody else can be taken for it.
        collection: what is watched.
        version: the version from which on it is complete.
        clock: the time of its silence.
        silence: seconds without a sign of life after which it ends; None for no limit.
        withdrawn: called once, when nobody can follow any more.
    """

    def __init__(
        self,
        session: object,
        collection: ResourceCollection,
        version: int,
        clock: Clock,
        silence: float | None,
        withdrawn: Callable[[SharedWatch], object],
    ) -> None:
        self.session = session
        self.collection = collection
        self.silence = silence
        self._clock = clock
        self._withdrawn = withdrawn
        self._lock = threading.Lock()
        self._complete_from = version
        self._reached = version
        self._recent: deque[SharedEvent] = deque(maxlen=_RECENT)
        # Replaced, never changed: the publisher goes through them without a lock.
        self._feeds: tuple[SharedWatchFollower, ...] = ()
        self._ended = False
        self.alive_at = clock.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more."""
        return self._ended

    def alive(self) -> None:
        """Note that the watch was opened, or opened again: it may be silent for a while."""
        self.alive_at = self._clock.monotonic()

    def show(self, type: str, obj: Mapping[str, Any], raw: bytes, resource_version: str) -> None:
        """Pass an event on (called by who watches, before it does anything else with it)."""
        self.alive()
        version = parse_resource_version(resource_version)
        shown = SharedEvent(type, obj, raw, version or 0)
        if type == "BOOKMARK":
            ordered = version is not None and version >= self._reached
        else:
            ordered = version is not None and version > self._reached
        if not ordered:
            # Versions that do not grow say nothing about what a follower knows already.
            self.end()
            return
        with self._lock:
            if self._ended:
                return
            self._reached = shown.version
            if type != "BOOKMARK":
                if len(self._recent) == _RECENT:
                    self._complete_from = self._recent[0].version
                self._recent.append(shown)
            feeds = self._feeds
        for feed in feeds:
            feed.take(shown)

    def follow(self, feed: SharedWatchFollower) -> bool:
        """Tell a feed what comes after its version; return whether that can be done."""
        with self._lock:
            if self._ended or feed.version < self._complete_from:
                return False
            for shown in self._recent:
                feed.take(shown)
            self._feeds += (feed,)
            return True

    def leave(self, feed: SharedWatchFollower) -> None:
        """Tell a feed nothing more."""
        with self._lock:
            self._feeds = tuple(each for each in self._feeds if each is not feed)

    def end(self) -> None:
        """Let all followers go; done once."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            feeds, self._feeds = self._feeds, ()
            self._recent.clear()
        self._withdrawn(self)
        for feed in feeds:
            feed.mark_ended()


class SharedWatchFollower:
    """The events of a publication after a version, as an open watch gives them.

    It ends with `StopIteration` when it is closed, and when there is nothing more to follow; who
    reads it then goes on by another watch from its latest version.

    Args:
        publication: what it follows.
        passing: what it is told of.
        version: the version that its reader has reached by a list.
        deadline: when it is over.
        shape: a TypedDict that names the fields of an object to decode; None for all of them.
    """

    def __init__(
        self,
        publication: SharedWatch,
        passing: EventFilter,
        version: int,
        deadline: Deadline,
        shape: Any,
    ) -> None:
        self.version = version
        self._publication = publication
        self._passing = passing
        self._deadline = deadline
        self._shape = shape
        self._told: deque[tuple[str, SharedEvent]] = deque()
        self._wake = threading.Event()
        self._closed = False
        self._abandoned = False

    def take(self, shown: SharedEvent) -> None:
        """Keep an event that is news to the reader (called by the publication)."""
        if shown.version <= self.version:
            return
        type = shown.type if shown.type == "BOOKMARK" else self._passing(shown)
        if type is not None:
            self._told.append((type, shown))
            self._wake.set()

    def mark_ended(self) -> None:
        """Note that nothing more comes (called by the publication)."""
        self._abandoned = True
        self._wake.set()

    def close(self) -> None:
        """End it, from any thread: a reader that is waiting for an event stops at once."""
        self._closed = True
        self._wake.set()
        self._publication.leave(self)

    def __enter__(self) -> Self:
        """Begin; it is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Be told nothing more."""
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        while True:
            # Before looking: what comes after the look sets it again.
            self._wake.clear()
            if self._closed or (self._abandoned and not self._told):
                raise StopIteration
            if self._told:
                type, shown = self._told.popleft()
                return WatchEvent(type, decode_object(shown.raw, self._shape), shown.raw)
            self._wait()

    def _wait(self) -> None:
        """Wait for news; end the publication if it has been silent for too long."""
        deadline, publication = self._deadline, self._publication
        clock = deadline.clock
        limit = deadline.remaining
        if limit <= 0:
            raise DeadlineExceeded
        if publication.silence is not None:
            left = publication.alive_at + publication.silence - clock.monotonic()
            if left <= 0:
                publication.end()
                return
            limit = min(limit, left)
        clock.wait(self._wake, None if limit == float("inf") else limit)


class SharedWatches:
    """The publications of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_session: dict[int, tuple[SharedWatch, ...]] = {}

    def reset_after_fork(self) -> None:
        """Forget them: a forked child has none of its parent's threads."""
        self.__init__()  # type: ignore[misc]  # a lock that was held while forking stays held

    def follow(
        self,
        session: object,
        collection: ResourceCollection,
        resource_version: str,
        *,
        deadline: Deadline,
        shape: Any,
        by_labels: bool = False,
    ) -> SharedWatchFollower | None:
        """Return the events of a collection after a version, if some publication has them.

        Args:
            session: over which one the collection is watched.
            collection: what is to be told.
            resource_version: the version of a list that the reader has.
            deadline: when the feed is over.
            shape: a TypedDict that names the fields of an object to decode; None for all of them.
            by_labels: see `ResourceCollection.within`.
        """
        with self._lock:
            published = self._of_session.get(id(session), ())
        version = parse_resource_version(resource_version) if published else None
        if version is None:
            return None
        # The narrower one has less to be passed over.
        for publication in sorted(published, key=lambda each: each.collection != collection):
            passing = collection.within(publication.collection, by_labels=by_labels)
            if passing is not None:
                feed = SharedWatchFollower(publication, passing, version, deadline, shape)
                if publication.follow(feed):
                    return feed
        return None

    def publish(
        self,
        session: object,
        collection: ResourceCollection,
        resource_version: str,
        *,
        clock: Clock,
        silence: float | None,
    ) -> SharedWatch | None:
        """Return a new publication; None where there is one of this collection already.

        Args:
            session: over which one the collection is watched.
            collection: what is watched.
            resource_version: from which version on.
            clock: the time of its silence.
            silence: see `SharedWatch`.
        """
        version = parse_resource_version(resource_version)
        if version is None:
            return None
        with self._lock:
            published = self._of_session.get(id(session), ())
            if any(each.collection == collection for each in published):
                return None
            publication = SharedWatch(session, collection, version, clock, silence, self._withdraw)
            self._of_session[id(session)] = (*published, publication)
            return publication

    def _withdraw(self, publication: SharedWatch) -> None:
        key = id(publication.session)
        with self._lock:
            left = [each for each in self._of_session.get(key, ()) if each is not publication]
            if left:
                self._of_session[key] = tuple(left)
            else:
                self._of_session.pop(key, None)


SHARED_WATCHES = SharedWatches()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_WATCHES.reset_after_fork)
