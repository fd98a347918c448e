from __future__ import annotations

from fractions import Fraction

import pytest

from pytest_kwait.apimachinery.quantities import (
    Quantity,
    parse_milli_value,
    parse_quantity,
    parse_value,
    sum_quantities,
)
from pytest_kwait.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3, 2) * 2**30),
        ("2e3", Fraction(2000)),
        ("2E3", Fraction(2000)),
        ("1E", Fraction(10**18)),
        ("-3", Fraction(-3)),
        ("+1k", Fraction(1000)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("7n", Fraction(7, 10**9)),
        ("3u", Fraction(3, 10**6)),
        (4, Fraction(4)),
        (0.25, Fraction(1, 4)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
    ],
)
def test_a_quantity_is_exact(text: str | float, amount: Fraction) -> None:
    assert parse_quantity(text).amount == amount


@pytest.mark.parametrize("text", ["", "a", "1x", "1 Gi", "1.2.3", "Mi", "1KI", "--1", "1e"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_quantity(text)
    assert str(refused.value) == (
        f"quantity={text!r} is not valid: a quantity is a decimal number and one of the suffixes "
        "n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Ki", "1Mi"),
        ("1536Mi", "1536Mi"),
        ("1000", "1k"),
        ("1000Ki", "1000Ki"),
        ("100Mi", "100Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1500e0", "1500"),
        ("1e6", "1e6"),
        ("0.5", "500m"),
        ("-2000m", "-2"),
    ],
)
def test_the_canonical_form_needs_no_fraction(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


def test_whole_units_and_thousandths_are_rounded_up() -> None:
    assert parse_value("1500m") == 2
    assert parse_value("1Ki") == 1024
    assert parse_milli_value("0.0001") == 1
    assert parse_milli_value("2") == 2000


def test_quantities_add_subtract_and_compare_whatever_their_notation() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1Gi")) == "2Gi"
    assert parse_quantity("1Gi") - parse_quantity("1024Mi") == parse_quantity("0")
    assert parse_quantity("1k") < parse_quantity("1Ki")
    assert parse_quantity("1000m") == parse_quantity("1")
    assert len({parse_quantity("1000m"), parse_quantity("1")}) == 1
    assert parse_quantity("1") != 1
    assert str(sum_quantities([parse_quantity("100m"), parse_quantity("1.9")])) == "2"
    assert sum_quantities([]) == Quantity(Fraction(0))
