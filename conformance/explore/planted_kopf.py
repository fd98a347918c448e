"""The kopf operator with one mistake at a time: each test passes, and fails under another order.

Not collected by itself: `pytest conformance/explore/planted_kopf.py --kwait-explore 60`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.explore.kopf_tests import TESTS
from e2e.conftest import PROGRAMS

pytest.importorskip("kopf", reason="kopf is not installed")

if TYPE_CHECKING:
    from conformance.explore.kopf_tests import StartKopf
    from pytest_kwait import Kwait

pytestmark = [pytest.mark.needs(PROGRAMS), pytest.mark.kwait_skip_unless_programs_isolated]


@pytest.mark.kwait(timeout="20s")
@pytest.mark.parametrize("mistake", TESTS)
def test_kopf_operator(kwait: Kwait, start_kopf: StartKopf, mistake: str) -> None:
    """What a mistake prevents for good is missing after twenty seconds."""
    start_kopf(mistake)
    TESTS[mistake](kwait)
