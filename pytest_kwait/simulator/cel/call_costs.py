"""What calls of functions cost, the language's and Kubernetes' own.

Source: github.com/google/cel-go checker/cost.go, func functionCost, ext/{lists,sets}.go;
k8s.io/apiserver pkg/cel/library/cost.go, func EstimateCallCost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.cel.cel_values import Uint
from pytest_kwait.simulator.cel.cost_sizes import NOTHING, UNBOUNDED, UNKNOWN, Span, fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.checked_trees import Node, Type

__all__ = ["Argument", "CallCost", "call_cost"]

_TRAVERSAL, _REGEX = 0.1, 0.25
_NAMED_FORMAT = 128
_ORDERED = frozenset(
    f"{name}_{kind}"
    for name in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
_NOMINAL = frozenset(
    [
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
    ]
)
_LISTS = frozenset(
    ["@sortByAssociatedKeys", "distinct", "flatten", "lists.range", "reverse", "slice", "sort"]
)
_SETS = {"sets.contains": 1.0, "sets.equivalent": 2.0, "sets.intersects": 1.0}
_MAKES_LIST = 11
_PARSED = frozenset(["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"])
_AGGREGATES = frozenset(["isSorted", "sum", "max", "min", "indexOF", "lastIndexOF"])
_SAME_SIZE = frozenset(["lowerAscii", "upperAscii", "substring", "trim"])
_CHEAP_EQUALITY = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


class CallCost(NamedTuple):
    """What a call costs, and how big its result is where that is known."""

    cost: Span
    size: Span | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function is called with.

    Args:
        path: where it stands, by names below a variable; empty where that is not known.
        type: its type.
        size: how big it is; None where that is not known.
        node: the part of the expression.
        size_below: how big what stands at a path is.
    """

    path: tuple[str, ...]
    type: Type | None
    size: Span | None
    node: Node
    size_below: Callable[[tuple[str, ...]], Span | None]

    @property
    def size_or_unknown(self) -> Span:
        """Its size, by what is computed or else by what its schema says."""
        if self.size is not None:
            return self.size
        return self.size_below(self.path) or UNKNOWN

    @property
    def items(self) -> tuple[str, Span] | None:
        """The type and the size of a list's items; None where it is none."""
        if self.type is None or not self.type.of:
            return None
        below = self.size_below((*self.path, "@items")) if self.path else None
        return self.type.of[0].kind, below or UNKNOWN


def call_cost(
    function: str,
    overload: str,
    target: Argument | None,
    arguments: list[Argument],
    costs: list[Span],
) -> CallCost:
    """What a call costs.

    Args:
        function: its name.
        overload: what it comes to for these types.
        target: what it is a member of.
        arguments: what it is called with.
        costs: what it costs to have those.
    """
    total = NOTHING
    for cost in costs:
        total = total.plus(cost)
    found = _own(function, overload, target, arguments)
    if found is None:
        if overload in ("logical_or", "logical_and"):
            return CallCost(Span(costs[0].least, costs[0].plus(costs[1]).most))
        found = _standard(overload, target, arguments)
    return CallCost(found.cost.plus(total), found.size)


def _own(
    function: str, overload: str, target: Argument | None, arguments: list[Argument]
) -> CallCost | None:
    """The cost of Kubernetes' own functions and of some of the language's."""
    if function == "check":
        return CallCost(fixed(350_000))
    if function in _LISTS:
        return _of_lists(function, target, arguments)
    if function in _SETS and len(arguments) == 2:
        one, two = (argument.size_or_unknown for argument in arguments)
        return CallCost(one.times(two).by(_SETS[function]).plus(fixed(1)))
    if function in _NOMINAL or (function == "ip" and target is not None):
        return CallCost(fixed(1))
    if function in _AGGREGATES and target is not None:
        size = target.size_or_unknown
        if target.items is None:
            return CallCost(size.by(_TRAVERSAL))
        kind, item = target.items
        each = fixed(1)
        if kind in ("string", "bytes"):
            each = each.plus(item.by(_TRAVERSAL))
        return CallCost(size.times(each))
    if function == "url" and arguments:
        size = arguments[0].size_or_unknown
        return CallCost(size.by(_TRAVERSAL), size)
    if function in _SAME_SIZE and target is not None:
        size = target.size_or_unknown
        return CallCost(size.by(_TRAVERSAL), size)
    if function in ("replace", "split", "join", "find", "findAll") and target is not None:
        return _of_text(function, target, arguments)
    if (function in _PARSED or function == "ip") and arguments:
        return CallCost(arguments[0].size_or_unknown.by(_TRAVERSAL))
    if function == "ip.isCanonical" and arguments:
        return CallCost(arguments[0].size_or_unknown.by(2 * _TRAVERSAL))
    if function in ("containsIP", "containsCIDR") and arguments:
        cost = Span(8, 32).by(_TRAVERSAL)
        if function == "containsCIDR":
            cost = cost.plus(Span(4, 16).by(_TRAVERSAL)).plus(fixed(1))
        if arguments[0].type is not None and arguments[0].type.kind == "string":
            cost = cost.plus(arguments[0].size_or_unknown.by(_TRAVERSAL))
        return CallCost(cost)
    if function == "validate" and arguments:
        size = arguments[0].size_or_unknown
        return CallCost(size.by(_TRAVERSAL).by(_NAMED_FORMAT * _REGEX))
    if function == "_==_" and len(arguments) == 2 and arguments[0].type == arguments[1].type:
        compared = arguments[0].type
        if compared is not None and compared.name in _CHEAP_EQUALITY:
            return CallCost(fixed(1))
    return None


def _of_lists(function: str, target: Argument | None, arguments: list[Argument]) -> CallCost | None:
    """The cost of what makes a list: its size, or of what is compared to make it."""
    size, factor = UNKNOWN if target is None else target.size_or_unknown, 1.0
    match function:
        case "lists.range" if arguments:
            size = fixed(_whole(arguments[0], UNBOUNDED))
        case "slice" if len(arguments) == 2:
            size = fixed((_whole(arguments[1], size.most) - _whole(arguments[0], 0)) % 2**64)
        case "flatten" if arguments:
            factor = float(_whole(arguments[0], UNBOUNDED))
        case "distinct" | "sort":
            kind = target.items[0] if target is not None and target.items else ""
            size, factor = size.times(size), _compared(function, kind)
        case "@sortByAssociatedKeys" if arguments:
            keys = arguments[0]
            kind = keys.items[0] if keys.items else ""
            size, factor = keys.size_or_unknown, _compared("sort", kind)
            size = size.times(size)
    return CallCost(size.by(factor).plus(fixed(_MAKES_LIST)), size)


def _compared(function: str, kind: str) -> float:
    return 2 + _TRAVERSAL if function == "sort" and kind in ("string", "bytes") else 2.0


def _whole(argument: Argument, otherwise: int) -> int:
    """The number that an argument is written as; where it is computed, what else is to be taken."""
    value = argument.node.value if argument.node.kind == "literal" else None
    if not isinstance(value, int) or isinstance(value, bool | Uint):
        return otherwise
    return max(value, 0)


def _of_text(function: str, target: Argument, arguments: list[Argument]) -> CallCost | None:
    size = target.size_or_unknown
    if function == "replace" and len(arguments) >= 2:
        replaced = _replaced(size, arguments[0].size_or_unknown, arguments[1].size_or_unknown)
        return CallCost(size.by(2 * _TRAVERSAL), replaced)
    if function == "split":
        most = size.most
        if len(arguments) > 1 and isinstance(arguments[1].node.value, int):
            most = arguments[1].node.value % 2**64
        return CallCost(size.by(2 * _TRAVERSAL), Span(0, most))
    if function == "join":
        whole = size.times(target.items[1]) if target.items else NOTHING
        if arguments:
            between = Span(max(size.least - 1, 0), max(size.most - 1, 0))
            whole = whole.plus(arguments[0].size_or_unknown.times(between))
        return CallCost(whole.by(_TRAVERSAL), whole)
    if function in ("find", "findAll") and arguments:
        text = size.plus(fixed(1)).by(_TRAVERSAL)
        pattern = arguments[0].size_or_unknown.by(_REGEX)
        return CallCost(text.times(pattern), Span(0, size.most))
    return None


def _replaced(size: Span, gone: Span, new: Span) -> Span:
    """How long a text is once something in it is replaced."""
    most_count = least_count = most_kept = least_kept = 0
    if gone.least == 0:
        most_count, most_kept = min(size.most + 1, UNBOUNDED), size.most
    elif new.most <= gone.least:
        most_kept = size.most
    else:
        most_count = math.ceil(size.most / gone.least)
    if gone.most == 0:
        least_count, least_kept = size.least + 1, size.least
    elif gone.most <= new.least:
        least_kept = size.least
    else:
        least_count = math.ceil(size.least / gone.most)
    return Span(least_count, most_count).times(new).plus(Span(least_kept, most_kept))


def _standard(overload: str, target: Argument | None, arguments: list[Argument]) -> CallCost:
    """The cost of the language's functions."""
    sizes = [argument.size or UNKNOWN for argument in arguments]
    own = (target.size or UNKNOWN) if target is not None else UNKNOWN
    match overload:
        case "string_to_bytes" if sizes:
            size = Span(sizes[0].least, min(sizes[0].most * 4, UNBOUNDED))
            return CallCost(sizes[0].by(_TRAVERSAL), size)
        case "bytes_to_string" if sizes:
            size = Span(sizes[0].least // 4, sizes[0].most)
            return CallCost(sizes[0].by(_TRAVERSAL), size)
        case "starts_with_string" | "ends_with_string" if sizes:
            return CallCost(sizes[0].by(_TRAVERSAL))
        case "in_list" if len(sizes) == 2:
            return CallCost(sizes[1])
        case "matches_string" | "matches" if target is not None and sizes:
            text = own.plus(fixed(1)).by(_TRAVERSAL)
            return CallCost(text.times(sizes[0].by(_REGEX)))
        case "contains_string" if target is not None and sizes:
            return CallCost(own.by(_TRAVERSAL).times(sizes[0].by(_TRAVERSAL)))
        case "add_string" | "add_bytes" if len(sizes) == 2:
            size = sizes[0].plus(sizes[1])
            return CallCost(size.by(_TRAVERSAL), size)
        case "add_list" if len(sizes) == 2:
            return CallCost(fixed(1), sizes[0].plus(sizes[1]))
    if overload in ("equals", "not_equals") or overload in _ORDERED:
        most = min(sizes[0].most, sizes[1].most)
        return CallCost(Span(1 if most else 0, most).by(_TRAVERSAL))
    return CallCost(fixed(1))
