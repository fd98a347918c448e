"""A plugin of inner runs: the time of an exploration is up once each test has run twice.

So however slow the machine is, no test is left out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_kwait.plugin.explore.coordinator import Coordinator
    from pytest_kwait.suite.explore.verdict import ExploredRun

_RUNS = 2
_LONG = 24 * 3600.0
"""Seconds; longer than the time of any exploration."""


def pytest_addoption() -> None:
    """Let the plan of this run, which is made later, have a clock that results move."""
    # Not at import: pytest imports this module before the plugin under test.
    from pytest_kwait.plugin.explore import coordinator, loop
    from pytest_kwait.suite.explore.plan import Plan
    from pytest_kwait.testing import FakeClock

    clock, add = FakeClock(), coordinator.Coordinator.add

    def add_and_move(self: Coordinator, worker: str, result: ExploredRun) -> bool:
        goes_on = add(self, worker, result)
        if min(test.runs for test in self.verdict.tests) >= _RUNS:
            clock.advance(_LONG)
        return goes_on

    # Until this process ends.
    patch = pytest.MonkeyPatch()
    patch.setattr(loop, "Plan", partial(Plan, clock=clock))
    patch.setattr(coordinator.Coordinator, "add", add_and_move)
