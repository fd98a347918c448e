from __future__ import annotations

import re
from fractions import Fraction

import pytest

from pytest_kwait.apimachinery.quantities import (
    Quantity,
    canonicalize_quantity,
    parse_milli_value,
    parse_quantity,
    parse_value,
    round_quantity,
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


@pytest.mark.parametrize(
    "text", ["", "a", "1x", "1 Gi", "1.2.3", "Mi", "1KI", "--1", "1e", "\u0661"]
)
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


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0", "0"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.5Ki", "512"),
        (".5Mi", "512Ki"),
        ("1e3", "1e3"),
        ("1.500", "1.500"),
        ("+2", "+2"),
        ("-1", "-1"),
        ("k", "0"),
        (" 5 ", "5"),
        ("0.0000000001", "1n"),
        ("9Ei", "9223372036854775807"),
        ("1E400", "10e399"),
        ("-1e1000", "-10e999"),
        ("1e-400", "1e-9"),
    ],
)
def test_canonical_form(given: str, written: str) -> None:
    assert canonicalize_quantity(given) == written


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0.0005", "1m"),
        ("-1.2345", "-1235m"),
        ("2", "2"),
        ("1.500", "1.500"),
        ("1e-400", "1e-3"),
    ],
)
def test_resources_are_rounded_away_from_zero(given: str, written: str) -> None:
    assert round_quantity(given) == written


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            text,
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
        for text in ("", "x", "1.2.3", "1z", "true", "[1]", "\u0661", "1\n", "\t1", "1e\u0661")
    ]
    + [("1ee", "unable to parse quantity's suffix"), ("1mi", "unable to parse quantity's suffix")],
)
def test_invalid_quantities_are_refused_in_the_servers_words(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_quantity(given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("1e999999999", "unable to parse quantity's suffix"),
        ("1e-999999999", "unable to parse quantity's suffix"),
        (f"1e{'9' * 5000}", "unable to parse quantity's suffix"),
        ("9" * 5000, "unable to parse numeric part of quantity"),
        (f"0.{'0' * 5000}1", "unable to parse numeric part of quantity"),
    ],
)
def test_too_large_quantities_are_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_quantity(given)


def test_long_quantities_are_kept() -> None:
    assert canonicalize_quantity("9" * 1990) == "9" * 1990
    assert canonicalize_quantity("1e1998") == "1e1998"
    assert round_quantity(f"{'9' * 1000}.{'9' * 900}") == f"1{'0' * 982}E"
