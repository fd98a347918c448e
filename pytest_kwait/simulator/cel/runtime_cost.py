"""Actual costs of CEL function calls, computed from their arguments and results.

Source: github.com/google/cel-go interpreter/runtimecost.go, ext/{lists,sets}.go;
k8s.io/apiserver pkg/cel/library/cost.go, func CallCost.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from pytest_kwait.simulator.cel.values import OPAQUE_TYPE_NAMES, get_kind, get_size

__all__ = ["COSTED_AFTER_CALL", "CallCostFunction", "get_call_cost"]

_TRAVERSAL_COST_FACTOR, _REGEX_COST_FACTOR, _LIST_CREATION_COST = 0.1, 0.25, 11
_SELECTOR_REQUIREMENT_COST = 50
_TRAVERSING_FUNCTIONS = frozenset(
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
"""Functions that traverse their first argument once."""

_AGGREGATE_FUNCTIONS = frozenset({"indexOf", "isSorted", "lastIndexOf", "max", "min", "sum"})
_OPAQUE_KINDS = frozenset(OPAQUE_TYPE_NAMES)


COSTED_AFTER_CALL = frozenset({"join", "reverse", "slice"})
"""Functions whose cost depends on the result; all others are charged before the call."""


def _scale(size: int, factor: float) -> int:
    return ceil(size * factor)


CallCostFunction = Callable[[list[Any], Any], int]
"""Returns the cost of a call from its arguments, receiver first, and its result."""


def get_call_cost(name: str) -> CallCostFunction:
    """Return the cost of one call of a function."""
    if name in _TRAVERSING_FUNCTIONS:
        return _get_traversal_cost
    if name in _AGGREGATE_FUNCTIONS:
        return lambda values, _: _traverse(values[0])
    return _CALL_COSTS.get(name, lambda _values, _result: 1)


def _get_traversal_cost(values: list[Any], _: Any) -> int:
    return (
        1 if get_kind(values[0]) == "CIDR" else _scale(get_size(values[0]), _TRAVERSAL_COST_FACTOR)
    )


def _get_smaller_size(values: list[Any]) -> int:
    return _scale(min(get_size(values[0]), get_size(values[1])), _TRAVERSAL_COST_FACTOR)


def _get_equality_cost(values: list[Any], _: Any) -> int:
    return 1 if get_kind(values[0]) in _OPAQUE_KINDS else _get_smaller_size(values)


def _get_order_cost(values: list[Any], _: Any) -> int:
    return _get_smaller_size(values) if isinstance(values[0], str | bytes) else 1


def _get_concatenation_cost(values: list[Any], _: Any) -> int:
    if not isinstance(values[0], str | bytes):
        return 1
    return _scale(get_size(values[0]) + get_size(values[1]), _TRAVERSAL_COST_FACTOR)


def _get_search_cost(values: list[Any], _: Any) -> int:
    return _scale(get_size(values[0]) + 1, _TRAVERSAL_COST_FACTOR) * _scale(
        get_size(values[1]), _REGEX_COST_FACTOR
    )


def _get_containment_cost(values: list[Any], _: Any) -> int:
    return _scale(get_size(values[0]), _TRAVERSAL_COST_FACTOR) * _scale(
        get_size(values[1]), _TRAVERSAL_COST_FACTOR
    )


def _get_double_traversal_cost(values: list[Any], _: Any) -> int:
    return _scale(get_size(values[0]), 2 * _TRAVERSAL_COST_FACTOR)


def _make_index_cost(more: bool) -> CallCostFunction:
    def price(values: list[Any], _: Any) -> int:
        size = get_size(values[0])
        parsed = get_size(values[1]) if isinstance(values[1], str) else 0
        masked = _scale(size, _TRAVERSAL_COST_FACTOR) + 1 if more else 0
        return (
            _scale(2 * size, _TRAVERSAL_COST_FACTOR)
            + masked
            + _scale(parsed, _TRAVERSAL_COST_FACTOR)
        )

    return price


def _get_validation_cost(values: list[Any], _: Any) -> int:
    length: int = values[0].get("pattern", 0) if isinstance(values[0], dict) else 0
    return _scale(get_size(values[1]) + 1, _TRAVERSAL_COST_FACTOR) * _scale(
        length, _REGEX_COST_FACTOR
    )


def _get_selector_cost(values: list[Any], _: Any) -> int:
    length = get_size(values[1])
    return (
        10
        + _scale(length, _TRAVERSAL_COST_FACTOR)
        + _scale(_scale(length, 0.5), _SELECTOR_REQUIREMENT_COST)
    )


def _make_set_cost(factor: int) -> CallCostFunction:
    return lambda values, _: 1 + factor * get_size(values[0]) * get_size(values[1])


def _get_created_list_cost(_: list[Any], result: Any) -> int:
    return _LIST_CREATION_COST + get_size(result)


def _get_range_cost(values: list[Any], _: Any) -> int:
    return _LIST_CREATION_COST + (max(values[0], 0) if isinstance(values[0], int) else 1)


def _get_flatten_cost(values: list[Any], _: Any) -> int:
    depth = values[1] if len(values) > 1 and isinstance(values[1], int) else 1
    return _LIST_CREATION_COST + get_size(values[0]) * depth


def _make_conversion_cost(kind: type) -> CallCostFunction:
    return lambda values, _: (
        _scale(get_size(values[0]), _TRAVERSAL_COST_FACTOR) if isinstance(values[0], kind) else 1
    )


_CALL_COSTS: dict[str, CallCostFunction] = {
    "@in": lambda values, _: get_size(values[1]) if isinstance(values[1], list) else 1,
    "@sortByAssociatedKeys": lambda values, _: _get_pairwise_comparison_cost(values[1]),
    "_!=_": lambda values, _: _get_smaller_size(values),
    "_+_": _get_concatenation_cost,
    "_<=_": _get_order_cost,
    "_<_": _get_order_cost,
    "_==_": _get_equality_cost,
    "_>=_": _get_order_cost,
    "_>_": _get_order_cost,
    "bytes": _make_conversion_cost(str),
    "check": lambda _values, _result: 350_000,
    "contains": _get_containment_cost,
    "containsCIDR": _make_index_cost(more=True),
    "containsIP": _make_index_cost(more=False),
    "distinct": lambda values, _: _get_pairwise_comparison_cost(values[0]),
    "fieldSelector": _get_selector_cost,
    "find": _get_search_cost,
    "findAll": _get_search_cost,
    "flatten": _get_flatten_cost,
    "ip.isCanonical": _get_double_traversal_cost,
    "join": lambda _, result: _scale(get_size(result), 2 * _TRAVERSAL_COST_FACTOR),
    "labelSelector": _get_selector_cost,
    "lists.range": _get_range_cost,
    "matches": _get_search_cost,
    "replace": _get_double_traversal_cost,
    "reverse": _get_created_list_cost,
    "sets.contains": _make_set_cost(1),
    "sets.equivalent": _make_set_cost(2),
    "sets.intersects": _make_set_cost(1),
    "slice": _get_created_list_cost,
    "sort": lambda values, _: _get_pairwise_comparison_cost(values[0]),
    "split": _get_double_traversal_cost,
    "string": _make_conversion_cost(bytes),
    "validate": _get_validation_cost,
}


def _traverse(value: Any) -> int:
    """Return the cost of traversing a value and its contents."""
    match get_kind(value):
        case "string":
            return int(len(value.encode()) * _TRAVERSAL_COST_FACTOR)
        case "bytes":
            return int(len(value) * _TRAVERSAL_COST_FACTOR)
        case "list":
            return sum(_traverse(item) for item in value)
        case "map":
            return sum(_traverse(key) + _traverse(item) for key, item in value.items())
    return 1


def _get_pairwise_comparison_cost(values: Any) -> int:
    """Return the cost of comparing all items of a list with each other."""
    if not isinstance(values, list) or not values:
        return _LIST_CREATION_COST
    factor = 2.1 if get_kind(values[0]) in ("string", "bytes") else 2.0
    return int(len(values) ** 2 * factor) + _LIST_CREATION_COST
