"""Incremental counters over many objects: every change costs the same, however many there are.

A result of thousands of objects is a `LazyList`: bytes, each decoded on first access. A test that
waits for 5,000 pods mostly continues with a few of them, or with their number; to decode them all
costs more than the whole wait, in time and in memory.
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
"""From so many objects on a list decodes them when they are looked at."""

_Object = dict[str, Any]


def make_object_list(raws: list[bytes], decode: Callable[[bytes], _Object]) -> list[_Object]:
    """Return the objects as a list: decoded where they are few, when looked at where they are many.

    Args:
        raws: the objects' bytes; the list is taken over.
        decode: makes an object of bytes; called once for each at most.
    """
    if len(raws) >= LARGE:
        return LazyList(raws, decode)
    return [decode(raw) for raw in raws]


class _LazyItem:
    """Stands for an object in the slots that C code reads past this class's methods.

    No encoder takes it for anything: what would go wrong says so.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


class LazyList(list[_Object]):
    """A list of objects that are still bytes: each is decoded once, when it is looked at.

    `len` and an index decode nothing else; whatever looks at more of it decodes all. It pickles and
    copies as the plain list that it equals.

    Args:
        raws: the objects' bytes.
        decode: makes an object of bytes.
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
    """Make many objects that all stay, without the collector going through them time and again."""
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
    """Why an object will not become what is awaited.

    Args:
        reason: in a few words, without the object's name.
        patience: how long the state must hold before it is believed; not `NONE`.
    """

    reason: str
    patience: Patience


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What one object counts as.

    Args:
        label: how the summary names it: `Pending (ContainerCreating)`.
        counts: the names under which it is counted.
        keep: whether it belongs to the wait's result, so that its bytes are kept.
        doom: why it will not become what is awaited; None while it may.
    """

    label: str
    counts: tuple[str, ...] = ()
    keep: bool = False
    doom: TerminalState | None = None


@dataclass(slots=True)
class CountedObject:
    """One object that is there.

    Args:
        name: its name.
        uid: its UID.
        state: what it counts as.
        raw: the whole object as it came; None while its state is not one to keep.
        doomed_at: since when it has been doomed without a break.
        hopeless_at: since when its doom has been one that nothing heals.
    """

    name: str
    uid: str
    state: ObjectState
    raw: bytes | None
    terminal_since: float = 0.0
    permanent_since: float = 0.0


class ObjectStateCache:
    """What objects counted as, by their status: those that look alike are judged once.

    The pods of a job are as like as peas once they run; to tell that costs a fifth of judging.

    Args:
        judge: what an object counts as, given the object and its doom so far. It reads nothing
            but the object's status, and what else `recall` is given.
    """

    def __init__(
        self, judge: Callable[[dict[str, Any], TerminalState | None], ObjectState]
    ) -> None:
        self._judge = judge
        self._states: dict[tuple[bytes, object, TerminalState | None], ObjectState] = {}

    def get_state(
        self, obj: dict[str, Any], before: TerminalState | None, other: object
    ) -> ObjectState:
        """Return what an object counts as.

        Args:
            obj: the object.
            before: its doom so far.
            other: what decides beside the status; hashable.
        """
        key = (msgspec.msgpack.encode(obj.get("status")), other, before)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _REMEMBERED:
                self._states.clear()
            state = self._states[key] = self._judge(obj, before)
        return state


class ObjectCounter:
    """The book of a source of many objects.

    Args:
        judge: what an object counts as, given its fields and its doom so far.
    """

    def __init__(
        self, judge: Callable[[dict[str, Any], TerminalState | None], ObjectState]
    ) -> None:
        self._judge = judge
        self._entries: dict[str, CountedObject] = {}
        self._labels: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, CountedObject] = {}
        # Both in the order in which objects entered: the n-th has been in it for longest but n.
        self._doomed: dict[str, CountedObject] = {}
        self._hopeless: dict[str, CountedObject] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count an object, instead of what it counted as before."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        before = self._entries.get(uid)
        state = self._judge(obj, before.state.doom if before else None)
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
        self._enter_doom(entry, now)

    def drop(self, uid: str) -> None:
        """Count an object no more; nothing where it was not counted."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._count(entry.state, -1)
            for group in (self._kept, self._doomed, self._hopeless):
                group.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the objects that are there."""
        return self._entries.keys()

    def entry(self, uid: str) -> CountedObject | None:
        """Return what is counted of an object; None where it is not there."""
        return self._entries.get(uid)

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, name: str) -> int:
        """Return how many objects count under `name`."""
        return self._counts[name]

    def summary(self) -> str:
        """Return how many objects there are of each label, most frequent first."""
        most = sorted(self._labels.items(), key=itemgetter(1), reverse=True)
        return ", ".join([f"{n} {label}" for label, n in most])

    @property
    def doomed(self) -> int:
        """How many objects will not become what is awaited."""
        return len(self._doomed)

    def nth_terminal(self, n: int) -> tuple[CountedObject, Patience, float] | None:
        """Return the doom that makes `n` objects doomed: of which first, how sure, since when.

        Args:
            n: how many doomed objects it takes, 1 or more.

        Returns:
            None while fewer are doomed. With `n` of them hopeless the doom is one that nothing
            heals; otherwise it may pass. It began when the last of the `n` was doomed.
        """
        if len(self._hopeless) >= n:
            since = _get_nth(self._hopeless, n).permanent_since
            return _get_nth(self._hopeless, 1), Patience.SHORT, since
        if len(self._doomed) >= n:
            since = _get_nth(self._doomed, n).terminal_since
            return _get_nth(self._doomed, 1), Patience.LONG, since
        return None

    def suspects(self, limit: int = 20) -> list[str]:
        """Return the names of doomed objects, the longest doomed first."""
        return [entry.name for entry in islice(self._doomed.values(), limit)]

    def objects(self, resource: Resource) -> list[dict[str, Any]]:
        """Return the objects kept, sorted by name, decoded from the bytes that came."""
        entries = sorted(self._kept.values(), key=lambda entry: entry.name)
        raws = [entry.raw for entry in entries if entry.raw is not None]
        return make_object_list(raws, functools.partial(decode_whole, resource))

    def _count(self, state: ObjectState, by: int) -> None:
        self._labels[state.label] += by
        if not self._labels[state.label]:
            del self._labels[state.label]
        for name in state.counts:
            self._counts[name] += by

    def _enter_doom(self, entry: CountedObject, now: float) -> None:
        doom = entry.state.doom
        if doom is None:
            if not self._doomed:
                return
            self._doomed.pop(entry.uid, None)
        elif entry.uid not in self._doomed:
            entry.terminal_since = now
            self._doomed[entry.uid] = entry
        if doom is None or doom.patience is not Patience.SHORT:
            self._hopeless.pop(entry.uid, None)
        elif entry.uid not in self._hopeless:
            entry.permanent_since = now
            self._hopeless[entry.uid] = entry


def _get_nth(entries: dict[str, CountedObject], n: int) -> CountedObject:
    return next(islice(entries.values(), n - 1, None))


def decode_whole(resource: Resource, raw: bytes) -> dict[str, Any]:
    """Decode an object; items of a list come without their kind, which is put first."""
    obj: dict[str, Any] = msgspec.json.decode(raw)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
