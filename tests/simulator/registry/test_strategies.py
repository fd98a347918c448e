from __future__ import annotations

import pytest

from pytest_kwait.simulator.registry.strategies_init import _STRATEGIES, Strategy, strategy_of
from pytest_kwait.simulator.scheme import Scheme

KINDS = Scheme()


@pytest.mark.parametrize("resource", sorted(_STRATEGIES))
def test_every_row_names_the_strategy_of_a_kind_that_is_served(resource: str) -> None:
    strategy = strategy_of(KINDS[resource])
    assert isinstance(strategy, Strategy)
    assert type(strategy).__name__ == _STRATEGIES[resource][1]


def test_kinds_without_a_row_have_the_generic_one() -> None:
    assert type(strategy_of(KINDS["componentstatuses"])) is Strategy
