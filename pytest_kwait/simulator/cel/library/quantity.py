"""Quantities.

Source: k8s.io/apiserver pkg/cel/library/quantity.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.quantities import canonicalize_quantity, parse_quantity
from pytest_kwait.simulator.cel.values import OpaqueValue, is_valid_for

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.library.overloads import Overloads


def _parse_quantity_value(text: str) -> OpaqueValue:
    canonicalize_quantity(text)
    return _make_quantity(parse_quantity(text).amount)


def _make_quantity(amount: Fraction) -> OpaqueValue:
    return OpaqueValue("Quantity", amount=amount)


def _get_amount(quantity: Any) -> Fraction:
    return Fraction(quantity["amount"] if isinstance(quantity, OpaqueValue) else quantity)


def _as_integer(quantity: Any) -> int:
    amount = _get_amount(quantity)
    if amount.denominator != 1 or not -(2**63) <= amount < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(amount)


def _is_integer(quantity: Any) -> bool:
    return _get_amount(quantity).denominator == 1


def _get_sign(quantity: Any) -> int:
    amount = _get_amount(quantity)
    return (amount > 0) - (amount < 0)


def _compare_quantities(left: Any, right: Any) -> int:
    return _get_sign(_make_quantity(_get_amount(left) - _get_amount(right)))


def _add(left: Any, right: Any) -> OpaqueValue:
    return _make_quantity(_get_amount(left) + _get_amount(right))


def _subtract(left: Any, right: Any) -> OpaqueValue:
    return _make_quantity(_get_amount(left) - _get_amount(right))


QUANTITY_FUNCTIONS: Overloads = {
    ("quantity", ("string",), "Quantity"): _parse_quantity_value,
    ("isQuantity", ("string",), "bool"): is_valid_for(_parse_quantity_value),
    (".asInteger", ("Quantity",), "int"): _as_integer,
    (".asApproximateFloat", ("Quantity",), "double"): lambda quantity: float(_get_amount(quantity)),
    (".isInteger", ("Quantity",), "bool"): _is_integer,
    ("sign", ("Quantity",), "int"): _get_sign,
    **{
        (".add", ("Quantity", operand_type), "Quantity"): _add
        for operand_type in ("Quantity", "int")
    },
    **{
        (".sub", ("Quantity", operand_type), "Quantity"): _subtract
        for operand_type in ("Quantity", "int")
    },
    (".isLessThan", ("Quantity", "Quantity"), "bool"): lambda left, right: (
        _compare_quantities(left, right) < 0
    ),
    (".isGreaterThan", ("Quantity", "Quantity"), "bool"): lambda left, right: (
        _compare_quantities(left, right) > 0
    ),
    (".compareTo", ("Quantity", "Quantity"), "int"): _compare_quantities,
}
