"""Expressions run: planned once from their trees, then evaluated at a cost that is counted.

A step costs what it costs on a real server, which is why it is not the language's own runtime that
does this: that one counts nothing, and knows of no lists that are sets.

Source: github.com/google/cel-go interpreter/{planner,interpretable,attributes,runtimecost}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.call_plans import (
    AccumulatorList,
    plan_binary_call,
    plan_call,
    plan_conditional,
    plan_logical,
    plan_not_strictly_false,
    plan_or_value,
)
from pytest_kwait.simulator.cel.calls import FUNCTION_NAMES
from pytest_kwait.simulator.cel.plans import (
    PER_CALL_COST_LIMIT,
    CostLimitExceeded,
    ExecutionFrame,
    Plan,
    format_key,
    plan_constant,
    plan_qualifier,
    plan_variable,
)
from pytest_kwait.simulator.cel.stdlib.operators import CONVERSIONS
from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    ErrorValue,
    OpaqueValue,
    OptionalValue,
    get_kind,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.ast import Expr
    from pytest_kwait.simulator.cel.plans import Step

__all__ = ["find_planning_error", "plan"]

_LIST_COST, _MAP_COST = 10, 30
_CONSTANT_KINDS = {
    "string": "String",
    "int": "Int",
    "bool": "Bool",
    "double": "Double",
    "null": "Null",
}


def plan(node: Expr) -> Plan:
    """The plan of a part of an expression."""
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
    """Why there is no plan on a real server: a constant cannot be converted; empty if it can."""
    parts = node.parts if node.target is None else [node.target, *node.parts]
    for part in parts:
        if fault := find_planning_error(part):
            return fault
    known = _plan_call_expr(node).constant if node.kind == "call" else None
    return known[0].text if known is not None and isinstance(known[0], ErrorValue) else ""


# -- what stands below a value


def _plan_select(node: Expr) -> Plan:
    dotted = _get_dotted_name(node)
    if dotted.startswith("google.protobuf."):
        return plan_variable(dotted)
    [part] = node.parts
    operand, name = plan(part), node.name
    if not node.test:
        return plan_qualifier(operand, lambda _: name, optional=False)

    def has(frame: ExecutionFrame) -> Any:
        value = operand.step(frame)
        if not operand.path:
            frame.cost += 1
        if isinstance(value, ErrorValue):
            return value
        if isinstance(value, OptionalValue):
            value = value.value if value.has_value else None
        return isinstance(value, dict) and name in value

    return Plan(has)


def _get_dotted_name(node: Expr) -> str:
    if node.kind == "ident":
        return node.name
    if node.kind == "select" and not node.test and (before := _get_dotted_name(node.parts[0])):
        return f"{before}.{node.name}"
    return ""


# -- what is made


def _plan_list(node: Expr) -> Plan:
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


def _fold_constants(parts: list[Plan], step: Step) -> Plan:
    """A constant where all parts are: it is made before, and costs nothing."""
    if all(part.constant is not None for part in parts):
        return plan_constant(step(ExecutionFrame({})))
    return Plan(step)


def _plan_map(node: Expr) -> Plan:
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
                # A list or a map, of a type that was not known before.
                return NO_OVERLOAD
        return made

    return _fold_constants(items, step)


def _plan_comprehension(node: Expr) -> Plan:
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
        one, test, advance = names[0], condition.step, step.step
        for item in items:
            if pairs:
                known[one], known[names[1]] = item
            else:
                known[one] = item
            if test(frame) is False:
                break
            known[made] = advance(frame)
            if frame.cost > PER_CALL_COST_LIMIT:
                raise CostLimitExceeded
        for name in names:
            known.pop(name, None)
            if name in outer:
                known[name] = outer[name]
        found = result.step(frame)
        known.pop(made, None)
        if made in outer:
            known[made] = outer[made]
        return list(found) if isinstance(found, AccumulatorList) else found

    return Plan(run)


def _plan_call_expr(node: Expr) -> Plan:
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
        return Plan(plan_binary_call("@in", steps[0].step, steps[1].step, free=True))
    return Plan(plan_call(name, steps))
