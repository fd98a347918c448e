"""Calls of functions, planned, and what is no call but looks like one.

Source: github.com/google/cel-go interpreter/{planner,interpretable}.go.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.call_prices import PAID_AFTER, price_of
from pytest_kwait.simulator.cel.calls import function_of
from pytest_kwait.simulator.cel.cel_values import NO_OVERLOAD, Failure, Optional
from pytest_kwait.simulator.cel.plans import Frame, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.plans import Step

__all__ = ["Growing", "alternative", "call", "conditional", "logical", "not_strictly_false", "pair"]


class Growing(list[Any]):
    """The list that a loop makes: what is added to it is added in its place."""

    __slots__ = ()


_SCALARS = frozenset({bool, float, int})
_CHEAP: dict[str, Callable[[Any, Any], bool]] = {
    "_!=_": operator.ne,
    "_<=_": operator.le,
    "_<_": operator.lt,
    "_==_": operator.eq,
    "_>=_": operator.ge,
    "_>_": operator.gt,
}
"""What needs no look at the values but their types where those are of the same numbers."""


def call(name: str, plans: list[Plan]) -> Step:
    """A call of a function, a member's own value first."""
    steps, function, price = [plan.step for plan in plans], function_of(name), price_of(name)
    after = name in PAID_AFTER
    if len(steps) == 2:
        return pair(name, steps[0], steps[1])

    def run(frame: Frame) -> Any:
        values = []
        for step in steps:
            value = step(frame)
            values.append(value)
            if isinstance(value, Failure):
                if len(values) == len(steps):
                    frame.pay(1)
                return value
        if not after:
            frame.pay(price(values, None))
        found = function(values)
        if after:
            frame.pay(price(values, found))
        return found

    return run


def pair(name: str, first: Step, second: Step, *, free: bool = False) -> Step:
    """A call with two values: the second is computed even if there is no first."""
    function, price, cheap = function_of(name), price_of(name), _CHEAP.get(name)
    adds, after = name == "_+_", name in PAID_AFTER

    def run(frame: Frame) -> Any:
        one, two = first(frame), second(frame)
        kind = type(one)
        if kind is type(two):
            if cheap is not None and kind in _SCALARS:
                frame.pay(1)
                return cheap(one, two)
        elif adds and kind is Growing and isinstance(two, list):
            # What a loop makes grows in its place.
            frame.pay(1)
            one.extend(two)
            return one
        wrong = one if kind is Failure else two if type(two) is Failure else None
        if not free and not after:
            frame.pay(price([one, two], None))
        found = function([one, two]) if wrong is None else wrong
        if after:
            frame.pay(price([one, two], found))
        return found

    return run


def logical(plans: list[Plan], *, decides: bool) -> Plan:
    """`&&` and `||`: one value decides, whatever is wrong with the others."""
    steps = [plan.step for plan in plans]

    def run(frame: Frame) -> Any:
        wrong: Failure | None = None
        for step in steps:
            value = step(frame)
            if value is decides:
                return decides
            if not isinstance(value, bool):
                wrong = wrong or (value if isinstance(value, Failure) else NO_OVERLOAD)
        return not decides if wrong is None else wrong

    return Plan(run)


def conditional(condition: Plan, yes: Plan, no: Plan) -> Plan:
    """`condition ? yes : no`."""
    first, second = yes.below or yes.step, no.below or no.step

    def run(frame: Frame) -> Any:
        value = condition.step(frame)
        if not isinstance(value, bool):
            return value if isinstance(value, Failure) else NO_OVERLOAD
        return first(frame) if value else second(frame)

    return Plan(run, path=True, below=run, base=0)


def not_strictly_false(plan: Plan) -> Plan:
    """What loops go on by: an error does not end them."""

    def run(frame: Frame) -> Any:
        value = plan.step(frame)
        frame.cost += 1
        return value is not False

    return Plan(run)


def alternative(one: Plan, two: Plan, *, unwraps: bool) -> Plan:
    """`or` and `orValue`: the other where the first has no value."""

    def run(frame: Frame) -> Any:
        value = one.step(frame)
        if isinstance(value, Failure):
            return value
        if not isinstance(value, Optional):
            return NO_OVERLOAD
        if value.there:
            return value.value if unwraps else value
        return two.step(frame)

    return Plan(run)
