"""Scenarios have the same timeline as recorded on a real cluster."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import pytest

from conformance.scenarios.comparison import Comparison
from conformance.scenarios.scenario import list_names
from conformance.scenarios.stage import EVENTS, MILESTONES

if TYPE_CHECKING:
    from conformance.scenarios.stage import Stage


pytestmark = pytest.mark.timeout(900)


def test_timelines_equal_recordings(stage: Stage) -> None:
    everything = reduce(add, map(stage.compared, stage.names), Comparison())
    assert everything.milestone_score >= MILESTONES, str(everything)
    assert everything.event_score >= EVENTS, str(everything)


@pytest.mark.parametrize("name", list_names())
def test_scenario_ends_as_recorded(name: str, stage: Stage) -> None:
    missing = stage.missing(name)
    assert not missing, (
        f"{name} is not over: {', '.join(missing)} was not seen\n{stage.describe(name)}"
    )
    compared = stage.compared(name)
    assert not compared.end_faults, str(compared)
