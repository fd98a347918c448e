"""What calls of functions cost, the language's and Kubernetes' own.

Source: github.com/google/cel-go checker/cost.go, func functionCost, ext/{lists,sets}.go;
k8s.io/apiserver pkg/cel/library/cost.go, func EstimateCallCost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.cel.cost_sizes import UNBOUNDED, UNKNOWN, ZERO, Estimate, fixed_estimate
from pytest_kwait.simulator.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.ast import Expr, Type

__all__ = ["CallArgument", "CallEstimate", "estimate_call_cost"]

_TRAVERSAL_COST_FACTOR, _REGEX_COST_FACTOR = 0.1, 0.25
_NAMED_FORMAT_LENGTH = 128
_ORDERED_OVERLOADS = frozenset(
    f"{name}_{kind}"
    for name in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
_NOMINAL_COST_FUNCTIONS = frozenset(
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
_LIST_FUNCTIONS = frozenset(
    ["@sortByAssociatedKeys", "distinct", "flatten", "lists.range", "reverse", "slice", "sort"]
)
_SET_FUNCTIONS = {"sets.contains": 1.0, "sets.equivalent": 2.0, "sets.intersects": 1.0}
_LIST_CREATION_COST = 11
_PARSING_FUNCTIONS = frozenset(
    ["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"]
)
_AGGREGATE_FUNCTIONS = frozenset(["isSorted", "sum", "max", "min", "indexOF", "lastIndexOF"])
_SIZE_PRESERVING_FUNCTIONS = frozenset(["lowerAscii", "upperAscii", "substring", "trim"])
_CONSTANT_COST_EQUALITY = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
)


class CallEstimate(NamedTuple):
    """What a call costs, and how big its result is where that is known."""

    cost: Estimate
    size: Estimate | None = None


@dataclass(frozen=True, slots=True)
class CallArgument:
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
    size: Estimate | None
    node: Expr
    size_below: Callable[[tuple[str, ...]], Estimate | None]

    @property
    def size_or_unknown(self) -> Estimate:
        """Its size, by what is computed or else by what its schema says."""
        if self.size is not None:
            return self.size
        return self.size_below(self.path) or UNKNOWN

    @property
    def items(self) -> tuple[str, Estimate] | None:
        """The type and the size of a list's items; None where it is none."""
        if self.type is None or not self.type.of:
            return None
        below = self.size_below((*self.path, "@items")) if self.path else None
        return self.type.of[0].kind, below or UNKNOWN


def estimate_call_cost(
    function: str,
    overload: str,
    target: CallArgument | None,
    arguments: list[CallArgument],
    costs: list[Estimate],
) -> CallEstimate:
    """What a call costs.

    Args:
        function: its name.
        overload: what it comes to for these types.
        target: what it is a member of.
        arguments: what it is called with.
        costs: what it costs to have those.
    """
    total = ZERO
    for cost in costs:
        total = total.plus(cost)
    found = _estimate_library_call(function, overload, target, arguments)
    if found is None:
        if overload in ("logical_or", "logical_and"):
            return CallEstimate(Estimate(costs[0].least, costs[0].plus(costs[1]).most))
        found = _estimate_standard_call(overload, target, arguments)
    return CallEstimate(found.cost.plus(total), found.size)


def _estimate_library_call(
    function: str, overload: str, target: CallArgument | None, arguments: list[CallArgument]
) -> CallEstimate | None:
    """The cost of Kubernetes' own functions and of some of the language's."""
    if function == "check":
        return CallEstimate(fixed_estimate(350_000))
    if function in _LIST_FUNCTIONS:
        return _estimate_list_call(function, target, arguments)
    if function in _SET_FUNCTIONS and len(arguments) == 2:
        one, two = (argument.size_or_unknown for argument in arguments)
        return CallEstimate(one.times(two).by(_SET_FUNCTIONS[function]).plus(fixed_estimate(1)))
    if function in _NOMINAL_COST_FUNCTIONS or (function == "ip" and target is not None):
        return CallEstimate(fixed_estimate(1))
    if function in _AGGREGATE_FUNCTIONS and target is not None:
        size = target.size_or_unknown
        if target.items is None:
            return CallEstimate(size.by(_TRAVERSAL_COST_FACTOR))
        kind, item = target.items
        each = fixed_estimate(1)
        if kind in ("string", "bytes"):
            each = each.plus(item.by(_TRAVERSAL_COST_FACTOR))
        return CallEstimate(size.times(each))
    if function == "url" and arguments:
        size = arguments[0].size_or_unknown
        return CallEstimate(size.by(_TRAVERSAL_COST_FACTOR), size)
    if function in _SIZE_PRESERVING_FUNCTIONS and target is not None:
        size = target.size_or_unknown
        return CallEstimate(size.by(_TRAVERSAL_COST_FACTOR), size)
    if function in ("replace", "split", "join", "find", "findAll") and target is not None:
        return _estimate_string_call(function, target, arguments)
    if (function in _PARSING_FUNCTIONS or function == "ip") and arguments:
        return CallEstimate(arguments[0].size_or_unknown.by(_TRAVERSAL_COST_FACTOR))
    if function == "ip.isCanonical" and arguments:
        return CallEstimate(arguments[0].size_or_unknown.by(2 * _TRAVERSAL_COST_FACTOR))
    if function in ("containsIP", "containsCIDR") and arguments:
        cost = Estimate(8, 32).by(_TRAVERSAL_COST_FACTOR)
        if function == "containsCIDR":
            cost = cost.plus(Estimate(4, 16).by(_TRAVERSAL_COST_FACTOR)).plus(fixed_estimate(1))
        if arguments[0].type is not None and arguments[0].type.kind == "string":
            cost = cost.plus(arguments[0].size_or_unknown.by(_TRAVERSAL_COST_FACTOR))
        return CallEstimate(cost)
    if function == "validate" and arguments:
        size = arguments[0].size_or_unknown
        return CallEstimate(
            size.by(_TRAVERSAL_COST_FACTOR).by(_NAMED_FORMAT_LENGTH * _REGEX_COST_FACTOR)
        )
    if function == "_==_" and len(arguments) == 2 and arguments[0].type == arguments[1].type:
        compared = arguments[0].type
        if compared is not None and compared.name in _CONSTANT_COST_EQUALITY:
            return CallEstimate(fixed_estimate(1))
    return None


def _estimate_list_call(
    function: str, target: CallArgument | None, arguments: list[CallArgument]
) -> CallEstimate | None:
    """The cost of what makes a list: its size, or of what is compared to make it."""
    size, factor = UNKNOWN if target is None else target.size_or_unknown, 1.0
    match function:
        case "lists.range" if arguments:
            size = fixed_estimate(_get_constant_number(arguments[0], UNBOUNDED))
        case "slice" if len(arguments) == 2:
            size = fixed_estimate(
                (
                    _get_constant_number(arguments[1], size.most)
                    - _get_constant_number(arguments[0], 0)
                )
                % 2**64
            )
        case "flatten" if arguments:
            factor = float(_get_constant_number(arguments[0], UNBOUNDED))
        case "distinct" | "sort":
            kind = target.items[0] if target is not None and target.items else ""
            size, factor = size.times(size), _is_pairwise_comparison(function, kind)
        case "@sortByAssociatedKeys" if arguments:
            keys = arguments[0]
            kind = keys.items[0] if keys.items else ""
            size, factor = keys.size_or_unknown, _is_pairwise_comparison("sort", kind)
            size = size.times(size)
    return CallEstimate(size.by(factor).plus(fixed_estimate(_LIST_CREATION_COST)), size)


def _is_pairwise_comparison(function: str, kind: str) -> float:
    return 2 + _TRAVERSAL_COST_FACTOR if function == "sort" and kind in ("string", "bytes") else 2.0


def _get_constant_number(argument: CallArgument, otherwise: int) -> int:
    """The number that an argument is written as; where it is computed, what else is to be taken."""
    value = argument.node.value if argument.node.kind == "literal" else None
    if not isinstance(value, int) or isinstance(value, bool | Uint):
        return otherwise
    return max(value, 0)


def _estimate_string_call(
    function: str, target: CallArgument, arguments: list[CallArgument]
) -> CallEstimate | None:
    size = target.size_or_unknown
    if function == "replace" and len(arguments) >= 2:
        replaced = _estimate_replaced_size(
            size, arguments[0].size_or_unknown, arguments[1].size_or_unknown
        )
        return CallEstimate(size.by(2 * _TRAVERSAL_COST_FACTOR), replaced)
    if function == "split":
        most = size.most
        if len(arguments) > 1 and isinstance(arguments[1].node.value, int):
            most = arguments[1].node.value % 2**64
        return CallEstimate(size.by(2 * _TRAVERSAL_COST_FACTOR), Estimate(0, most))
    if function == "join":
        whole = size.times(target.items[1]) if target.items else ZERO
        if arguments:
            between = Estimate(max(size.least - 1, 0), max(size.most - 1, 0))
            whole = whole.plus(arguments[0].size_or_unknown.times(between))
        return CallEstimate(whole.by(_TRAVERSAL_COST_FACTOR), whole)
    if function in ("find", "findAll") and arguments:
        text = size.plus(fixed_estimate(1)).by(_TRAVERSAL_COST_FACTOR)
        pattern = arguments[0].size_or_unknown.by(_REGEX_COST_FACTOR)
        return CallEstimate(text.times(pattern), Estimate(0, size.most))
    return None


def _estimate_replaced_size(size: Estimate, gone: Estimate, new: Estimate) -> Estimate:
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
    return Estimate(least_count, most_count).times(new).plus(Estimate(least_kept, most_kept))


def _estimate_standard_call(
    overload: str, target: CallArgument | None, arguments: list[CallArgument]
) -> CallEstimate:
    """The cost of the language's functions."""
    sizes = [argument.size or UNKNOWN for argument in arguments]
    own = (target.size or UNKNOWN) if target is not None else UNKNOWN
    match overload:
        case "string_to_bytes" if sizes:
            size = Estimate(sizes[0].least, min(sizes[0].most * 4, UNBOUNDED))
            return CallEstimate(sizes[0].by(_TRAVERSAL_COST_FACTOR), size)
        case "bytes_to_string" if sizes:
            size = Estimate(sizes[0].least // 4, sizes[0].most)
            return CallEstimate(sizes[0].by(_TRAVERSAL_COST_FACTOR), size)
        case "starts_with_string" | "ends_with_string" if sizes:
            return CallEstimate(sizes[0].by(_TRAVERSAL_COST_FACTOR))
        case "in_list" if len(sizes) == 2:
            return CallEstimate(sizes[1])
        case "matches_string" | "matches" if target is not None and sizes:
            text = own.plus(fixed_estimate(1)).by(_TRAVERSAL_COST_FACTOR)
            return CallEstimate(text.times(sizes[0].by(_REGEX_COST_FACTOR)))
        case "contains_string" if target is not None and sizes:
            return CallEstimate(
                own.by(_TRAVERSAL_COST_FACTOR).times(sizes[0].by(_TRAVERSAL_COST_FACTOR))
            )
        case "add_string" | "add_bytes" if len(sizes) == 2:
            size = sizes[0].plus(sizes[1])
            return CallEstimate(size.by(_TRAVERSAL_COST_FACTOR), size)
        case "add_list" if len(sizes) == 2:
            return CallEstimate(fixed_estimate(1), sizes[0].plus(sizes[1]))
    if overload in ("equals", "not_equals") or overload in _ORDERED_OVERLOADS:
        most = min(sizes[0].most, sizes[1].most)
        return CallEstimate(Estimate(1 if most else 0, most).by(_TRAVERSAL_COST_FACTOR))
    return CallEstimate(fixed_estimate(1))
