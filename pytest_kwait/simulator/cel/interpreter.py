"""The CEL interpreter: expressions are planned once, then evaluated with a counted cost.

A step costs what it costs on a real server. The language's own runtime is not used here: it counts
no costs and knows no lists with set semantics.

Source: github.com/google/cel-go interpreter/{planner,interpretable,attributes,runtimecost,
dispatcher}.go, ext/{lists,sets}.go; k8s.io/apiserver pkg/cel/environment/base.go (the libraries
that are enabled), pkg/cel/library/cost.go (`CallCost`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.cel.library.declarations import LIBRARY_FUNCTIONS
from pytest_kwait.simulator.cel.stdlib import (
    CONVERSIONS,
    LIST_FUNCTIONS,
    OPERATORS,
    STRING_FUNCTIONS,
)
from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    OPAQUE_TYPE_NAMES,
    OPTIONAL_NONE,
    RESERVED_WORDS,
    ErrorValue,
    ObjectValue,
    OpaqueValue,
    OptionalValue,
    TypeName,
    get_kind,
    get_size,
    is_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.cel.ast import Expr

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
PER_CALL_COST_LIMIT = 1_000_000
"""The cost limit of one evaluation."""

_STANDARD_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **CONVERSIONS,
    **OPERATORS,
    **STRING_FUNCTIONS,
    **LIST_FUNCTIONS,
}

_TYPE_IDENTIFIERS = {
    **{name: name for name in ("bool", "bytes", "double", "int", "list", "map", "string", "uint")},
    "null_type": "null_type",
    "type": "type",
}

_SCALAR_TYPES = frozenset({bool, float, int})
_SCALAR_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_!=_": operator.ne,
    "_<=_": operator.le,
    "_<_": operator.lt,
    "_==_": operator.eq,
    "_>=_": operator.ge,
    "_>_": operator.gt,
}
"""Operators that compare numbers of the same type directly."""

_LIST_COST, _MAP_COST = 10, 30
_CONSTANT_KINDS = {
    "string": "String",
    "int": "Int",
    "bool": "Bool",
    "double": "Double",
    "null": "Null",
}


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


def _group_library_overloads() -> dict[str, list[tuple[tuple[str, ...], Callable[..., Any]]]]:
    overloads: dict[str, list[tuple[tuple[str, ...], Callable[..., Any]]]] = {}
    for (name, takes, _), run in LIBRARY_FUNCTIONS.items():
        kinds = tuple(_strip_type_parameters(parameter) for parameter in takes)
        overloads.setdefault(name.lstrip("."), []).append((kinds, run))
    return overloads


def _strip_type_parameters(name: str) -> str:
    return name.partition("<")[0]


_LIBRARY_OVERLOADS = _group_library_overloads()
FUNCTION_NAMES = frozenset({*_STANDARD_FUNCTIONS, *_LIBRARY_OVERLOADS})
"""The names of all functions."""


def resolve_function(name: str) -> Callable[[list[Any]], Any]:
    """Return the implementation of a function; a member function takes its receiver first.

    Args:
        name: the function's name; an unknown one returns an error value.
    """
    own, standard = _LIBRARY_OVERLOADS.get(name, []), _STANDARD_FUNCTIONS.get(name)

    def call(values: list[Any]) -> Any:
        if own:
            kinds = tuple(get_kind(value) for value in values)
            for takes, run in own:
                if takes == kinds:
                    try:
                        return run(*values)
                    except ValueError as error:
                        return ErrorValue(str(error))
        if standard is None:
            return NO_OVERLOAD
        try:
            return standard(*values)
        except TypeError:
            # Arguments of type `dyn` may have any type at run time.
            return NO_OVERLOAD

    return call


if TYPE_CHECKING:
    Step = Callable[["ExecutionFrame"], Any]


class CostLimitExceeded(Exception):
    """An evaluation cost more than its limit."""


class ExecutionFrame:
    """One evaluation: the values of its variables, and its cost so far."""

    __slots__ = ("cost", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Add a cost.

        Raises:
            CostLimitExceeded: the evaluation costs more than its limit.
        """
        self.cost += cost
        if self.cost > PER_CALL_COST_LIMIT:
            raise CostLimitExceeded


class Interpretable(NamedTuple):
    """The plan of one node: how it is evaluated.

    Args:
        step: returns its value.
        constant: its value if it is constant; None otherwise.
        path: whether it is a variable, or a field or item of another value.
        below: returns its value without the base cost of a variable; None for `step`.
        base: the base cost of its variable.
    """

    step: Step
    constant: tuple[Any] | None = None
    path: bool = False
    below: Step | None = None
    base: int = 1


def plan_constant(value: Any) -> Interpretable:
    """Return the plan of a constant, which costs nothing."""
    return Interpretable(lambda _: value, constant=(value,))


def plan_variable(name: str) -> Interpretable:
    """Return the plan of a variable, or of the type of that name."""

    def below(frame: ExecutionFrame) -> Any:
        try:
            return frame.values[name]
        except KeyError:
            return ErrorValue(f"no such attribute(s): {name}")

    def step(frame: ExecutionFrame) -> Any:
        frame.cost += 1
        try:
            return frame.values[name]
        except KeyError:
            return ErrorValue(f"no such attribute(s): {name}")

    if name in _TYPE_IDENTIFIERS or name.startswith("google.protobuf."):
        own = TypeName(name)

        def kind(frame: ExecutionFrame) -> Any:
            return frame.values.get(name, own)

        return Interpretable(kind, constant=(own,)) if "." in name else Interpretable(kind)
    return Interpretable(step, path=True, below=below)


def plan_qualifier(operand: Interpretable, key: Step, *, optional: bool) -> Interpretable:
    """Return the plan of a field or item; the key is evaluated after the operand."""
    start, base = operand.below or operand.step, operand.base

    def below(frame: ExecutionFrame) -> Any:
        value = start(frame)
        if isinstance(value, ErrorValue):
            return value
        maybe = optional
        if isinstance(value, OptionalValue):
            if not value.has_value:
                return value
            maybe, value = True, value.value
        under = key(frame)
        if isinstance(under, ErrorValue):
            return under
        member = _select_key(value, under)
        if maybe:
            if isinstance(member, ErrorValue):
                return OPTIONAL_NONE
            frame.cost += 1
            return member if isinstance(member, OptionalValue) else OptionalValue(member)
        frame.cost += 1
        return member

    def step(frame: ExecutionFrame) -> Any:
        frame.cost += base
        return below(frame)

    return Interpretable(step, path=True, below=below, base=base)


def _select_key(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        try:
            return value[key]
        except KeyError:
            return ErrorValue(f"no such key: {format_key(key)}")
        except TypeError:
            return NO_OVERLOAD
    if isinstance(value, list):
        if not is_number(key):
            return ErrorValue(f"unsupported index type '{get_kind(key)}' in list")
        if not math.isfinite(key) or key != int(key):
            return ErrorValue(f"unsupported index value {format_key(key)} in list")
        at = int(key)
        return value[at] if 0 <= at < len(value) else ErrorValue(f"index out of bounds: {at}")
    return ErrorValue(f"no such key: {format_key(key)}")


def format_key(key: Any) -> str:
    """Return a key as error messages show it."""
    text = CONVERSIONS["string"](key)
    return text if isinstance(text, str) else str(key)


class AccumulatorList(list[Any]):
    """The list that a loop builds; items are appended in place."""

    __slots__ = ()


def plan_call(name: str, plans: list[Interpretable]) -> Step:
    """Return the plan of a call; a member function takes its receiver first."""
    steps, function, price = (
        [plan.step for plan in plans],
        resolve_function(name),
        get_call_cost(name),
    )
    after = name in COSTED_AFTER_CALL
    if len(steps) == 2:
        return plan_binary_call(name, steps[0], steps[1])

    def run(frame: ExecutionFrame) -> Any:
        values = []
        for step in steps:
            value = step(frame)
            values.append(value)
            if isinstance(value, ErrorValue):
                if len(values) == len(steps):
                    frame.charge(1)
                return value
        if not after:
            frame.charge(price(values, None))
        result = function(values)
        if after:
            frame.charge(price(values, result))
        return result

    return run


def plan_binary_call(name: str, first: Step, second: Step, *, free: bool = False) -> Step:
    """Return the plan of a call with two arguments; both are always evaluated."""
    function, price, cheap = (
        resolve_function(name),
        get_call_cost(name),
        _SCALAR_COMPARISONS.get(name),
    )
    adds, after = name == "_+_", name in COSTED_AFTER_CALL

    def run(frame: ExecutionFrame) -> Any:
        left, right = first(frame), second(frame)
        kind = type(left)
        if kind is type(right):
            if cheap is not None and kind in _SCALAR_TYPES:
                frame.charge(1)
                return cheap(left, right)
        elif adds and kind is AccumulatorList and isinstance(right, list):
            # The accumulator of a loop grows in place.
            frame.charge(1)
            left.extend(right)
            return left
        wrong = left if kind is ErrorValue else right if type(right) is ErrorValue else None
        if not free and not after:
            frame.charge(price([left, right], None))
        result = function([left, right]) if wrong is None else wrong
        if after:
            frame.charge(price([left, right], result))
        return result

    return run


def plan_logical(plans: list[Interpretable], *, decides: bool) -> Interpretable:
    """Return the plan of `&&` or `||`: one deciding value hides errors of the others."""
    steps = [plan.step for plan in plans]

    def run(frame: ExecutionFrame) -> Any:
        wrong: ErrorValue | None = None
        for step in steps:
            value = step(frame)
            if value is decides:
                return decides
            if not isinstance(value, bool):
                wrong = wrong or (value if isinstance(value, ErrorValue) else NO_OVERLOAD)
        return not decides if wrong is None else wrong

    return Interpretable(run)


def plan_conditional(
    condition: Interpretable, yes: Interpretable, no: Interpretable
) -> Interpretable:
    """Return the plan of `condition ? yes : no`."""
    first, second = yes.below or yes.step, no.below or no.step

    def run(frame: ExecutionFrame) -> Any:
        value = condition.step(frame)
        if not isinstance(value, bool):
            return value if isinstance(value, ErrorValue) else NO_OVERLOAD
        return first(frame) if value else second(frame)

    return Interpretable(run, path=True, below=run, base=0)


def plan_not_strictly_false(plan: Interpretable) -> Interpretable:
    """Return the plan of a loop condition, which errors do not end."""

    def run(frame: ExecutionFrame) -> Any:
        value = plan.step(frame)
        frame.cost += 1
        return value is not False

    return Interpretable(run)


def plan_or_value(left: Interpretable, right: Interpretable, *, unwraps: bool) -> Interpretable:
    """Return the plan of `or` and `orValue`: the second operand if the first has no value."""

    def run(frame: ExecutionFrame) -> Any:
        value = left.step(frame)
        if isinstance(value, ErrorValue):
            return value
        if not isinstance(value, OptionalValue):
            return NO_OVERLOAD
        if value.has_value:
            return value.value if unwraps else value
        return right.step(frame)

    return Interpretable(run)


def plan(node: Expr) -> Interpretable:
    """Return the plan of a node."""
    match node.kind:
        case "literal":
            return plan_constant(node.value)
        case "ident":
            return plan_variable(node.name)
        case "select":
            return _plan_select(node)
        case "list":
            return _plan_list(node)
        case "map":
            return _plan_map(node)
        case "loop":
            return _plan_comprehension(node)
        case "call":
            return _plan_call_expr(node)
    return plan_constant(NO_OVERLOAD)


def find_planning_error(node: Expr) -> str:
    """Return why kube-apiserver has no plan: a constant conversion fails; empty if it has one."""
    parts = node.parts if node.target is None else [node.target, *node.parts]
    for part in parts:
        if fault := find_planning_error(part):
            return fault
    known = _plan_call_expr(node).constant if node.kind == "call" else None
    return known[0].text if known is not None and isinstance(known[0], ErrorValue) else ""


# -- fields and items


def _plan_select(node: Expr) -> Interpretable:
    dotted = _get_dotted_name(node)
    if dotted.startswith("google.protobuf."):
        return plan_variable(dotted)
    [part] = node.parts
    operand, name = plan(part), node.name
    if not node.test:
        return plan_qualifier(operand, lambda _: name, optional=False)

    escaped = f"__{name}__" if name in RESERVED_WORDS else name

    def has(frame: ExecutionFrame) -> Any:
        value = operand.step(frame)
        if not operand.path:
            frame.cost += 1
        if isinstance(value, ErrorValue):
            return value
        if isinstance(value, OptionalValue):
            value = value.value if value.has_value else None
        if isinstance(value, ObjectValue) and escaped in value:
            return True
        return isinstance(value, dict) and name in value

    return Interpretable(has)


def _get_dotted_name(node: Expr) -> str:
    if node.kind == "ident":
        return node.name
    if node.kind == "select" and not node.test and (before := _get_dotted_name(node.parts[0])):
        return f"{before}.{node.name}"
    return ""


# -- lists, maps and loops


def _plan_list(node: Expr) -> Interpretable:
    items = [plan(part) for part in node.parts]
    optional = node.optional

    def step(frame: ExecutionFrame) -> Any:
        frame.cost += _LIST_COST
        made: list[Any] = []
        for index, item in enumerate(items):
            value = item.step(frame)
            if isinstance(value, ErrorValue):
                return value
            if index in optional:
                if not isinstance(value, OptionalValue):
                    why = "cannot initialize optional list element from non-optional value"
                    return ErrorValue(f"{why} {format_key(value)}")
                if not value.has_value:
                    continue
                value = value.value
            made.append(value)
        return made

    return _fold_constants(items, step)


def _fold_constants(parts: list[Interpretable], step: Step) -> Interpretable:
    if all(part.constant is not None for part in parts):
        return plan_constant(step(ExecutionFrame({})))
    return Interpretable(step)


def _plan_map(node: Expr) -> Interpretable:
    items = [plan(part) for part in node.parts]
    optional = node.optional

    def step(frame: ExecutionFrame) -> Any:
        frame.cost += _MAP_COST
        made: dict[Any, Any] = {}
        for index in range(0, len(items), 2):
            key = items[index].step(frame)
            if isinstance(key, ErrorValue):
                return key
            value = items[index + 1].step(frame)
            if isinstance(value, ErrorValue):
                return value
            if index // 2 in optional:
                if not isinstance(value, OptionalValue):
                    why = f"cannot initialize optional entry '{format_key(key)}' from non-optional"
                    return ErrorValue(f"{why} value {format_key(value)}")
                if not value.has_value:
                    continue
                value = value.value
            try:
                made[key] = value
            except TypeError:
                # A key of type `dyn` may be unhashable.
                return NO_OVERLOAD
        return made

    return _fold_constants(items, step)


def _plan_comprehension(node: Expr) -> Interpretable:
    values, start, condition, step, result = (plan(part) for part in node.parts)
    made, *names = node.names
    pairs = len(names) > 1

    def run(frame: ExecutionFrame) -> Any:
        container = values.step(frame)
        if isinstance(container, ErrorValue):
            return container
        items: list[Any]
        if isinstance(container, dict) and not isinstance(container, OpaqueValue):
            items = [*container.items()] if pairs else [*container]
        elif isinstance(container, list):
            items = [*enumerate(container)] if pairs else container
        else:
            kind = _CONSTANT_KINDS.get(get_kind(container), get_kind(container).capitalize())
            return ErrorValue(f"got 'types.{kind}', expected iterable type")
        known = frame.values
        outer = {name: known[name] for name in (made, *names) if name in known}
        first = start.step(frame)
        known[made] = AccumulatorList() if isinstance(first, list) and not first else first
        variable_name, test, advance = names[0], condition.step, step.step
        for item in items:
            if pairs:
                known[variable_name], known[names[1]] = item
            else:
                known[variable_name] = item
            if test(frame) is False:
                break
            known[made] = advance(frame)
            if frame.cost > PER_CALL_COST_LIMIT:
                raise CostLimitExceeded
        for name in names:
            known.pop(name, None)
            if name in outer:
                known[name] = outer[name]
        outcome = result.step(frame)
        known.pop(made, None)
        if made in outer:
            known[made] = outer[made]
        return list(outcome) if isinstance(outcome, AccumulatorList) else outcome

    return Interpretable(run)


def _plan_call_expr(node: Expr) -> Interpretable:
    name, parts = node.name, node.parts
    if node.target is not None:
        space = _get_dotted_name(node.target)
        if space and f"{space}.{name}" in FUNCTION_NAMES:
            name = f"{space}.{name}"
        else:
            parts = [node.target, *parts]
    match name:
        case "_&&_" | "_||_":
            return plan_logical([plan(part) for part in parts], decides=name == "_||_")
        case "_?_:_":
            return plan_conditional(*(plan(part) for part in parts))
        case "_[_]" | "_[?_]" | "_?._":
            operand, key = (plan(part) for part in parts)
            return plan_qualifier(operand, key.below or key.step, optional=name != "_[_]")
        case "@not_strictly_false":
            return plan_not_strictly_false(plan(parts[0]))
        case "or" | "orValue" if len(parts) == 2:
            return plan_or_value(*(plan(part) for part in parts), unwraps=name == "orValue")
    steps = [plan(part) for part in parts]
    if name in CONVERSIONS and len(steps) == 1 and steps[0].constant is not None:
        [value] = steps[0].constant
        return plan_constant(value if isinstance(value, ErrorValue) else CONVERSIONS[name](value))
    if name == "@in" and steps[1].constant is not None:
        return Interpretable(plan_binary_call("@in", steps[0].step, steps[1].step, free=True))
    return Interpretable(plan_call(name, steps))
