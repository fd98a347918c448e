"""Estimated worst-case cost of a CEL expression, from its types alone.

Source: github.com/google/cel-go checker/cost.go, func functionCost, ext/{lists,sets}.go;
k8s.io/apiserver pkg/cel/library/cost.go, func EstimateCallCost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.ast import CheckedAst, Expr, Type

UNBOUNDED = 2**64 - 1
"""The largest cost or size."""
Path = tuple[str, ...]

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

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_RESULT_VARIABLES = ("@result", "__result__")
_SCALAR_KINDS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


class Estimate(NamedTuple):
    """The bounds of a cost, or of a number of items or characters."""

    least: int
    most: int

    def plus(self, other: Estimate) -> Estimate:
        """Return the sum."""
        return Estimate(
            min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED)
        )

    def times(self, other: Estimate) -> Estimate:
        """Return the product."""
        return Estimate(
            min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED)
        )

    def by(self, factor: float) -> Estimate:
        """Return the cost at `factor` per unit, rounded up."""
        return Estimate(_scale(self.least, factor), _scale(self.most, factor))

    def union(self, other: Estimate) -> Estimate:
        """Return the bounds of either."""
        return Estimate(min(self.least, other.least), max(self.most, other.most))


ZERO = Estimate(0, 0)
UNKNOWN = Estimate(0, UNBOUNDED)


def fixed_estimate(number: int) -> Estimate:
    """Return an estimate with equal bounds."""
    return Estimate(number, number)


def _scale(number: int, factor: float) -> int:
    scaled = math.ceil(float(number) * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled


class CallEstimate(NamedTuple):
    """The cost of a call, and the size of its result if known."""

    cost: Estimate
    size: Estimate | None = None


@dataclass(frozen=True, slots=True)
class CallArgument:
    """An argument of a call.

    Args:
        path: its path, by names below a variable; empty if unknown.
        size: its size; None if unknown.
        size_below: returns the size of the value at a path.
    """

    path: tuple[str, ...]
    type: Type | None
    size: Estimate | None
    node: Expr
    size_below: Callable[[tuple[str, ...]], Estimate | None]

    @property
    def size_or_unknown(self) -> Estimate:
        """Return the computed size, or else the size that the schema allows."""
        if self.size is not None:
            return self.size
        return self.size_below(self.path) or UNKNOWN

    @property
    def items(self) -> tuple[str, Estimate] | None:
        """Return type and size of a list's items; None if it is no list."""
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
    """Return the cost of a call.

    Args:
        function: the function's name.
        overload: the resolved overload.
        target: the receiver of a member function.
        costs: the cost of evaluating the arguments.
    """
    total = ZERO
    for cost in costs:
        total = total.plus(cost)
    estimate = _estimate_library_call(function, overload, target, arguments)
    if estimate is None:
        if overload in ("logical_or", "logical_and"):
            return CallEstimate(Estimate(costs[0].least, costs[0].plus(costs[1]).most))
        estimate = _estimate_standard_call(overload, target, arguments)
    return CallEstimate(estimate.cost.plus(total), estimate.size)


def _estimate_library_call(
    function: str, overload: str, target: CallArgument | None, arguments: list[CallArgument]
) -> CallEstimate | None:
    """Return the cost of a function of Kubernetes' libraries, or of some standard functions."""
    if function == "check":
        return CallEstimate(fixed_estimate(350_000))
    if function in _LIST_FUNCTIONS:
        return _estimate_list_call(function, target, arguments)
    if function in _SET_FUNCTIONS and len(arguments) == 2:
        left, right = (argument.size_or_unknown for argument in arguments)
        return CallEstimate(left.times(right).by(_SET_FUNCTIONS[function]).plus(fixed_estimate(1)))
    if function in _NOMINAL_COST_FUNCTIONS or (function == "ip" and target is not None):
        return CallEstimate(fixed_estimate(1))
    if function in _AGGREGATE_FUNCTIONS and target is not None:
        size = target.size_or_unknown
        if target.items is None:
            return CallEstimate(size.by(_TRAVERSAL_COST_FACTOR))
        kind, item = target.items
        item_cost = fixed_estimate(1)
        if kind in ("string", "bytes"):
            item_cost = item_cost.plus(item.by(_TRAVERSAL_COST_FACTOR))
        return CallEstimate(size.times(item_cost))
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
    """Return the cost of a function that returns a list, by the size of its input."""
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
    """Return the number that an argument is a literal of, or else the default."""
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
    """Return the size of a text after a replacement."""
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


class _EntrySizes(NamedTuple):
    """The sizes of the keys and values of a container."""

    container: str
    key: Estimate
    value: Estimate


class _ComprehensionVariable(NamedTuple):
    """A loop variable: the path of its value, and its size."""

    path: Path
    size: Estimate | None
    entries: _EntrySizes | None


def estimate_cost(tree: CheckedAst, size_at: Callable[[Path], int | None]) -> int:
    """Return the largest cost of the expression.

    Args:
        size_at: returns how many items or characters a path of names below a variable may have;
            None if unknown.
    """
    return _CostEstimator(tree, size_at).cost(tree.root).most


class _CostEstimator:
    def __init__(self, tree: CheckedAst, size_at: Callable[[Path], int | None]) -> None:
        self._types = tree.types
        self._overloads = tree.overloads
        self._size_at = size_at
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Estimate] = {}
        self._entries: dict[int, _EntrySizes] = {}
        self._variables: dict[str, list[_ComprehensionVariable]] = {}

    def cost(self, node: Expr) -> Estimate:
        match node.kind:
            case "ident":
                variable = self._variable(node.name)
                self._paths[node.number] = variable.path if variable else (node.name,)
                return fixed_estimate(1)
            case "select":
                return self._select(node)
            case "call":
                return self._call(node)
            case "list":
                return self._list(node)
            case "map":
                return self._map(node)
            case "struct":
                return self._sum(node.parts).plus(fixed_estimate(_STRUCT_COST))
            case "loop":
                return self._loop(node)
            case _:
                return ZERO

    def _sum(self, nodes: list[Expr]) -> Estimate:
        total = ZERO
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _select(self, node: Expr) -> Estimate:
        [operand] = node.parts
        total = self.cost(operand)
        if node.test:
            return total  # Kubernetes sets it to zero.
        if self._kind(operand) in ("map", "struct", "parameter"):
            total = total.plus(fixed_estimate(1))
        self._paths[node.number] = (*self._path(operand), node.name)
        return total

    def _call(self, node: Expr) -> Estimate:
        if node.name == "dyn" and node.parts:
            total = self.cost(node.parts[0]).plus(fixed_estimate(1))
            self._copy(node, node.parts[0])
            return total
        costs = [self.cost(part) for part in node.parts]
        arguments = [self._argument(part) for part in node.parts]
        overloads = self._overloads.get(node.number) or []
        if not overloads:
            return ZERO
        before, target = ZERO, None
        if node.target is not None:
            before = self.cost(node.target)
            target = self._argument(node.target)
        total, size = Estimate(UNBOUNDED, 0), None
        for overload in overloads:
            call_estimate = self._call_cost(node, overload, target, arguments, costs)
            total = total.union(call_estimate.cost)
            if call_estimate.size is not None:
                size = call_estimate.size if size is None else size.union(call_estimate.size)
            if overload in ("index_list", "index_map") and node.parts:
                entries = self._entry_sizes(node.parts[0])
                size = entries.value if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node.number] = (*self._path(node.parts[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node.number] = size
        return before.plus(total)

    def _call_cost(
        self,
        node: Expr,
        overload: str,
        target: CallArgument | None,
        arguments: list[CallArgument],
        costs: list[Estimate],
    ) -> CallEstimate:
        if overload == "conditional":
            _, yes, no = node.parts
            first, second = self._entry_sizes(yes), self._entry_sizes(no)
            if first and second:
                self._entries[node.number] = _union_entry_sizes(first, second)
            size = arguments[1].size_or_unknown.union(arguments[2].size_or_unknown)
            return CallEstimate(costs[0].plus(costs[1].union(costs[2])), size)
        if overload in ("add_string", "add_bytes", "add_list") and len(node.parts) == 2:
            first, second = (self._entry_sizes(part) for part in node.parts)
            if first and second:
                self._entries[node.number] = _union_entry_sizes(first, second)
        return estimate_call_cost(node.name, overload, target, arguments, costs)

    def _list(self, node: Expr) -> Estimate:
        total, item = ZERO, Estimate(UNBOUNDED if node.parts else 0, 0)
        for part in node.parts:
            total = total.plus(self.cost(part))
            item = item.union(self._size(part) or UNKNOWN)
        self._entries[node.number] = _EntrySizes("list", fixed_estimate(1), item)
        return total.plus(fixed_estimate(_LIST_COST))

    def _map(self, node: Expr) -> Estimate:
        empty = Estimate(UNBOUNDED if node.parts else 0, 0)
        total, sizes = ZERO, [empty, empty]
        for index, part in enumerate(node.parts):
            total = total.plus(self.cost(part))
            sizes[index % 2] = sizes[index % 2].union(self._size(part) or UNKNOWN)
        self._entries[node.number] = _EntrySizes("map", sizes[0], sizes[1])
        return total.plus(fixed_estimate(_MAP_COST))

    def _loop(self, node: Expr) -> Estimate:
        values, start, condition, step, result = node.parts
        made, *names = node.names
        total = self.cost(values).plus(self.cost(start))
        self._push(
            made,
            _ComprehensionVariable(self._path(start), self._size(start), self._entry_sizes(start)),
        )
        if not values.parts and values.kind == "list" and made not in _RESULT_VARIABLES:
            # `cel.bind`: no iteration.
            total = total.plus(self.cost(result))
            self._pop(made)
            self._copy(node, result)
            return total
        for index, name in enumerate(names):
            self._push(name, self._of_range(values, index, len(names)))
        iteration_cost = self.cost(step).plus(self.cost(condition))
        for name in names:
            self._pop(name)
        total = total.plus(self.cost(result))
        self._pop(made)
        count = self._size(values) or UNKNOWN
        total = total.plus(count.times(iteration_cost))
        if start.kind == "literal":
            if (size := self._size(start)) is not None:
                self._sizes[node.number] = size
        elif start.kind in ("list", "map"):
            self._sizes[node.number] = count
            if entries := self._entry_sizes(step):
                self._entries[node.number] = entries
        return total

    def _of_range(self, values: Expr, index: int, variables: int) -> _ComprehensionVariable:
        """Return the variable over a range: items, or keys, or first keys and then values."""
        entries, path = self._entry_sizes(values), self._path(values)
        container = entries.container if entries else self._kind(values)
        keys = index == 0 and (variables == 2 or container != "list")
        if keys:
            step = "@indices" if container == "list" else "@keys"
            return _ComprehensionVariable((*path, step), entries.key if entries else None, None)
        step = "@items" if container == "list" else "@values"
        return _ComprehensionVariable((*path, step), entries.value if entries else None, None)

    # -- sizes of nodes

    def _argument(self, node: Expr) -> CallArgument:
        path = self._path(node)
        if path and path[0] in _RESULT_VARIABLES:
            path = ()
        return CallArgument(path, self._type(node), self._size(node), node, self._size_below)

    def _size_below(self, path: Path) -> Estimate | None:
        most = self._size_at(path) if path else None
        return None if most is None else Estimate(0, most)

    def _size(self, node: Expr) -> Estimate | None:
        if node.number in self._sizes:
            return self._sizes[node.number]
        if node.kind == "literal":
            return fixed_estimate(len(node.value) if isinstance(node.value, str | bytes) else 1)
        if node.kind in ("list", "map"):
            return fixed_estimate(len(node.parts) // (2 if node.kind == "map" else 1))
        size = self._size_below(self._path(node))
        if size is not None:
            self._sizes[node.number] = size
            return size
        if _is_scalar(self._type(node)):
            return fixed_estimate(1)
        variable = self._variable(node.name) if node.kind == "ident" else None
        return variable.size if variable else None

    def _entry_sizes(self, node: Expr) -> _EntrySizes | None:
        if node.number in self._entries:
            return self._entries[node.number]
        variable = self._variable(node.name) if node.kind == "ident" else None
        return variable.entries if variable else None

    def _copy(self, node: Expr, source: Expr) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[node.number] = size
        if entries := self._entry_sizes(source):
            self._entries[node.number] = entries

    def _path(self, node: Expr) -> Path:
        if node.kind == "ident" and (variable := self._variable(node.name)):
            return variable.path
        return self._paths.get(node.number, ())

    def _type(self, node: Expr) -> Type | None:
        return self._types.get(node.number)

    def _kind(self, node: Expr) -> str:
        node_type = self._type(node)
        return node_type.kind if node_type else "dyn"

    def _variable(self, name: str) -> _ComprehensionVariable | None:
        stack = self._variables.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, variable: _ComprehensionVariable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _pop(self, name: str) -> None:
        self._variables[name].pop()


def _union_entry_sizes(first: _EntrySizes, second: _EntrySizes) -> _EntrySizes:
    key, value = first.key.union(second.key), first.value.union(second.value)
    return _EntrySizes(first.container, key, value)


def _is_scalar(kind: Type | None) -> bool:
    if kind is None:
        return False
    if kind.kind == "opaque" and kind.name == "optional_type" and kind.of:
        return _is_scalar(kind.of[0])
    return kind.kind in _SCALAR_KINDS
