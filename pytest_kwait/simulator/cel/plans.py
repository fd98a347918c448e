"""Parts of expressions, planned: what gives their values, and what stands below a value.

Source: github.com/google/cel-go interpreter/{attributes,runtimecost}.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.cel.cel_values import (
    NO_OVERLOAD,
    NONE,
    Failure,
    Optional,
    TypeName,
    is_number,
    kind_of,
)
from pytest_kwait.simulator.cel.operators import CONVERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Step = Callable[["Frame"], Any]

__all__ = [
    "CALL_LIMIT",
    "Exceeded",
    "Frame",
    "Plan",
    "constant",
    "key_text",
    "qualified",
    "variable",
]

CALL_LIMIT = 1_000_000
"""What one evaluation may cost."""

_TYPES = {
    **{name: name for name in ("bool", "bytes", "double", "int", "list", "map", "string", "uint")},
    "null_type": "null_type",
    "type": "type",
}


class Exceeded(Exception):
    """An evaluation costs more than one may."""


class Frame:
    """One evaluation: the values of its variables, and what it has cost so far."""

    __slots__ = ("cost", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self.cost = 0

    def pay(self, cost: int) -> None:
        """Count a cost.

        Raises:
            Exceeded: it is more than one evaluation may cost.
        """
        self.cost += cost
        if self.cost > CALL_LIMIT:
            raise Exceeded


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


def constant(value: Any) -> Plan:
    """What always has the same value, at no cost."""
    return Plan(lambda _: value, constant=(value,))


def variable(name: str) -> Plan:
    """A variable, or the type of that name."""

    def below(frame: Frame) -> Any:
        try:
            return frame.values[name]
        except KeyError:
            return Failure(f"no such attribute(s): {name}")

    def step(frame: Frame) -> Any:
        frame.cost += 1
        try:
            return frame.values[name]
        except KeyError:
            return Failure(f"no such attribute(s): {name}")

    if name in _TYPES or name.startswith("google.protobuf."):
        own = TypeName(name)

        def kind(frame: Frame) -> Any:
            return frame.values.get(name, own)

        return Plan(kind, constant=(own,)) if "." in name else Plan(kind)
    return Plan(step, path=True, below=below)


def qualified(operand: Plan, key: Step, *, optional: bool) -> Plan:
    """What is found under a key of a value; the key is computed after the value."""
    start, base = operand.below or operand.step, operand.base

    def below(frame: Frame) -> Any:
        value = start(frame)
        if isinstance(value, Failure):
            return value
        maybe = optional
        if isinstance(value, Optional):
            if not value.there:
                return value
            maybe, value = True, value.value
        under = key(frame)
        if isinstance(under, Failure):
            return under
        found = _under(value, under)
        if maybe:
            if isinstance(found, Failure):
                return NONE
            frame.cost += 1
            return found if isinstance(found, Optional) else Optional(found)
        frame.cost += 1
        return found

    def step(frame: Frame) -> Any:
        frame.cost += base
        return below(frame)

    return Plan(step, path=True, below=below, base=base)


def _under(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        try:
            return value[key]
        except KeyError:
            return Failure(f"no such key: {key_text(key)}")
        except TypeError:
            return NO_OVERLOAD
    if isinstance(value, list):
        if not is_number(key):
            return Failure(f"unsupported index type '{kind_of(key)}' in list")
        if not math.isfinite(key) or key != int(key):
            return Failure(f"unsupported index value {key_text(key)} in list")
        at = int(key)
        return value[at] if 0 <= at < len(value) else Failure(f"index out of bounds: {at}")
    return Failure(f"no such key: {key_text(key)}")


def key_text(key: Any) -> str:
    """A value as a text, which errors show it by."""
    text = CONVERSIONS["string"](key)
    return text if isinstance(text, str) else str(key)
