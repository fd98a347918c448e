"""Incremental counters over many objects, at a constant cost per change.

A result of thousands of objects is a `LazyList`: bytes, each decoded on first access. A test that
waits for 5,000 pods mostly needs a few of them, or only their number. Decoding all of them costs
more than the whole wait, in time and in memory.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import msgspec

from pytest_kwait.engine.verdicts import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pytest_kwait.client.resource import Resource

__all__ = [
    "LARGE",
    "CountedObject",
    "LazyList",
    "ObjectCounter",
    "ObjectState",
    "ObjectStateCache",
    "TerminalState",
    "decode_whole",
    "make_object_list",
]

LARGE = 500
"""The minimum length of a lazy list."""

_Object = dict[str, Any]


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
        found: object = super().__getitem__(index)
        if isinstance(found, _LazyItem):
            found = self._decode(found.raw)
            super().__setitem__(index, found)
        return found  # type: ignore[return-value]  # only objects and placeholders are in it

    def _decode_all(self) -> None:
        if self._whole:
            return
        with _pause_collector():
            for index in range(len(self)):
                self._at(index)
        self._whole = True

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _Object: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[_Object]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> _Object | list[_Object]:
        if isinstance(index, slice):
            return [self._at(each) for each in range(*index.indices(len(self)))]
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


_ONE_BY_ONE = {"__getitem__", "__init__", "__len__", "__new__"}
for _name, _method in vars(list).items():
    if callable(_method) and _name not in _ONE_BY_ONE | {"__class_getitem__", "__getattribute__"}:
        setattr(LazyList, _name, _decode_all_first(_method))


@contextlib.contextmanager
def _pause_collector() -> Iterator[None]:
    """Pause the garbage collector while many objects are created."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class TerminalState:
    """A state in which an object cannot reach the awaited one.

    Args:
        reason: the cause in a few words, without the object's name.
        patience: how long the state must hold before it ends the wait; not `NONE`.
    """

    reason: str
    patience: Patience


@dataclass(frozen=True, slots=True)
class ObjectState:
    """The state of one object, as it is counted.

    Args:
        label: its label in the summary: `Pending (ContainerCreating)`.
        counts: the names under which it is counted.
        keep: whether it belongs to the wait's result.
        doom: the terminal state; None without one.
    """

    label: str
    counts: tuple[str, ...] = ()
    keep: bool = False
    doom: TerminalState | None = None


@dataclass(slots=True)
class CountedObject:
    """One present object.

    Args:
        uid: its UID.
        raw: the whole object as received; None unless its state is kept.
        terminal_since: when its terminal state began, in monotonic seconds.
        permanent_since: when its terminal state became unrecoverable.
    """

    name: str
    uid: str
    state: ObjectState
    raw: bytes | None
    terminal_since: float = 0.0
    permanent_since: float = 0.0


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
            obj: the object.
            before: its terminal state so far.
            other: a hashable value that the state depends on besides the status.
        """
        key = (msgspec.msgpack.encode(obj.get("status")), other, before)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _REMEMBERED:
                self._states.clear()
            state = self._states[key] = self._classify(obj, before)
        return state


class ObjectCounter:
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

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count an object in its new state instead of its former one."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        before = self._entries.get(uid)
        state = self._classify(obj, before.state.doom if before else None)
        if before is None:
            entry = self._entries[uid] = CountedObject(metadata["name"], uid, state, None)
            self._count(state, 1)
        else:
            entry = before
            if state is not entry.state and state != entry.state:
                self._count(entry.state, -1)
                self._count(state, 1)
                entry.state = state
        if state.keep:
            entry.raw = raw
            self._kept[uid] = entry
        elif entry.raw is not None:
            entry.raw = None
            del self._kept[uid]
        self._record_terminal_state(entry, now)

    def drop(self, uid: str) -> None:
        """Remove an object; no-op if it is not counted."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._count(entry.state, -1)
            for group in (self._kept, self._terminal, self._permanent):
                group.pop(uid, None)

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
    def doomed(self) -> int:
        """The number of objects in a terminal state."""
        return len(self._terminal)

    def nth_terminal(self, n: int) -> tuple[CountedObject, Patience, float] | None:
        """Return the first terminal object, the patience and the start once `n` are terminal.

        Args:
            n: the number of terminal objects that fail the wait, 1 or more.

        Returns:
            None while fewer are terminal. The patience is short if `n` of them cannot recover, and
            long otherwise. The state began when the last of the `n` became terminal.
        """
        if len(self._permanent) >= n:
            since = _get_nth(self._permanent, n).permanent_since
            return _get_nth(self._permanent, 1), Patience.SHORT, since
        if len(self._terminal) >= n:
            since = _get_nth(self._terminal, n).terminal_since
            return _get_nth(self._terminal, 1), Patience.LONG, since
        return None

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
        terminal_state = entry.state.doom
        if terminal_state is None:
            if not self._terminal:
                return
            self._terminal.pop(entry.uid, None)
        elif entry.uid not in self._terminal:
            entry.terminal_since = now
            self._terminal[entry.uid] = entry
        if terminal_state is None or terminal_state.patience is not Patience.SHORT:
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
