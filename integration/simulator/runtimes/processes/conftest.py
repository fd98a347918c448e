from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.simulator.runtimes.processes.programs import Scenario, run_scenario
from pytest_kwait.simulator import find_isolation_refusal
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation, detect_isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """The isolation of programs on this system."""
    return asyncio.run(detect_isolation())


@pytest.fixture(scope="session")
def refusal_of_interception() -> str:
    """The reason why system calls cannot be intercepted on this system; empty if they can."""
    return find_isolation_refusal("intercepted")


@pytest.fixture
def run_isolated(isolation: Isolation) -> Callable[[Scenario], None]:
    """Run a scenario in namespaces."""
    if not isolation.namespaces:
        pytest.skip(isolation.reason)
    return run_scenario


@pytest.fixture(params=["namespaces", "intercepted"])
def run_pods(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Run a scenario where pods have a network and files of their own."""
    return _get_runner(request)


@pytest.fixture(params=["namespaces", "intercepted", "none"])
def run_any(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Run a scenario with each isolation."""
    return _get_runner(request)


@pytest.fixture
def run_intercepted(refusal_of_interception: str) -> Callable[[Scenario], None]:
    """Run a scenario with intercepted system calls."""
    if refusal_of_interception:
        pytest.skip(refusal_of_interception)
    return partial(run_scenario, isolation="intercepted")


@pytest.fixture
def run_plain() -> Callable[[Scenario], None]:
    """Run a scenario as plain processes."""
    return partial(run_scenario, isolation="none")


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user may search, where all temporary ones are."""
    with tempfile.TemporaryDirectory(prefix="kwait-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield folder


def _get_runner(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    names = {"namespaces": "run_isolated", "intercepted": "run_intercepted", "none": "run_plain"}
    runner: Callable[[Scenario], None] = request.getfixturevalue(names[request.param])
    return runner
