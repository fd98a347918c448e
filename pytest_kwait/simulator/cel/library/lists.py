"""Functions of lists.

Source: k8s.io/apiserver pkg/cel/library/lists.go.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.values import Duration, is_equal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.library.overloads import Overloads

_COMPARABLE_KINDS = ("int", "double", "bool", "string", "duration", "timestamp")
_SUMMABLE_KINDS = ("int", "double", "duration")


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _min(values: list[Any]) -> Any:
    if not values:
        raise ValueError("min called on empty list")
    return min(values)


def _max(values: list[Any]) -> Any:
    if not values:
        raise ValueError("max called on empty list")
    return max(values)


def _sum(values: list[Any]) -> Any:
    if values and isinstance(values[0], Duration):
        return sum(values, Duration(0))
    return sum(values)


def _index_of(values: Any, item: Any, start: int = 0) -> int:
    if isinstance(values, list):
        return next((at for at, value in enumerate(values) if is_equal(value, item)), -1)
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    index: int = start if item == "" else values.find(item, start)
    return index


def _last_index_of(values: Any, item: Any, end: int | None = None) -> int:
    if isinstance(values, list):
        places = [at for at, value in enumerate(values) if is_equal(value, item)]
        return places[-1] if places else -1
    if end is None:
        end = len(values)
    if end < 0:
        raise ValueError(f"index out of range: {end}")
    index: int = end if item == "" else values.rfind(item, 0, end + len(item))
    return index


_SEARCHES: dict[str, Callable[..., Any]] = {".indexOf": _index_of, ".lastIndexOf": _last_index_of}

LIST_FUNCTIONS: Overloads = {
    **{(".isSorted", (f"list<{kind}>",), "bool"): _is_sorted for kind in _COMPARABLE_KINDS},
    **{(".min", (f"list<{kind}>",), kind): _min for kind in _COMPARABLE_KINDS},
    **{(".max", (f"list<{kind}>",), kind): _max for kind in _COMPARABLE_KINDS},
    **{
        (name, (f"list<{kind}>", kind), "int"): run
        for name, run in _SEARCHES.items()
        for kind in _COMPARABLE_KINDS
    },
    **{(name, ("string", "string"), "int"): run for name, run in _SEARCHES.items()},
    **{(name, ("string", "string", "int"), "int"): run for name, run in _SEARCHES.items()},
    **{(".sum", (f"list<{kind}>",), kind): _sum for kind in _SUMMABLE_KINDS},
}
