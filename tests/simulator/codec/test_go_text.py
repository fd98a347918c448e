from __future__ import annotations

import re

import pytest

from pytest_kwait.simulator.codec.go_text import canonicalize_quantity, round_quantity


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
    ],
)
def test_quantities_are_written_in_the_servers_form(given: str, written: str) -> None:
    assert canonicalize_quantity(given) == written


@pytest.mark.parametrize(
    ("given", "written"), [("0.0005", "1m"), ("-1.2345", "-1235m"), ("2", "2"), ("1.500", "1.500")]
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
        for text in ("", "x", "1.2.3", "1z", "true", "[1]")
    ]
    + [("1ee", "unable to parse quantity's suffix"), ("1mi", "unable to parse quantity's suffix")],
)
def test_what_is_no_quantity_is_refused(given: str, why: str) -> None:
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
def test_quantities_that_nobody_computes_with_are_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonicalize_quantity(given)


def test_long_quantities_are_written() -> None:
    assert canonicalize_quantity("9" * 1990) == "9" * 1990
    assert canonicalize_quantity("1e1998") == "1e1998"
    assert round_quantity(f"{'9' * 1000}.{'9' * 900}") == f"1{'0' * 982}E"
