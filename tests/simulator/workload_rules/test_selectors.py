from __future__ import annotations

import pytest

from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.workload_rules.selectors import check_not_more_than_all, percent_of

MORE = "must not be greater than 100%"


@pytest.mark.parametrize(
    ("given", "number"),
    [(3, 3), ("25%", 25), ("0%", 0), ("half", 0), (f"{'0' * 5000}7%", 7), ("100%", 100)],
)
def test_what_a_number_or_a_percentage_amounts_to(given: int | str, number: int) -> None:
    assert percent_of(given) == number


@pytest.mark.parametrize("given", ["101%", f"{'9' * 5000}%"])
def test_more_than_all(given: str) -> None:
    found = Findings()
    check_not_more_than_all(given, "spec.minAvailable", found)
    (error,) = found
    assert str(error) == f'spec.minAvailable: Invalid value: "{given}": {MORE}'
