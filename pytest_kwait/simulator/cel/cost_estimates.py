"""What evaluating an expression may cost at most, told from its types alone.

Source: github.com/google/cel-go checker/cost.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.cel.cost_estimate import CallArgument, CallEstimate, estimate_call_cost
from pytest_kwait.simulator.cel.cost_sizes import UNBOUNDED, UNKNOWN, ZERO, Estimate, fixed_estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.ast import CheckedAst, Expr, Type

__all__ = ["estimate_cost"]

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_RESULT_VARIABLES = ("@result", "__result__")
_SCALAR_KINDS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})

Path = tuple[str, ...]


class _EntrySizes(NamedTuple):
    """How big the keys and values of a container are."""

    container: str
    key: Estimate
    value: Estimate


class _ComprehensionVariable(NamedTuple):
    """A variable of a loop: where its value stands, and how big that is."""

    path: Path
    size: Estimate | None
    entries: _EntrySizes | None


def estimate_cost(tree: CheckedAst, size_at: Callable[[Path], int | None]) -> int:
    """The most that the expression costs.

    Args:
        tree: the expression.
        size_at: how many items or characters there may be at a path of names below a variable;
            None where nothing is known of it.
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
        """What evaluating a part costs."""
        match node.kind:
            case "ident":
                found = self._variable(node.name)
                self._paths[node.number] = found.path if found else (node.name,)
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
            return total  # Kubernetes has it cost nothing
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
            found = self._call_cost(node, overload, target, arguments, costs)
            total = total.union(found.cost)
            if found.size is not None:
                size = found.size if size is None else size.union(found.size)
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
            # Nothing is gone through: a variable is given a name.
            total = total.plus(self.cost(result))
            self._pop(made)
            self._copy(node, result)
            return total
        for index, name in enumerate(names):
            self._push(name, self._of_range(values, index, len(names)))
        each = self.cost(step).plus(self.cost(condition))
        for name in names:
            self._pop(name)
        total = total.plus(self.cost(result))
        self._pop(made)
        count = self._size(values) or UNKNOWN
        total = total.plus(count.times(each))
        if start.kind == "literal":
            if (size := self._size(start)) is not None:
                self._sizes[node.number] = size
        elif start.kind in ("list", "map"):
            self._sizes[node.number] = count
            if entries := self._entry_sizes(step):
                self._entries[node.number] = entries
        return total

    def _of_range(self, values: Expr, index: int, variables: int) -> _ComprehensionVariable:
        """A variable of a loop: items of a list or keys of a map, or first keys and then items."""
        entries, path = self._entry_sizes(values), self._path(values)
        container = entries.container if entries else self._kind(values)
        keys = index == 0 and (variables == 2 or container != "list")
        if keys:
            step = "@indices" if container == "list" else "@keys"
            return _ComprehensionVariable((*path, step), entries.key if entries else None, None)
        step = "@items" if container == "list" else "@values"
        return _ComprehensionVariable((*path, step), entries.value if entries else None, None)

    # -- what is known of parts

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
        found = self._size_below(self._path(node))
        if found is not None:
            self._sizes[node.number] = found
            return found
        if _is_scalar(self._type(node)):
            return fixed_estimate(1)
        variable = self._variable(node.name) if node.kind == "ident" else None
        return variable.size if variable else None

    def _entry_sizes(self, node: Expr) -> _EntrySizes | None:
        if node.number in self._entries:
            return self._entries[node.number]
        variable = self._variable(node.name) if node.kind == "ident" else None
        return variable.entries if variable else None

    def _copy(self, node: Expr, other: Expr) -> None:
        if (size := self._size(other)) is not None:
            self._sizes[node.number] = size
        if entries := self._entry_sizes(other):
            self._entries[node.number] = entries

    def _path(self, node: Expr) -> Path:
        if node.kind == "ident" and (variable := self._variable(node.name)):
            return variable.path
        return self._paths.get(node.number, ())

    def _type(self, node: Expr) -> Type | None:
        return self._types.get(node.number)

    def _kind(self, node: Expr) -> str:
        found = self._type(node)
        return found.kind if found else "dyn"

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
