"""Results of thousands of objects: their bytes, decoded when somebody looks at them.

A test that waits for 5,000 pods mostly goes on with a few of them, or with their number. To decode
them all costs more than the whole wait, in time and in memory.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["LARGE", "LazyList", "make_object_list"]

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
