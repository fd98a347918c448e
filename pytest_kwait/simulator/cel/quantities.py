"""Quantities: `100m`, `1Gi`.

Source: k8s.io/apiserver pkg/cel/library/quantity.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.cel.cel_values import Own
from pytest_kwait.simulator.quantity_text import canonical_quantity

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]


def _quantity(text: str) -> Own:
    canonical_quantity(text)
    return _made(parse_quantity(text).amount)


def _made(amount: Fraction) -> Own:
    return Own("Quantity", amount=amount)


def _amount(quantity: Any) -> Fraction:
    return Fraction(quantity["amount"] if isinstance(quantity, Own) else quantity)


def _is_quantity(text: str) -> bool:
    try:
        _quantity(text)
    except ValueError:
        return False
    return True


def _integer(quantity: Any) -> int:
    amount = _amount(quantity)
    if amount.denominator != 1 or not -(2**63) <= amount < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(amount)


def _is_integer(quantity: Any) -> bool:
    return _amount(quantity).denominator == 1


def _sign(quantity: Any) -> int:
    amount = _amount(quantity)
    return (amount > 0) - (amount < 0)


def _compare(left: Any, right: Any) -> int:
    return _sign(_made(_amount(left) - _amount(right)))


def _add(left: Any, right: Any) -> Own:
    return _made(_amount(left) + _amount(right))


def _subtract(left: Any, right: Any) -> Own:
    return _made(_amount(left) - _amount(right))


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("quantity", ("string",), "Quantity"): _quantity,
    ("isQuantity", ("string",), "bool"): _is_quantity,
    (".asInteger", ("Quantity",), "int"): _integer,
    (".asApproximateFloat", ("Quantity",), "double"): lambda one: float(_amount(one)),
    (".isInteger", ("Quantity",), "bool"): _is_integer,
    ("sign", ("Quantity",), "int"): _sign,
    **{(".add", ("Quantity", other), "Quantity"): _add for other in ("Quantity", "int")},
    **{(".sub", ("Quantity", other), "Quantity"): _subtract for other in ("Quantity", "int")},
    (".isLessThan", ("Quantity", "Quantity"), "bool"): lambda one, two: _compare(one, two) < 0,
    (".isGreaterThan", ("Quantity", "Quantity"), "bool"): lambda one, two: _compare(one, two) > 0,
    (".compareTo", ("Quantity", "Quantity"), "int"): _compare,
}
"""By name, types taken and type given."""
