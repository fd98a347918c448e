"""Calls of functions, planned, and what is no call but looks like one.

Source: github.com/google/cel-go interpreter/{planner,interpretable}.go.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.calls import resolve_function
from pytest_kwait.simulator.cel.plans import ExecutionFrame, Plan
from pytest_kwait.simulator.cel.runtime_cost import COSTED_AFTER_CALL, get_call_cost
from pytest_kwait.simulator.cel.values import NO_OVERLOAD, ErrorValue, OptionalValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.plans import Step

__all__ = [
    "AccumulatorList",
    "plan_binary_call",
    "plan_call",
    "plan_conditional",
    "plan_logical",
    "plan_not_strictly_false",
    "plan_or_value",
]


class AccumulatorList(list[Any]):
    """The list that a loop makes: what is added to it is added in its place."""

    __slots__ = ()


_SCALAR_TYPES = frozenset({bool, float, int})
_SCALAR_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_!=_": operator.ne,
    "_<=_": operator.le,
    "_<_": operator.lt,
    "_==_": operator.eq,
    "_>=_": operator.ge,
    "_>_": operator.gt,
}
"""What needs no look at the values but their types where those are of the same numbers."""


def plan_call(name: str, plans: list[Plan]) -> Step:
    """A call of a function, a member's own value first."""
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
        found = function(values)
        if after:
            frame.charge(price(values, found))
        return found

    return run


def plan_binary_call(name: str, first: Step, second: Step, *, free: bool = False) -> Step:
    """A call with two values: the second is computed even if there is no first."""
    function, price, cheap = (
        resolve_function(name),
        get_call_cost(name),
        _SCALAR_COMPARISONS.get(name),
    )
    adds, after = name == "_+_", name in COSTED_AFTER_CALL

    def run(frame: ExecutionFrame) -> Any:
        one, two = first(frame), second(frame)
        kind = type(one)
        if kind is type(two):
            if cheap is not None and kind in _SCALAR_TYPES:
                frame.charge(1)
                return cheap(one, two)
        elif adds and kind is AccumulatorList and isinstance(two, list):
            # What a loop makes grows in its place.
            frame.charge(1)
            one.extend(two)
            return one
        wrong = one if kind is ErrorValue else two if type(two) is ErrorValue else None
        if not free and not after:
            frame.charge(price([one, two], None))
        found = function([one, two]) if wrong is None else wrong
        if after:
            frame.charge(price([one, two], found))
        return found

    return run


def plan_logical(plans: list[Plan], *, decides: bool) -> Plan:
    """`&&` and `||`: one value decides, whatever is wrong with the others."""
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

    return Plan(run)


def plan_conditional(condition: Plan, yes: Plan, no: Plan) -> Plan:
    """`condition ? yes : no`."""
    first, second = yes.below or yes.step, no.below or no.step

    def run(frame: ExecutionFrame) -> Any:
        value = condition.step(frame)
        if not isinstance(value, bool):
            return value if isinstance(value, ErrorValue) else NO_OVERLOAD
        return first(frame) if value else second(frame)

    return Plan(run, path=True, below=run, base=0)


def plan_not_strictly_false(plan: Plan) -> Plan:
    """What loops go on by: an error does not end them."""

    def run(frame: ExecutionFrame) -> Any:
        value = plan.step(frame)
        frame.cost += 1
        return value is not False

    return Plan(run)


def plan_or_value(one: Plan, two: Plan, *, unwraps: bool) -> Plan:
    """`or` and `orValue`: the other where the first has no value."""

    def run(frame: ExecutionFrame) -> Any:
        value = one.step(frame)
        if isinstance(value, ErrorValue):
            return value
        if not isinstance(value, OptionalValue):
            return NO_OVERLOAD
        if value.has_value:
            return value.value if unwraps else value
        return two.step(frame)

    return Plan(run)
