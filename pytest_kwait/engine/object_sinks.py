"""Sinks of watched objects: the state of a single object, and incremental counters over many.

A named object is not created yet, present, deleted or re-created. Many objects are counted by their
state, at a constant cost per change.

A result of thousands of objects is a `LazyList`: bytes, each decoded on first access. A test that
waits for 5,000 pods mostly needs a few of them, or only their number. Decoding all of them costs
more than the whole wait, in time and in memory.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import msgspec

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import (
    Failed,
    Grace,
    ObjectReference,
    ObjectSink,
    Pending,
    TerminalState,
)
from pytest_kwait.engine.pod_fields import CrashHistory, has_crashed, is_creating

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pytest_kwait.client.resource import Resource

LARGE = 500
"""The minimum length of a lazy list."""

_Object = dict[str, Any]

_ONE_BY_ONE = {"__getitem__", "__init__", "__len__", "__new__"}

_REMEMBERED = 1024


class SingleObject(ObjectSink):
    """The sink of a source of one object.

    The object's identity is the first UID seen; an object with the same name and another UID is a
    different object. With `follows_name` the identity is the name.

    Args:
        uid: its UID, if known in advance.
    """

    def __init__(self, resource: Resource, name: str, uid: str = "") -> None:
        self.resource = resource
        self.name = name
        self.uid = uid
        self.current: dict[str, Any] | None = None
        self.deleted = False
        self.follows_name = False
        self.changes = 0
        """The number of changes seen; derived values are valid until the next."""
        self._raw = b""
        self._crashes = CrashHistory()
        self.marked: TerminalState | None = None
        """The terminal state of a pod whose containers are not created; None if unknown."""

    def follow_names(self) -> None:
        """Let its identity be its name."""
        self.follows_name = True

    def lost_noun(self) -> str:
        """Return its kind if it was deleted, also where another one has its name."""
        return self.noun if isinstance(self.missing_verdict(), Failed) else ""

    def has_creating(self) -> bool:
        """Return whether it is a pod whose containers are being created."""
        return self.current is not None and self.resource == PODS and is_creating(self.current)

    def creating(self) -> Collection[str]:
        """Return its UID if it is such a pod."""
        return self.uids() if self.has_creating() else ()

    def mark_creating(
        self, terminal: Mapping[str, TerminalState], since: Mapping[str, float]
    ) -> None:
        """Set the terminal state of such a pod for the next verdict."""
        self.marked = terminal.get(self.uid)

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Set the object."""
        self.current = obj
        self.changes += 1
        self._raw = raw
        uid = obj["metadata"].get("uid") or ""
        if not self.uid or (self.follows_name and uid != self.uid):
            self.uid = uid
            self._crashes = CrashHistory()
        if self.resource == PODS:
            self._crashes.record(obj, now)

    def date_failure(self, failed: Failed) -> Failed:
        """Return a pod's failure; that of a crash loop with its beginning, if that was seen."""
        return replace(failed, since=self._crashes.since) if failed.repeats else failed

    def drop(self, uid: str) -> None:
        """Remove the object, if it has this UID."""
        if uid in self.uids():
            self.current = None
            self.changes += 1
            self.deleted = True

    def uids(self) -> Collection[str]:
        """Return its UID while it is present."""
        return () if self.current is None else (self.current["metadata"].get("uid") or "",)

    @property
    def noun(self) -> str:
        """The kind as a noun in a sentence."""
        return self.resource.singular or self.resource.kind.lower()

    def missing_verdict(self) -> Pending | Failed | None:
        """Return the verdict on a missing or re-created object; None if it is present.

        Pending for an object not seen yet; failed at once for a deleted or re-created one. An
        object whose UID was known in advance counts as seen.
        """
        if self.current is None:
            if self.follows_name and self.uid:
                return Pending(f"the {self.noun} was deleted, not found again yet", absent=True)
            if self.deleted or self.uid:
                return Failed(f"the {self.noun} was deleted")
            return Pending("not found yet", absent=True)
        if self.uids() != (self.uid,):
            return Failed(f"the {self.noun} was deleted and created anew under another UID")
        return None

    def ending(self) -> Failed | None:
        """Return the failure of an object that is being deleted; None otherwise."""
        if self.current is not None and self.current["metadata"].get("deletionTimestamp"):
            return Failed(f"the {self.noun} is being deleted", Grace.SHORT)
        return None

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec; empty without one."""
        return (self.current or {}).get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """Its status; empty without one."""
        return (self.current or {}).get("status") or {}

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the first status condition of a type; None without one."""
        return get_condition(self.current or {}, kind)

    def holds(self, kind: str) -> dict[str, Any] | None:
        """Return the status condition of a type if its status is True; None otherwise."""
        condition = self.condition(kind)
        return condition if condition is not None and condition.get("status") == "True" else None

    def object(self) -> dict[str, Any]:
        """Return the whole object as last received."""
        return decode_whole(self.resource, self._raw)

    def reference(self) -> ObjectReference:
        """Return its name for evidence and hints."""
        return ObjectReference(
            self.resource.kind,
            self.name,
            self.uid,
            self.resource.qualified,
            exists=self.current is not None,
        )


def make_object_list(raws: list[bytes], decode: Callable[[bytes], _Object]) -> list[_Object]:
    """Return the objects as a list, lazy if they are many.

    Args:
        raws: the objects' bytes.
        decode: decodes an object; called at most once for each.
    """
    if len(raws) >= LARGE:
        return LazyList(raws, decode)
    return [decode(raw) for raw in raws]


class _LazyItem:
    """A placeholder in the slots of a lazy list, which C code may read directly.

    No encoder accepts it, so such code fails instead of writing wrong data.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class LazyList(list[_Object]):
    """A list of objects that are decoded on first access.

    `len` and an index decode nothing else; any other access decodes all. It pickles and copies as
    a plain list.

    Args:
        raws: the objects' bytes.
        decode: decodes an object.
    """

    __slots__ = ("_decode", "_whole")

    def __init__(self, raws: Iterable[bytes], decode: Callable[[bytes], _Object]) -> None:
        super().__init__(_LazyItem(raw) for raw in raws)  # type: ignore[misc]  # placeholders
        self._decode = decode
        self._whole = False

    def _at(self, index: SupportsIndex) -> _Object:
        item: object = super().__getitem__(index)
        if isinstance(item, _LazyItem):
            item = self._decode(item.raw)
            super().__setitem__(index, item)
        return item  # type: ignore[return-value]  # only objects and placeholders are in it

    def _decode_all(self) -> None:
        if self._whole:
            return
        with pause_collector():
            for index in range(len(self)):
                self._at(index)
        self._whole = True

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _Object: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[_Object]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> _Object | list[_Object]:
        if isinstance(index, slice):
            return [self._at(position) for position in range(*index.indices(len(self)))]
        return self._at(index)

    def __radd__(self, other: list[Any]) -> list[Any]:
        return [*other, *self]

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        return list, ([*self],)


def _decode_all_first(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def decoded(self: LazyList, /, *args: Any, **kwargs: Any) -> Any:
        self._decode_all()
        return method(self, *args, **kwargs)

    return decoded


for _name, _method in vars(list).items():
    if callable(_method) and _name not in _ONE_BY_ONE | {"__class_getitem__", "__getattribute__"}:
        setattr(LazyList, _name, _decode_all_first(_method))


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the garbage collector while many objects are created.

    It takes four fifths of the time of reading them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class ObjectState:
    """The state of one object, as it is counted.

    Args:
        label: its label in the summary: `Pending (ContainerCreating)`.
        counts: the names under which it is counted.
        keep: whether it belongs to the wait's result.
        terminal_state: the terminal state; None without one.
    """

    label: str
    counts: tuple[str, ...] = ()
    keep: bool = False
    terminal_state: TerminalState | None = None


@dataclass(slots=True)
class CountedObject:
    """One present object.

    Args:
        raw: the whole object as received; None unless its state is kept.
        terminal_since: when its terminal state began, in monotonic seconds.
        permanent_since: when its terminal state became unrecoverable.
        crashes: the crashes of a pod's containers; None before the first one.
    """

    name: str
    uid: str
    state: ObjectState
    raw: bytes | None
    terminal_since: float = 0.0
    permanent_since: float = 0.0
    crashes: CrashHistory | None = None


class ObjectStateCache:
    """A cache of states by status: objects with equal status are classified once.

    The running pods of a job have equal status. A cache lookup costs a fifth of classifying.

    Args:
        classify: returns the state of an object, given its terminal state so far. It reads only
            the status, and the `other` value of `get_state`.
    """

    def __init__(
        self, classify: Callable[[dict[str, Any], TerminalState | None], ObjectState]
    ) -> None:
        self._classify = classify
        self._states: dict[tuple[bytes, object, TerminalState | None], ObjectState] = {}

    def get_state(
        self, obj: dict[str, Any], before: TerminalState | None, other: object
    ) -> ObjectState:
        """Return the state of an object.

        Args:
            before: its terminal state so far.
            other: a hashable value that the state depends on, apart from the status.
        """
        key = (msgspec.msgpack.encode(obj.get("status")), other, before)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _REMEMBERED:
                self._states.clear()
            state = self._states[key] = self._classify(obj, before)
        return state


class ObjectCounter(ObjectSink):
    """The sink of a source of many objects.

    Args:
        classify: returns the state of an object, given its terminal state so far.
    """

    def __init__(
        self, classify: Callable[[dict[str, Any], TerminalState | None], ObjectState]
    ) -> None:
        self._classify = classify
        self._entries: dict[str, CountedObject] = {}
        self._labels: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, CountedObject] = {}
        # Both in insertion order.
        self._terminal: dict[str, CountedObject] = {}
        self._permanent: dict[str, CountedObject] = {}
        self._creating: dict[str, None] = {}
        self._marked: dict[str, ObjectState] = {}
        self._has_loops = False
        self.takes_marks = True
        """True if failures to create containers keep the awaited pods from coming."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count an object in its new state instead of its former one."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        before = self._entries.get(uid)
        state = self._classify(obj, before.state.terminal_state if before else None)
        if before is None:
            entry = self._entries[uid] = CountedObject(metadata["name"], uid, state, None)
            self._count(state, 1)
        else:
            entry = before
            if state is not entry.state and state != entry.state:
                self._count(entry.state, -1)
                self._count(state, 1)
                entry.state = state
        if has_crashed(obj):
            entry.crashes = entry.crashes or CrashHistory()
            entry.crashes.record(obj, now)
        if state.keep:
            entry.raw = raw
            self._kept[uid] = entry
        elif entry.raw is not None:
            entry.raw = None
            del self._kept[uid]
        if self.takes_marks and not state.keep and is_creating(obj):
            self._creating[uid] = None
        elif self._creating:
            self._creating.pop(uid, None)
        self._record_terminal_state(entry, now)

    def has_creating(self) -> bool:
        """Return whether the containers of an awaited pod are being created."""
        return bool(self._creating)

    def creating(self) -> Collection[str]:
        """Return the UIDs of pods whose containers are being created, and that are not kept."""
        return self._creating.keys()

    def mark_creating(
        self, terminal: Mapping[str, TerminalState], since: Mapping[str, float]
    ) -> None:
        """Set the terminal states of these pods for the next verdict; none for the others."""
        for uid, state in self._marked.items():
            entry = self._entries[uid]
            entry.state = state
            self._record_terminal_state(entry, 0.0)
        self._marked = {}
        for uid in sorted(terminal.keys() & self._creating.keys(), key=since.__getitem__):
            entry = self._entries[uid]
            if entry.state.terminal_state is None:
                self._marked[uid] = entry.state
                entry.state = replace(entry.state, terminal_state=terminal[uid])
                self._record_terminal_state(entry, since[uid])

    def drop(self, uid: str) -> None:
        """Remove an object; no-op if it is not counted."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._count(entry.state, -1)
            for group in (self._kept, self._terminal, self._permanent):
                group.pop(uid, None)
            self._creating.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present objects."""
        return self._entries.keys()

    def entry(self, uid: str) -> CountedObject | None:
        """Return the entry of an object; None if it is absent."""
        return self._entries.get(uid)

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, name: str) -> int:
        """Return the number of objects counted under `name`."""
        return self._counts[name]

    def summary(self) -> str:
        """Return the number of objects by label, most frequent first."""
        most = sorted(self._labels.items(), key=itemgetter(1), reverse=True)
        return ", ".join([f"{n} {label}" for label, n in most])

    @property
    def terminal_count(self) -> int:
        """The number of objects in a terminal state."""
        return len(self._terminal)

    def nth_terminal(self, n: int) -> tuple[CountedObject, Grace, float] | None:
        """Return the first terminal object, the grace and the start once `n` are terminal.

        Args:
            n: the number of terminal objects that fail the wait, 1 or more.

        Returns:
            None while fewer are terminal. The grace is short if `n` of them cannot recover, and
            long otherwise. The state began when the last of the `n` became terminal.
        """
        if len(self._permanent) >= n:
            since = _get_nth(self._permanent, n).permanent_since
            return _get_nth(self._permanent, 1), Grace.SHORT, since
        if len(self._terminal) >= n:
            since = _get_nth(self._terminal, n).terminal_since
            if self._has_loops:
                # They began before they became terminal, in another order.
                since = max(entry.terminal_since for entry in islice(self._terminal.values(), n))
            return _get_nth(self._terminal, 1), Grace.LONG, since
        return None

    def terminal_verdict(
        self, n: int, noun: str = "pod ", *, count_others: bool = True
    ) -> Failed | None:
        """Return the failure of the first terminal object once `n` are terminal; None before.

        Args:
            n: the number of terminal objects that fail the wait; below 1 for none.
            noun: the words before its name.
            count_others: whether the reason counts the other terminal objects.
        """
        terminal = self.nth_terminal(n) if n > 0 else None
        if terminal is None or terminal[0].state.terminal_state is None:
            return None
        entry, grace, since = terminal
        others = self.terminal_count - 1 if count_others else 0
        more = f" (and {others} more pod{'s' if others > 1 else ''})" if others else ""
        reason = terminal[0].state.terminal_state.reason
        return Failed(f"{noun}{entry.name}{more}: {reason}", grace, since)

    def suspects(self, limit: int = 20) -> list[str]:
        """Return the names of terminal objects, oldest first."""
        return [entry.name for entry in islice(self._terminal.values(), limit)]

    def objects(self, resource: Resource) -> list[dict[str, Any]]:
        """Return the kept objects, sorted by name."""
        entries = sorted(self._kept.values(), key=lambda entry: entry.name)
        raws = [entry.raw for entry in entries if entry.raw is not None]
        return make_object_list(raws, functools.partial(decode_whole, resource))

    def _count(self, state: ObjectState, by: int) -> None:
        self._labels[state.label] += by
        if not self._labels[state.label]:
            del self._labels[state.label]
        for name in state.counts:
            self._counts[name] += by

    def _record_terminal_state(self, entry: CountedObject, now: float) -> None:
        terminal_state = entry.state.terminal_state
        if terminal_state is None:
            if not self._terminal:
                return
            self._terminal.pop(entry.uid, None)
        elif entry.uid not in self._terminal:
            looping = entry.crashes.since if terminal_state.repeats and entry.crashes else None
            entry.terminal_since = now if looping is None else looping
            self._has_loops = self._has_loops or looping is not None
            self._terminal[entry.uid] = entry
        if terminal_state is None or terminal_state.grace is not Grace.SHORT:
            self._permanent.pop(entry.uid, None)
        elif entry.uid not in self._permanent:
            entry.permanent_since = now
            self._permanent[entry.uid] = entry


def _get_nth(entries: dict[str, CountedObject], n: int) -> CountedObject:
    return next(islice(entries.values(), n - 1, None))


def decode_whole(resource: Resource, raw: bytes) -> dict[str, Any]:
    """Decode an object and add its kind, which items of a list lack."""
    obj: dict[str, Any] = msgspec.json.decode(raw)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
