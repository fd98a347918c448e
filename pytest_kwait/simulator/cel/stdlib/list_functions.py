"""CEL functions of lists and sets.

Source: github.com/google/cel-go ext/{lists,sets,comprehensions}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    OPTIONAL_NONE,
    ErrorValue,
    OptionalValue,
    get_kind,
    is_equal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIST_FUNCTIONS"]

_ORDERED_KINDS = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")


def _accept_lists(run: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if all(isinstance(value, list) for value in values[:count]):
            return run(*values)
        return NO_OVERLOAD

    return call


def _slice(values: list[Any], start: int, end: int) -> Any:
    what = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        return ErrorValue(f"{what}negative indexes not supported")
    if start > end:
        return ErrorValue(f"{what}start index must be less than or equal to end index")
    if len(values) < end:
        return ErrorValue(f"{what}list is length {len(values)}")
    return list(values[start:end])


def _flatten(values: list[Any], depth: int = 1) -> Any:
    if depth < 0:
        return ErrorValue("level must be non-negative")
    found: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth:
            found += _flatten(value, depth - 1)
        else:
            found.append(value)
    return found


def _sort_by(values: list[Any], keys: list[Any]) -> Any:
    if not values:
        return values
    kinds = {get_kind(key) for key in keys}
    if get_kind(keys[0]) not in _ORDERED_KINDS:
        return ErrorValue("list elements must be comparable")
    if len(kinds) > 1:
        return ErrorValue("list elements must have the same type")
    places = sorted(range(len(values)), key=keys.__getitem__)
    return [values[place] for place in places]


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(is_equal(value, one) for one in found):
            found.append(value)
    return found


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(is_equal(value, one) for value in values) for one in wanted)


def _insert_entry(made: Any, key: Any, value: Any = None, *, entry: bool = False) -> Any:
    more = key if entry else {key: value}
    if not isinstance(made, dict) or not isinstance(more, dict):
        return NO_OVERLOAD
    for one in more:
        if one in made:
            return ErrorValue(f"insert failed: key {one} already exists")
    return {**made, **more}


def _insert_or_merge(made: Any, *given: Any) -> Any:
    return _insert_entry(made, *given, entry=len(given) == 1)


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "@sortByAssociatedKeys": _accept_lists(_sort_by, 2),
    "cel.@mapInsert": _insert_or_merge,
    "distinct": _accept_lists(_distinct),
    "first": _accept_lists(lambda values: OptionalValue(values[0]) if values else OPTIONAL_NONE),
    "flatten": _accept_lists(_flatten),
    "last": _accept_lists(lambda values: OptionalValue(values[-1]) if values else OPTIONAL_NONE),
    "lists.range": lambda count: list(range(count)),
    "reverse": _accept_lists(lambda values: values[::-1]),
    "sets.contains": _accept_lists(_contains_all, 2),
    "sets.equivalent": _accept_lists(
        lambda one, two: _contains_all(one, two) and _contains_all(two, one), 2
    ),
    "sets.intersects": _accept_lists(
        lambda one, two: any(_contains_all(two, [value]) for value in one), 2
    ),
    "slice": _accept_lists(_slice),
    "sort": _accept_lists(lambda values: _sort_by(values, values)),
}
"""The implementations by name; member functions take their receiver first."""
