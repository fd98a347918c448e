"""Functions of lists.

Source: k8s.io/apiserver pkg/cel/library/lists.go.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]

_COMPARED = ("int", "double", "bool", "string", "duration", "timestamp")
_SUMMED = ("int", "double", "duration")


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _least(values: list[Any]) -> Any:
    if not values:
        raise ValueError("min called on empty list")
    return min(values)


def _most(values: list[Any]) -> Any:
    if not values:
        raise ValueError("max called on empty list")
    return max(values)


def _total(values: list[Any]) -> Any:
    if values and isinstance(values[0], timedelta):
        return sum(values, timedelta())
    return sum(values)


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    **{(".isSorted", (f"list<{kind}>",), "bool"): _is_sorted for kind in _COMPARED},
    **{(".min", (f"list<{kind}>",), kind): _least for kind in _COMPARED},
    **{(".max", (f"list<{kind}>",), kind): _most for kind in _COMPARED},
    **{(".sum", (f"list<{kind}>",), kind): _total for kind in _SUMMED},
}
"""By name, types taken and type given."""
