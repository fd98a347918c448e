from __future__ import annotations

import pytest

from pytest_kwait.simulator.validation.findings import ErrorList
from pytest_kwait.simulator.validation.selectors import (
    parse_int_or_percent,
    validate_not_more_than_100_percent,
)

MORE = "must not be greater than 100%"


@pytest.mark.parametrize(
    ("given", "number"),
    [(3, 3), ("25%", 25), ("0%", 0), ("half", 0), (f"{'0' * 5000}7%", 7), ("100%", 100)],
)
def test_int_or_percent_values(given: int | str, number: int) -> None:
    assert parse_int_or_percent(given) == number


@pytest.mark.parametrize("given", ["101%", f"{'9' * 5000}%"])
def test_more_than_100_percent_is_rejected(given: str) -> None:
    found = ErrorList()
    validate_not_more_than_100_percent(given, "spec.minAvailable", found)
    (error,) = found
    assert str(error) == f'spec.minAvailable: Invalid value: "{given}": {MORE}'
