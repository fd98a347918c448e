"""The operator without races passes the tests that find each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.explore.operator_tests import TESTS

if TYPE_CHECKING:
    from conformance.explore.conftest import Start
    from conformance.explore.site_operator import Race
    from pytest_kwait import Kwait


@pytest.mark.parametrize("race", TESTS, ids=lambda race: race.name.lower())
def test_operator(kwait: Kwait, start: Start, race: Race) -> None:
    TESTS[race](kwait, start, None)
