"""List and watch of one collection, and the watches that its followers in this process share.

A collection is a resource, a namespace, and selectors. There is one shared watch per collection and
client.

An informer publishes its watch for as long as it runs. A follower makes its own list, so that it
misses no earlier write, and then follows from the version of its list. It gets the events that a
watch of its own would bring. Versions of one API server are growing numbers (promised upstream
since 1.35); if they are not, no watch is shared. A shared watch ends with its watch, except at an
ordinary end. Its followers then continue from their version with another watch.

A follower of a part of the collection (one namespace, one name, some labels) gets filtered events.

`ListWatch` is ported from client-go `tools/cache/listwatch.go`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_kwait.apimachinery.arguments import check_instance, check_methods, check_text
from pytest_kwait.apimachinery.selectors import (
    LabeledObject,
    Labels,
    compile_label_selector,
    get_labels,
    normalize_field_selector,
    normalize_label_selector,
    parse_field_selector,
)
from pytest_kwait.client.resource import Resource
from pytest_kwait.client.responses import WatchEvent, decode_object
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.client.watch import Watch
    from pytest_kwait.clock import Clock, Deadline

_RECENT = 500
"""The number of events kept for followers with an older list."""


@dataclass(frozen=True, slots=True)
class ListWatch:
    """One collection of objects, ready to be listed and watched.

    Args:
        session: the session of its requests.
        resource: the kind of objects.
        namespace: the namespace; None for all.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
        type: a TypedDict naming the fields to decode, `metadata` with name, namespace, uid and
            resourceVersion among them; None for whole objects.
    """

    session: ApiSession
    resource: Resource
    namespace: str | None = None
    label_selector: Selector | None = None
    field_selector: Selector | None = None
    type: Any = None

    def __post_init__(self) -> None:
        check_methods("session", self.session, ("list", "watch"), "use an ApiSession")
        check_instance("resource", self.resource, Resource, "use a resource")
        if self.namespace is not None:
            check_text("namespace", self.namespace)
        normalize_label_selector(self.label_selector, what="label_selector")
        normalize_field_selector(self.field_selector)

    @property
    def clock(self) -> Clock:
        """The clock of deadlines."""
        return self.session.clock

    @property
    def name(self) -> str:
        """The watched collection, for messages: `pods in namespace ci-1 with labels app=web`."""
        parts = [self.resource.qualified]
        if self.namespace is not None:
            parts.append(f"in namespace {self.namespace}")
        selectors = (("labels", self.label_selector), ("fields", self.field_selector))
        # For display only, where both forms are the same.
        chosen = [
            f"{selector_kind} {normalize_field_selector(value)}"
            for selector_kind, value in selectors
            if value
        ]
        if chosen:
            parts.append("with " + " and ".join(chosen))
        return " ".join(parts)

    @property
    def collection(self) -> ResourceCollection:
        """The watched collection, in normalized form."""
        return ResourceCollection.of(
            self.resource, self.namespace, self.label_selector, self.field_selector
        )

    def with_type(self, type: Any) -> ListWatch:
        """Return the same collection, decoding only the fields of this TypedDict."""
        return replace(self, type=type)

    def list(self, deadline: Deadline) -> ObjectList:
        """Return all objects, by a consistent read that includes the latest writes.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: the answer was not complete in time.
        """
        return self.session.list(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            deadline=deadline,
            type=self.type,
        )

    def watch(
        self,
        resource_version: str,
        *,
        timeout_seconds: int | None,
        inactivity: float | None,
        deadline: Deadline,
    ) -> Watch:
        """Return the changes after `resource_version`, with bookmarks.

        Args:
            resource_version: the version to resume from.
            timeout_seconds: when the server ends the watch, in seconds.
            inactivity: seconds without a byte after which the connection counts as lost.
            deadline: when the watch ends on this side, regardless of the server.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: the watch was not open in time.
        """
        return self.session.watch(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            resource_version=resource_version,
            inactivity=inactivity,
            timeout_seconds=timeout_seconds,
            deadline=deadline,
            type=self.type,
        )


class SharedEvent:
    """One event of a shared watch.

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
        """The object's labels, decoded once."""
        if self._labels is None:
            self._labels = get_labels(decode_object(self.raw, LabeledObject))
        return self._labels


EventFilter: TypeAlias = Callable[[SharedEvent], str | None]
"""Returns the type of event for a follower; None to skip the event."""


@dataclass(frozen=True, slots=True)
class ResourceCollection:
    """One collection, in normalized form.

    Args:
        path: the path of the resource in all namespaces.
        namespace: the namespace; None for all.
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
        """Return the collection of a list's arguments."""
        return cls(
            resource.path(),
            namespace,
            normalize_label_selector(label_selector),
            normalize_field_selector(field_selector),
        )

    def filter_from(self, wider: ResourceCollection, *, by_labels: bool) -> EventFilter | None:
        """Return the filter of this collection from a watch of `wider`; None if not contained.

        Namespace, name and labels are filtered; other field selectors must be equal.

        Args:
            wider: the watched collection.
            by_labels: whether labels may be filtered. An object that ceases to match is then
                reported as deleted, but in its new state.
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
    return lambda event: event.metadata.get(key) == value


def _combine_filters(tests: list[Callable[[SharedEvent], bool]]) -> EventFilter:
    if not tests:
        return lambda event: event.type
    return lambda event: event.type if all(test(event) for test in tests) else None


class _LabelFilter:
    """A filter by labels, which may change during the life of an object.

    Args:
        passing: the filter by everything else.
        matches: whether labels are selected.
    """

    def __init__(self, passing: EventFilter, matches: Callable[[Labels], bool]) -> None:
        self._passing = passing
        self._matches = matches
        self._reported_gone: set[str] = set()

    def __call__(self, event: SharedEvent) -> str | None:
        type = self._passing(event)
        if type is None:
            return None
        uid = event.metadata.get("uid") or event.metadata.get("name") or ""
        if self._matches(event.labels):
            self._reported_gone.discard(uid)
            return type
        # The former labels are unknown: a never matching object may be reported deleted, once.
        if type == "DELETED":
            known_gone = uid in self._reported_gone
            self._reported_gone.discard(uid)
            return None if known_gone else type
        if type == "ADDED" or uid in self._reported_gone:
            self._reported_gone.add(uid)
            return None
        self._reported_gone.add(uid)
        return "DELETED"


def parse_resource_version(resource_version: str) -> int | None:
    """Return a resourceVersion as a number; None if it cannot be compared."""
    if resource_version.isascii() and resource_version.isdecimal():
        return int(resource_version) or None
    return None


class SharedWatch:
    """The watch of a collection, broadcast to its followers.

    Args:
        session: the session that watches; kept alive, since watches are found by its id.
        collection: the watched collection.
        version: the version from which on the watch is complete.
        clock: the clock of its silence.
        silence: seconds without activity after which it ends; None for no limit.
        on_end: called once, at its end.
    """

    def __init__(
        self,
        session: object,
        collection: ResourceCollection,
        version: int,
        clock: Clock,
        silence: float | None,
        on_end: Callable[[SharedWatch], object],
    ) -> None:
        self.session = session
        self.collection = collection
        self.silence = silence
        self._clock = clock
        self._on_end = on_end
        self._lock = threading.Lock()
        self._complete_from = version
        self._reached = version
        self._recent: deque[SharedEvent] = deque(maxlen=_RECENT)
        # Replaced, never mutated: the publisher iterates over them without a lock.
        self._followers: tuple[SharedWatchFollower, ...] = ()
        self._ended = False
        self.alive_at = clock.monotonic()

    @property
    def ended(self) -> bool:
        """True once the watch has ended."""
        return self._ended

    def record_activity(self) -> None:
        """Record activity, such as a reopened watch."""
        self.alive_at = self._clock.monotonic()

    def broadcast(
        self, type: str, obj: Mapping[str, Any], raw: bytes, resource_version: str
    ) -> None:
        """Broadcast an event; called before its own subscribers handle it."""
        self.record_activity()
        version = parse_resource_version(resource_version)
        event = SharedEvent(type, obj, raw, version or 0)
        if type == "BOOKMARK":
            ordered = version is not None and version >= self._reached
        else:
            ordered = version is not None and version > self._reached
        if not ordered:
            # Versions must grow to tell which events a follower has seen.
            self.end()
            return
        with self._lock:
            if self._ended:
                return
            self._reached = event.version
            if type != "BOOKMARK":
                if len(self._recent) == _RECENT:
                    self._complete_from = self._recent[0].version
                self._recent.append(event)
            followers = self._followers
        for follower in followers:
            follower.take(event)

    def add_follower(self, follower: SharedWatchFollower) -> bool:
        """Add a follower from its version on; return whether that version is still known."""
        with self._lock:
            if self._ended or follower.version < self._complete_from:
                return False
            for event in self._recent:
                follower.take(event)
            self._followers += (follower,)
            return True

    def remove_follower(self, follower: SharedWatchFollower) -> None:
        """Remove a follower."""
        with self._lock:
            self._followers = tuple(
                other_follower
                for other_follower in self._followers
                if other_follower is not follower
            )

    def end(self) -> None:
        """End the watch for all followers; idempotent."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            followers, self._followers = self._followers, ()
            self._recent.clear()
        self._on_end(self)
        for follower in followers:
            follower.mark_ended()


class SharedWatchFollower:
    """An iterator over the events of a shared watch after a version.

    It stops when it is closed or the shared watch ends; its reader then opens another watch from
    its latest version.

    Args:
        watch: the shared watch.
        passing: the filter of its events.
        version: the version of its reader's list.
        shape: a TypedDict that names the fields of an object to decode; None for all of them.
    """

    def __init__(
        self,
        watch: SharedWatch,
        passing: EventFilter,
        version: int,
        deadline: Deadline,
        shape: Any,
    ) -> None:
        self.version = version
        self._watch = watch
        self._passing = passing
        self._deadline = deadline
        self._shape = shape
        self._queue: deque[tuple[str, SharedEvent]] = deque()
        self._wake = threading.Event()
        self._closed = False
        self._is_watch_ended = False

    def take(self, event: SharedEvent) -> None:
        """Queue a new event; called by the watch."""
        if event.version <= self.version:
            return
        type = event.type if event.type == "BOOKMARK" else self._passing(event)
        if type is not None:
            self._queue.append((type, event))
            self._wake.set()

    def mark_ended(self) -> None:
        """Stop after the queued events; called by the watch."""
        self._is_watch_ended = True
        self._wake.set()

    def close(self) -> None:
        """Stop at once; callable from any thread."""
        self._closed = True
        self._wake.set()
        self._watch.remove_follower(self)

    def __enter__(self) -> Self:
        """Return self; it is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        while True:
            # Clear first: an event that arrives after the check sets it again.
            self._wake.clear()
            if self._closed or (self._is_watch_ended and not self._queue):
                raise StopIteration
            if self._queue:
                type, event = self._queue.popleft()
                return WatchEvent(type, decode_object(event.raw, self._shape), event.raw)
            self._wait()

    def _wait(self) -> None:
        """Wait for an event; end the watch if it has been silent for too long."""
        deadline, watch = self._deadline, self._watch
        clock = deadline.clock
        limit = deadline.remaining
        if limit <= 0:
            raise DeadlineExceeded
        if watch.silence is not None:
            remaining_seconds = watch.alive_at + watch.silence - clock.monotonic()
            if remaining_seconds <= 0:
                watch.end()
                return
            limit = min(limit, remaining_seconds)
        clock.wait(self._wake, None if limit == float("inf") else limit)


class SharedWatches:
    """The shared watches of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_session: dict[int, tuple[SharedWatch, ...]] = {}

    def reset_after_fork(self) -> None:
        """Drop all watches: a forked child has none of its parent's threads."""
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
        """Return a follower of a collection after a version; None without a shared watch.

        Args:
            session: the session that watches.
            collection: the collection to follow.
            resource_version: the version of the reader's list.
            deadline: the follower's deadline.
            shape: a TypedDict that names the fields of an object to decode; None for all of them.
            by_labels: see `ResourceCollection.filter_from`.
        """
        with self._lock:
            watches = self._of_session.get(id(session), ())
        version = parse_resource_version(resource_version) if watches else None
        if version is None:
            return None
        # Prefer the watch of the same collection: it needs no filter.
        for watch in sorted(
            watches, key=lambda shared_watch: shared_watch.collection != collection
        ):
            passing = collection.filter_from(watch.collection, by_labels=by_labels)
            if passing is not None:
                follower = SharedWatchFollower(watch, passing, version, deadline, shape)
                if watch.add_follower(follower):
                    return follower
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
        """Return a new shared watch; None if the collection has one already.

        Args:
            session: the session that watches.
            collection: the watched collection.
            resource_version: the version of the first event.
            clock: the clock of its silence.
            silence: see `SharedWatch`.
        """
        version = parse_resource_version(resource_version)
        if version is None:
            return None
        with self._lock:
            watches = self._of_session.get(id(session), ())
            if any(shared_watch.collection == collection for shared_watch in watches):
                return None
            watch = SharedWatch(session, collection, version, clock, silence, self._remove)
            self._of_session[id(session)] = (*watches, watch)
            return watch

    def _remove(self, watch: SharedWatch) -> None:
        key = id(watch.session)
        with self._lock:
            other_watches = [
                other_watch
                for other_watch in self._of_session.get(key, ())
                if other_watch is not watch
            ]
            if other_watches:
                self._of_session[key] = tuple(other_watches)
            else:
                self._of_session.pop(key, None)


SHARED_WATCHES = SharedWatches()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_WATCHES.reset_after_fork)
