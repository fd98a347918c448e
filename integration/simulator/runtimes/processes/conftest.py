from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import Scenario, run_scenario
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation, detect_isolation

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """The isolation of programs on this system."""
    return asyncio.run(detect_isolation())


@pytest.fixture
def run_isolated(isolation: Isolation) -> Callable[[Scenario], None]:
    """Run a scenario in namespaces."""
    if not isolation.namespaces:
        pytest.skip(isolation.missing[0])
    return run_scenario


@pytest.fixture(params=["namespaces", "plain"])
def run_any(request: pytest.FixtureRequest, isolation: Isolation) -> Callable[[Scenario], None]:
    """Run a scenario in namespaces, and as plain processes."""
    if request.param == "namespaces" and not isolation.namespaces:
        pytest.skip(isolation.missing[0])
    return partial(run_scenario, plain=request.param == "plain")


@pytest.fixture
def run_plain() -> Callable[[Scenario], None]:
    """Run a scenario as plain processes."""
    return partial(run_scenario, plain=True)
