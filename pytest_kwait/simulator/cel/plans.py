"""Parts of expressions, planned: what gives their values, and what stands below a value.

Source: github.com/google/cel-go interpreter/{attributes,runtimecost}.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.cel.stdlib.operators import CONVERSIONS
from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    OPTIONAL_NONE,
    ErrorValue,
    OptionalValue,
    TypeName,
    get_kind,
    is_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Step = Callable[["ExecutionFrame"], Any]

__all__ = [
    "PER_CALL_COST_LIMIT",
    "CostLimitExceeded",
    "ExecutionFrame",
    "Plan",
    "format_key",
    "plan_constant",
    "plan_qualifier",
    "plan_variable",
]

PER_CALL_COST_LIMIT = 1_000_000
"""What one evaluation may cost."""

_TYPE_IDENTIFIERS = {
    **{name: name for name in ("bool", "bytes", "double", "int", "list", "map", "string", "uint")},
    "null_type": "null_type",
    "type": "type",
}


class CostLimitExceeded(Exception):
    """An evaluation costs more than one may."""


class ExecutionFrame:
    """One evaluation: the values of its variables, and what it has cost so far."""

    __slots__ = ("cost", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count a cost.

        Raises:
            Exceeded: it is more than one evaluation may cost.
        """
        self.cost += cost
        if self.cost > PER_CALL_COST_LIMIT:
            raise CostLimitExceeded


class Plan(NamedTuple):
    """How a part of an expression is evaluated.

    Args:
        step: gives its value.
        constant: its value where that is known before; None for none.
        path: whether it is a variable, or something below one or another value.
        below: gives the same, without what it costs to begin at a variable; None for `step`.
        base: what it costs to begin there.
    """

    step: Step
    constant: tuple[Any] | None = None
    path: bool = False
    below: Step | None = None
    base: int = 1


def plan_constant(value: Any) -> Plan:
    """What always has the same value, at no cost."""
    return Plan(lambda _: value, constant=(value,))


def plan_variable(name: str) -> Plan:
    """A variable, or the type of that name."""

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

        return Plan(kind, constant=(own,)) if "." in name else Plan(kind)
    return Plan(step, path=True, below=below)


def plan_qualifier(operand: Plan, key: Step, *, optional: bool) -> Plan:
    """What is found under a key of a value; the key is computed after the value."""
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
        found = _select_key(value, under)
        if maybe:
            if isinstance(found, ErrorValue):
                return OPTIONAL_NONE
            frame.cost += 1
            return found if isinstance(found, OptionalValue) else OptionalValue(found)
        frame.cost += 1
        return found

    def step(frame: ExecutionFrame) -> Any:
        frame.cost += base
        return below(frame)

    return Plan(step, path=True, below=below, base=base)


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
    """A value as a text, which errors show it by."""
    text = CONVERSIONS["string"](key)
    return text if isinstance(text, str) else str(key)
