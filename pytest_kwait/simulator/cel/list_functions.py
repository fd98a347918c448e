"""The language's own functions of lists and sets.

Source: github.com/google/cel-go ext/{lists,sets,comprehensions}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import (
    NO_OVERLOAD,
    NONE,
    Failure,
    Optional,
    equal,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIST_FUNCTIONS"]

_ORDERED = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")


def _of_lists(run: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if all(isinstance(value, list) for value in values[:count]):
            return run(*values)
        return NO_OVERLOAD

    return call


def _slice(values: list[Any], start: int, end: int) -> Any:
    what = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        return Failure(f"{what}negative indexes not supported")
    if start > end:
        return Failure(f"{what}start index must be less than or equal to end index")
    if len(values) < end:
        return Failure(f"{what}list is length {len(values)}")
    return list(values[start:end])


def _flat(values: list[Any], depth: int = 1) -> Any:
    if depth < 0:
        return Failure("level must be non-negative")
    found: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth:
            found += _flat(value, depth - 1)
        else:
            found.append(value)
    return found


def _sorted_by(values: list[Any], keys: list[Any]) -> Any:
    if not values:
        return values
    kinds = {kind_of(key) for key in keys}
    if kind_of(keys[0]) not in _ORDERED:
        return Failure("list elements must be comparable")
    if len(kinds) > 1:
        return Failure("list elements must have the same type")
    places = sorted(range(len(values)), key=keys.__getitem__)
    return [values[place] for place in places]


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(equal(value, one) for one in found):
            found.append(value)
    return found


def _all_in(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(value, one) for value in values) for one in wanted)


def _inserted(made: Any, key: Any, value: Any = None, *, entry: bool = False) -> Any:
    more = key if entry else {key: value}
    if not isinstance(made, dict) or not isinstance(more, dict):
        return NO_OVERLOAD
    for one in more:
        if one in made:
            return Failure(f"insert failed: key {one} already exists")
    return {**made, **more}


def _insert(made: Any, *given: Any) -> Any:
    return _inserted(made, *given, entry=len(given) == 1)


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "@sortByAssociatedKeys": _of_lists(_sorted_by, 2),
    "cel.@mapInsert": _insert,
    "distinct": _of_lists(_distinct),
    "first": _of_lists(lambda values: Optional(values[0]) if values else NONE),
    "flatten": _of_lists(_flat),
    "last": _of_lists(lambda values: Optional(values[-1]) if values else NONE),
    "lists.range": lambda count: list(range(count)),
    "reverse": _of_lists(lambda values: values[::-1]),
    "sets.contains": _of_lists(_all_in, 2),
    "sets.equivalent": _of_lists(lambda one, two: _all_in(one, two) and _all_in(two, one), 2),
    "sets.intersects": _of_lists(lambda one, two: any(_all_in(two, [value]) for value in one), 2),
    "slice": _of_lists(_slice),
    "sort": _of_lists(lambda values: _sorted_by(values, values)),
}
"""By name; a member is called with what it is a member of first."""
