"""The operator with one race at a time: each test passes, and fails under another order of events.

Not collected by itself: `pytest conformance/explore/planted_operator.py --kwait-explore 200`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.explore.operator_tests import TESTS

if TYPE_CHECKING:
    from conformance.explore.conftest import Start
    from conformance.explore.site_operator import Race
    from pytest_kwait import Kwait


@pytest.mark.kwait(timeout="5s")
@pytest.mark.parametrize("race", TESTS, ids=lambda race: race.name.lower())
def test_operator(kwait: Kwait, start: Start, race: Race) -> None:
    """What a race prevents for good is missing after five seconds."""
    TESTS[race](kwait, start, race)
