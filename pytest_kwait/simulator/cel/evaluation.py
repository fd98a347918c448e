"""Expressions run: planned once from their trees, then evaluated at a cost that is counted.

A step costs what it costs on a real server, which is why it is not the language's own runtime that
does this: that one counts nothing, and knows of no lists that are sets.

Source: github.com/google/cel-go interpreter/{planner,interpretable,attributes,runtimecost}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.call_plans import (
    Growing,
    alternative,
    call,
    conditional,
    logical,
    not_strictly_false,
    pair,
)
from pytest_kwait.simulator.cel.calls import CALLS
from pytest_kwait.simulator.cel.cel_values import NO_OVERLOAD, Failure, Optional, Own, kind_of
from pytest_kwait.simulator.cel.operators import CONVERSIONS
from pytest_kwait.simulator.cel.plans import (
    CALL_LIMIT,
    Exceeded,
    Frame,
    Plan,
    constant,
    key_text,
    qualified,
    variable,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.checked_trees import Node
    from pytest_kwait.simulator.cel.plans import Step

__all__ = ["planned", "planning_fault"]

_LIST, _MAP = 10, 30
_KINDS = {"string": "String", "int": "Int", "bool": "Bool", "double": "Double", "null": "Null"}


def planned(node: Node) -> Plan:
    """The plan of a part of an expression."""
    match node.kind:
        case "literal":
            return constant(node.value)
        case "ident":
            return variable(node.name)
        case "select":
            return _select(node)
        case "list":
            return _list(node)
        case "map":
            return _map(node)
        case "loop":
            return _loop(node)
        case "call":
            return _call(node)
    return constant(NO_OVERLOAD)


def planning_fault(node: Node) -> str:
    """Why there is no plan on a real server: a constant cannot be converted; empty if it can."""
    parts = node.parts if node.target is None else [node.target, *node.parts]
    for part in parts:
        if fault := planning_fault(part):
            return fault
    known = _call(node).constant if node.kind == "call" else None
    return known[0].text if known is not None and isinstance(known[0], Failure) else ""


# -- what stands below a value


def _select(node: Node) -> Plan:
    dotted = _dotted(node)
    if dotted.startswith("google.protobuf."):
        return variable(dotted)
    [part] = node.parts
    operand, name = planned(part), node.name
    if not node.test:
        return qualified(operand, lambda _: name, optional=False)

    def has(frame: Frame) -> Any:
        value = operand.step(frame)
        if not operand.path:
            frame.cost += 1
        if isinstance(value, Failure):
            return value
        if isinstance(value, Optional):
            value = value.value if value.there else None
        return isinstance(value, dict) and name in value

    return Plan(has)


def _dotted(node: Node) -> str:
    if node.kind == "ident":
        return node.name
    if node.kind == "select" and not node.test and (before := _dotted(node.parts[0])):
        return f"{before}.{node.name}"
    return ""


# -- what is made


def _list(node: Node) -> Plan:
    items = [planned(part) for part in node.parts]
    optional = node.optional

    def step(frame: Frame) -> Any:
        frame.cost += _LIST
        made: list[Any] = []
        for index, item in enumerate(items):
            value = item.step(frame)
            if isinstance(value, Failure):
                return value
            if index in optional:
                if not isinstance(value, Optional):
                    why = "cannot initialize optional list element from non-optional value"
                    return Failure(f"{why} {key_text(value)}")
                if not value.there:
                    continue
                value = value.value
            made.append(value)
        return made

    return _folded(items, step)


def _folded(parts: list[Plan], step: Step) -> Plan:
    """A constant where all parts are: it is made before, and costs nothing."""
    if all(part.constant is not None for part in parts):
        return constant(step(Frame({})))
    return Plan(step)


def _map(node: Node) -> Plan:
    items = [planned(part) for part in node.parts]
    optional = node.optional

    def step(frame: Frame) -> Any:
        frame.cost += _MAP
        made: dict[Any, Any] = {}
        for index in range(0, len(items), 2):
            key = items[index].step(frame)
            if isinstance(key, Failure):
                return key
            value = items[index + 1].step(frame)
            if isinstance(value, Failure):
                return value
            if index // 2 in optional:
                if not isinstance(value, Optional):
                    why = f"cannot initialize optional entry '{key_text(key)}' from non-optional"
                    return Failure(f"{why} value {key_text(value)}")
                if not value.there:
                    continue
                value = value.value
            try:
                made[key] = value
            except TypeError:
                # A list or a map, of a type that was not known before.
                return NO_OVERLOAD
        return made

    return _folded(items, step)


def _loop(node: Node) -> Plan:
    values, start, condition, step, result = (planned(part) for part in node.parts)
    made, *names = node.names
    pairs = len(names) > 1

    def run(frame: Frame) -> Any:
        container = values.step(frame)
        if isinstance(container, Failure):
            return container
        items: list[Any]
        if isinstance(container, dict) and not isinstance(container, Own):
            items = [*container.items()] if pairs else [*container]
        elif isinstance(container, list):
            items = [*enumerate(container)] if pairs else container
        else:
            kind = _KINDS.get(kind_of(container), kind_of(container).capitalize())
            return Failure(f"got 'types.{kind}', expected iterable type")
        known = frame.values
        outer = {name: known[name] for name in (made, *names) if name in known}
        first = start.step(frame)
        known[made] = Growing() if isinstance(first, list) and not first else first
        one, test, advance = names[0], condition.step, step.step
        for item in items:
            if pairs:
                known[one], known[names[1]] = item
            else:
                known[one] = item
            if test(frame) is False:
                break
            known[made] = advance(frame)
            if frame.cost > CALL_LIMIT:
                raise Exceeded
        for name in names:
            known.pop(name, None)
            if name in outer:
                known[name] = outer[name]
        found = result.step(frame)
        known.pop(made, None)
        if made in outer:
            known[made] = outer[made]
        return list(found) if isinstance(found, Growing) else found

    return Plan(run)


def _call(node: Node) -> Plan:
    name, parts = node.name, node.parts
    if node.target is not None:
        space = _dotted(node.target)
        if space and f"{space}.{name}" in CALLS:
            name = f"{space}.{name}"
        else:
            parts = [node.target, *parts]
    match name:
        case "_&&_" | "_||_":
            return logical([planned(part) for part in parts], decides=name == "_||_")
        case "_?_:_":
            return conditional(*(planned(part) for part in parts))
        case "_[_]" | "_[?_]" | "_?._":
            operand, key = (planned(part) for part in parts)
            return qualified(operand, key.below or key.step, optional=name != "_[_]")
        case "@not_strictly_false":
            return not_strictly_false(planned(parts[0]))
        case "or" | "orValue" if len(parts) == 2:
            return alternative(*(planned(part) for part in parts), unwraps=name == "orValue")
    steps = [planned(part) for part in parts]
    if name in CONVERSIONS and len(steps) == 1 and steps[0].constant is not None:
        [value] = steps[0].constant
        return constant(value if isinstance(value, Failure) else CONVERSIONS[name](value))
    if name == "@in" and steps[1].constant is not None:
        return Plan(pair("@in", steps[0].step, steps[1].step, free=True))
    return Plan(call(name, steps))
