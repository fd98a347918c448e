"""Shared watches: one watch per collection and client, for all its followers in this process.

An informer, which watches as long as it lives, publishes its watch. A follower lists for itself,
so that it misses nothing written before, and then follows from the version of its list: it gets
the same events that a watch of its own would bring from there. Versions of one API server are
growing numbers (upstream promises it since 1.35); where they are not, nothing is shared. A shared
watch ends with whatever ends the watch except its ordinary end. Its followers then continue from
where they are, each by a watch of its own or by another shared one.

A collection within a watched one (one namespace, one name, some labels) is filtered from it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_kwait.apimachinery.fields import normalize_field_selector, parse_field_selector
from pytest_kwait.apimachinery.labels import (
    LabeledObject,
    Labels,
    compile_label_selector,
    get_labels,
    normalize_label_selector,
)
from pytest_kwait.client.responses import WatchEvent, decode_object
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.apimachinery.labels import Selector
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Clock, Deadline

__all__ = [
    "SHARED_WATCHES",
    "EventFilter",
    "ResourceCollection",
    "SharedEvent",
    "SharedWatch",
    "SharedWatchFollower",
    "SharedWatches",
    "parse_resource_version",
]


class SharedEvent:
    """One event of a watch, shown to all who follow it.

    Args:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: the object, at least its name, namespace and UID.
        raw: the whole object's JSON.
        version: its resourceVersion as a number.
    """

    __slots__ = ("_labels", "metadata", "raw", "type", "version")

    def __init__(self, type: str, object: Mapping[str, Any], raw: bytes, version: int) -> None:
        self.type = type
        self.metadata: Mapping[str, Any] = object.get("metadata") or {}
        self.raw = raw
        self.version = version
        self._labels: Labels | None = None

    @property
    def labels(self) -> Labels:
        """The object's labels, read once for all who ask."""
        if self._labels is None:
            self._labels = get_labels(decode_object(self.raw, LabeledObject))
        return self._labels


EventFilter: TypeAlias = Callable[[SharedEvent], str | None]
"""Says as what type of event a follower is told of one; None where it is not told of it."""


@dataclass(frozen=True, slots=True)
class ResourceCollection:
    """One collection as requests name it, however it was written.

    Args:
        path: the path of the resource in all namespaces.
        namespace: where; None for everywhere.
        labels: the text of the label selector; None for all.
        fields: the text of the field selector; None for all.
    """

    path: str
    namespace: str | None
    labels: str | None
    fields: str | None

    @classmethod
    def of(
        cls,
        resource: Resource,
        namespace: str | None,
        label_selector: Selector | None,
        field_selector: Selector | None,
    ) -> ResourceCollection:
        """Return the selection that arguments of a list mean."""
        return cls(
            resource.path(),
            namespace,
            normalize_label_selector(label_selector),
            normalize_field_selector(field_selector),
        )

    def within(self, wider: ResourceCollection, *, by_labels: bool) -> EventFilter | None:
        """Return what passes of a watch of `wider`; None where not all of this comes by it.

        A namespace and a name can be told from an object as the server does; other fields cannot.

        Args:
            wider: what is watched.
            by_labels: whether labels may be judged here. An object that ceases to match is told
                as deleted, but in its new state: enough for who only wants to know what there is.
        """
        if self.path != wider.path:
            return None
        tests: list[Callable[[SharedEvent], bool]] = []
        if self.namespace != wider.namespace:
            if wider.namespace is not None or self.namespace is None:
                return None
            tests.append(_has_metadata("namespace", self.namespace))
        if self.fields != wider.fields:
            name = _get_only_name(self.fields)
            if wider.fields is not None or not name:
                return None
            tests.append(_has_metadata("name", name))
        if self.labels == wider.labels:
            return _combine_filters(tests)
        if wider.labels is not None or self.labels is None or not by_labels:
            return None
        return _LabelFilter(_combine_filters(tests), compile_label_selector(self.labels))


def _get_only_name(fields: str | None) -> str:
    """Return the name that a field selector selects by; empty for any other selector."""
    try:
        terms = parse_field_selector(fields or "")
    except ValueError:
        return ""
    if len(terms) != 1 or terms[0].field != "metadata.name" or not terms[0].equal:
        return ""
    return terms[0].value


def _has_metadata(key: str, value: str) -> Callable[[SharedEvent], bool]:
    return lambda shown: shown.metadata.get(key) == value


def _combine_filters(tests: list[Callable[[SharedEvent], bool]]) -> EventFilter:
    if not tests:
        return lambda shown: shown.type
    return lambda shown: shown.type if all(test(shown) for test in tests) else None


class _LabelFilter:
    """What passes by labels, which come and go while the object stays.

    Args:
        passing: what passes by everything else.
        matches: whether labels are selected.
    """

    def __init__(self, passing: EventFilter, matches: Callable[[Labels], bool]) -> None:
        self._passing = passing
        self._matches = matches
        self._told_gone: set[str] = set()

    def __call__(self, shown: SharedEvent) -> str | None:
        type = self._passing(shown)
        if type is None:
            return None
        uid = shown.metadata.get("uid") or shown.metadata.get("name") or ""
        if self._matches(shown.labels):
            self._told_gone.discard(uid)
            return type
        # What was selected before is not known: nothing is told as gone once, to no harm.
        if type == "DELETED":
            known_gone = uid in self._told_gone
            self._told_gone.discard(uid)
            return None if known_gone else type
        if type == "ADDED" or uid in self._told_gone:
            self._told_gone.add(uid)
            return None
        self._told_gone.add(uid)
        return "DELETED"


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
