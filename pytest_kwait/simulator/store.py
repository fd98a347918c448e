"""The object store: objects by resource and key, under one global revision.

Every write is one change with its own revision. A ring of changes per resource serves watches and
earlier states; a revision that left the ring is too old.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from pytest_kwait.simulator.api_errors import expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.objects import Obj

HISTORY = 2048
"""Changes kept per resource."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode


def key_of(name: str, namespace: str = "") -> str:
    """Return the key of an object within its resource; keys sort as the server lists."""
    return f"{namespace}/{name}" if namespace else name


def with_revision(obj: Obj, revision: int) -> Obj:
    """Return `obj` with another resourceVersion."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


class Entry:
    """One version of one object, with its JSON encoded at most once.

    Args:
        key: the object's key within its resource.
        obj: the object; never changed from here on.
        revision: the revision that wrote it.
        written: the object as it was written, where `obj` has defaults besides.
    """

    __slots__ = ("_raw", "_written", "key", "obj", "revision")

    def __init__(self, key: str, obj: Obj, revision: int, written: Obj | None = None) -> None:
        self.key = key
        self.obj = obj
        self.revision = revision
        self._written = obj if written is None else written
        self._raw: bytes | None = None

    def read_again(self, read: Callable[[Obj], Obj]) -> None:
        """Replace the object by `read` of what was written."""
        self.obj = read(self._written)
        self._raw = None

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if self._raw is None:
            self._raw = _encode(self.obj)
        return self._raw

    def forget_raw(self) -> None:
        """Free the encoded form; `raw` encodes it again."""
        self._raw = None


class Change(NamedTuple):
    """One write; for a deletion `new` is the object's last state."""

    type: ChangeType
    revision: int
    new: Entry
    old: Entry | None


class _Bucket:
    """The objects of one resource."""

    __slots__ = ("entries", "floor", "history", "keys", "watchers")

    def __init__(self, floor: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.history: deque[Change] = deque()
        self.floor = floor
        self.watchers: dict[str, list[Callable[[Change], None]]] = {}
        """Watchers by namespace, empty for all namespaces."""
        self.keys: list[str] = []
        """Sorted."""


class Store:
    """Objects of all resources.

    Args:
        history: changes that are kept per resource.
    """

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self._history = history
        self._floor = 0
        self._buckets: dict[str, _Bucket] = {}
        self._listeners: list[Callable[[str, Change], None]] = []
        self._pending: deque[tuple[str, Change]] = deque()
        self._delivering = False

    def _bucket(self, resource: str) -> _Bucket:
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = _Bucket(self._floor)
        return bucket

    def resources(self) -> list[str]:
        """The resources that have or had objects."""
        return list(self._buckets)

    def get(self, resource: str, key: str) -> Entry | None:
        """Return the latest entry of an object, None if it does not exist."""
        return self._bucket(resource).entries.get(key)

    def present(self, resource: str) -> Mapping[str, Entry]:
        """Return a live view of the latest entries by key."""
        return self._bucket(resource).entries

    def count(self, resource: str) -> int:
        """Return the number of objects."""
        return len(self._bucket(resource).entries)

    def entries(self, resource: str, namespace: str | None = None) -> list[Entry]:
        """Return the latest entries in the order of their keys; None means all namespaces."""
        bucket = self._bucket(resource)
        entries = bucket.entries
        if namespace is None:
            return [entries[key] for key in bucket.keys]
        keys = bucket.keys
        low = bisect_right(keys, f"{namespace}/")
        high = bisect_right(keys, f"{namespace}0")  # "0" is the character after "/"
        return [entries[key] for key in keys[low:high]]

    def entries_at(self, resource: str, revision: int, namespace: str | None = None) -> list[Entry]:
        """Return the entries as of `revision`, in the order of their keys.

        Raises:
            StatusError: 410, the changes since then are no longer kept.
        """
        bucket = self._bucket(resource)
        if revision < bucket.floor:
            raise expired("The resourceVersion for the provided list is too old.")
        state = dict(bucket.entries)
        for change in reversed(bucket.history):
            if change.revision <= revision:
                break
            if change.old is None:
                state.pop(change.new.key, None)
            else:
                state[change.new.key] = change.old
        prefix = "" if namespace is None else f"{namespace}/"
        return [state[key] for key in sorted(state) if key.startswith(prefix)]

    def since(self, resource: str, revision: int) -> Iterator[Change]:
        """The changes after `revision`, oldest first.

        Raises:
            StatusError: 410, some of them are no longer kept.
        """
        bucket = self._bucket(resource)
        if revision < bucket.floor:
            raise expired(f"too old resource version: {revision} ({bucket.floor})")
        recent: deque[Change] = deque()
        for change in reversed(bucket.history):
            if change.revision <= revision:
                break
            recent.appendleft(change)
        return iter(recent)

    def put(self, resource: str, key: str, obj: Obj, written: Obj | None = None) -> Entry:
        """Write `obj` under the next revision, which becomes its resourceVersion.

        Args:
            written: the object without the defaults of its schema, with the same metadata.
        """
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        entry = Entry(key, obj, self.revision, written)
        self._place(resource, entry)
        return entry

    def put_copy(self, resource: str, key: str, obj: Obj, revision: int) -> None:
        """Store an object of another server, under the revision that it has there."""
        self.revision = max(self.revision, revision)
        self._place(resource, Entry(key, obj, revision))

    def _place(self, resource: str, entry: Entry) -> None:
        bucket = self._bucket(resource)
        old = bucket.entries.get(entry.key)
        bucket.entries[entry.key] = entry
        if old is None:
            insort(bucket.keys, entry.key)
        change = Change("MODIFIED" if old else "ADDED", entry.revision, entry, old)
        self._record(resource, change)

    def read_again(self, resource: str, read: Callable[[Obj], Obj]) -> None:
        """Read all objects of `resource` again, after a change of its schema; no watch sees it."""
        bucket = self._bucket(resource)
        known = {id(entry): entry for entry in bucket.entries.values()}
        for change in bucket.history:
            for entry in (change.new, change.old):
                if entry is not None:
                    known[id(entry)] = entry
        for entry in known.values():
            entry.read_again(read)

    def remove(self, resource: str, key: str) -> Entry:
        """Remove the object; the change carries its last state under the next revision."""
        self.revision += 1
        last = with_revision(self._bucket(resource).entries[key].obj, self.revision)
        return self._discard(resource, Entry(key, last, self.revision))

    def remove_copy(self, resource: str, key: str, last: Obj, revision: int) -> None:
        """Remove an object of another server, with the last state and revision that it had."""
        self.revision = max(self.revision, revision)
        self._discard(resource, Entry(key, last, revision))

    def _discard(self, resource: str, last: Entry) -> Entry:
        bucket = self._bucket(resource)
        old = bucket.entries.pop(last.key)
        del bucket.keys[bisect_left(bucket.keys, last.key)]
        self._record(resource, Change("DELETED", last.revision, last, old))
        return last

    def forget_history(self) -> None:
        """Make every earlier revision too old for watches."""
        self._floor = self.revision
        for bucket in self._buckets.values():
            bucket.floor = self.revision
            bucket.history.clear()

    def watch(
        self, resource: str, watcher: Callable[[Change], None], namespace: str = ""
    ) -> Callable[[], None]:
        """Call `watcher` with each further change of `resource`; returns a function that ends it.

        Args:
            resource: what is followed.
            watcher: what is called.
            namespace: only changes there count; all by default.
        """
        by_namespace = self._bucket(resource).watchers
        by_namespace.setdefault(namespace, []).append(watcher)

        def stop() -> None:
            watchers = by_namespace.get(namespace, [])
            if watcher in watchers:
                watchers.remove(watcher)
                if not watchers:
                    del by_namespace[namespace]

        return stop

    def watchers(self, resource: str) -> int:
        """Return the number of watchers of a resource."""
        return sum(map(len, self._bucket(resource).watchers.values()))

    def listen(self, listener: Callable[[str, Change], None]) -> Callable[[], None]:
        """Call `listener` with each further change of any resource, before the watchers.

        Returns:
            a function that ends it.
        """
        self._listeners.append(listener)

        def stop() -> None:
            self._listeners = [
                known_listener
                for known_listener in self._listeners
                if known_listener is not listener
            ]

        return stop

    def _record(self, resource: str, change: Change) -> None:
        bucket = self._bucket(resource)
        bucket.history.append(change)
        if len(bucket.history) > self._history:
            bucket.floor = bucket.history.popleft().revision
        self._pending.append((resource, change))
        if self._delivering:
            return  # written from within a delivery: everyone sees changes in their order
        self._delivering = True
        try:
            while self._pending:
                self._deliver(*self._pending.popleft())
        finally:
            self._delivering = False

    def _deliver(self, resource: str, change: Change) -> None:
        for listener in self._listeners:
            listener(resource, change)
        by_namespace = self._bucket(resource).watchers
        for watcher in (*by_namespace.get("", ()),):
            watcher(change)
        namespace, slash, _ = change.new.key.partition("/")
        if slash:
            for watcher in (*by_namespace.get(namespace, ()),):
                watcher(change)
        if change.old is not None:
            change.old.forget_raw()
