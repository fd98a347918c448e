"""What calls cost once they are done, by the values that they are called with.

Source: github.com/google/cel-go interpreter/runtimecost.go, ext/{lists,sets}.go;
k8s.io/apiserver pkg/cel/library/cost.go, func CallCost.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from pytest_kwait.simulator.cel.cel_values import OWN_NAMES, kind_of, size_of

__all__ = ["PAID_AFTER", "Price", "price_of"]

_TRAVERSAL, _REGEX, _MAKES_LIST = 0.1, 0.25, 11
_REQUIREMENT = 50
_TRAVERSED = frozenset(
    {
        "cidr",
        "endsWith",
        "format",
        "ip",
        "isCIDR",
        "isIP",
        "isQuantity",
        "isSemver",
        "jsonpatch_escapeKey",
        "lowerAscii",
        "quantity",
        "semver",
        "startsWith",
        "strings.quote",
        "substring",
        "trim",
        "upperAscii",
        "url",
    }
)
"""What goes through the first value once."""

_AGGREGATES = frozenset({"indexOf", "isSorted", "lastIndexOf", "max", "min", "sum"})
_OWN = frozenset(OWN_NAMES)


PAID_AFTER = frozenset({"join", "reverse", "slice"})
"""What costs as much as it gives; all else is paid first: what is too dear is not done."""


def _by(size: int, factor: float) -> int:
    return ceil(size * factor)


Price = Callable[[list[Any], Any], int]
"""What a call costs by what it was called with, a member first, and what it gave."""


def price_of(name: str) -> Price:
    """What calls of a function cost."""
    if name in _TRAVERSED:
        return _traversed
    if name in _AGGREGATES:
        return lambda values, _: _traversal(values[0])
    return _PRICES.get(name, lambda _values, _result: 1)


def _traversed(values: list[Any], _: Any) -> int:
    return 1 if kind_of(values[0]) == "CIDR" else _by(size_of(values[0]), _TRAVERSAL)


def _smaller(values: list[Any]) -> int:
    return _by(min(size_of(values[0]), size_of(values[1])), _TRAVERSAL)


def _equality(values: list[Any], _: Any) -> int:
    return 1 if kind_of(values[0]) in _OWN else _smaller(values)


def _order(values: list[Any], _: Any) -> int:
    return _smaller(values) if isinstance(values[0], str | bytes) else 1


def _sum(values: list[Any], _: Any) -> int:
    if not isinstance(values[0], str | bytes):
        return 1
    return _by(size_of(values[0]) + size_of(values[1]), _TRAVERSAL)


def _search(values: list[Any], _: Any) -> int:
    return _by(size_of(values[0]) + 1, _TRAVERSAL) * _by(size_of(values[1]), _REGEX)


def _contained(values: list[Any], _: Any) -> int:
    return _by(size_of(values[0]), _TRAVERSAL) * _by(size_of(values[1]), _TRAVERSAL)


def _twice(values: list[Any], _: Any) -> int:
    return _by(size_of(values[0]), 2 * _TRAVERSAL)


def _within(more: bool) -> Price:
    def price(values: list[Any], _: Any) -> int:
        size = size_of(values[0])
        parsed = size_of(values[1]) if isinstance(values[1], str) else 0
        masked = _by(size, _TRAVERSAL) + 1 if more else 0
        return _by(2 * size, _TRAVERSAL) + masked + _by(parsed, _TRAVERSAL)

    return price


def _validation(values: list[Any], _: Any) -> int:
    length: int = values[0].get("pattern", 0) if isinstance(values[0], dict) else 0
    return _by(size_of(values[1]) + 1, _TRAVERSAL) * _by(length, _REGEX)


def _selector(values: list[Any], _: Any) -> int:
    length = size_of(values[1])
    return 10 + _by(length, _TRAVERSAL) + _by(_by(length, 0.5), _REQUIREMENT)


def _set(factor: int) -> Price:
    return lambda values, _: 1 + factor * size_of(values[0]) * size_of(values[1])


def _made(_: list[Any], result: Any) -> int:
    return _MAKES_LIST + size_of(result)


def _counted(values: list[Any], _: Any) -> int:
    return _MAKES_LIST + (max(values[0], 0) if isinstance(values[0], int) else 1)


def _flattened(values: list[Any], _: Any) -> int:
    depth = values[1] if len(values) > 1 and isinstance(values[1], int) else 1
    return _MAKES_LIST + size_of(values[0]) * depth


def _conversion(kind: type) -> Price:
    return lambda values, _: (
        _by(size_of(values[0]), _TRAVERSAL) if isinstance(values[0], kind) else 1
    )


_PRICES: dict[str, Price] = {
    "@in": lambda values, _: size_of(values[1]) if isinstance(values[1], list) else 1,
    "@sortByAssociatedKeys": lambda values, _: _compared(values[1]),
    "_!=_": lambda values, _: _smaller(values),
    "_+_": _sum,
    "_<=_": _order,
    "_<_": _order,
    "_==_": _equality,
    "_>=_": _order,
    "_>_": _order,
    "bytes": _conversion(str),
    "check": lambda _values, _result: 350_000,
    "contains": _contained,
    "containsCIDR": _within(more=True),
    "containsIP": _within(more=False),
    "distinct": lambda values, _: _compared(values[0]),
    "fieldSelector": _selector,
    "find": _search,
    "findAll": _search,
    "flatten": _flattened,
    "ip.isCanonical": _twice,
    "join": lambda _, result: _by(size_of(result), 2 * _TRAVERSAL),
    "labelSelector": _selector,
    "lists.range": _counted,
    "matches": _search,
    "replace": _twice,
    "reverse": _made,
    "sets.contains": _set(1),
    "sets.equivalent": _set(2),
    "sets.intersects": _set(1),
    "slice": _made,
    "sort": lambda values, _: _compared(values[0]),
    "split": _twice,
    "string": _conversion(bytes),
    "validate": _validation,
}


def _traversal(value: Any) -> int:
    """What it costs to go through a value and all that is in it."""
    match kind_of(value):
        case "string":
            return int(len(value.encode()) * _TRAVERSAL)
        case "bytes":
            return int(len(value) * _TRAVERSAL)
        case "list":
            return sum(_traversal(item) for item in value)
        case "map":
            return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _compared(values: Any) -> int:
    """What it costs to compare all items of a list with each other."""
    if not isinstance(values, list) or not values:
        return _MAKES_LIST
    factor = 2.1 if kind_of(values[0]) in ("string", "bytes") else 2.0
    return int(len(values) ** 2 * factor) + _MAKES_LIST
