"""What all tests share; only here may pytest be told which plugins to load."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.shards.ci import CI_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["pytester"]

_CI = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
"""Where one of these is set, pytest shortens no line or pytest-kwait writes more."""

_SLOW = (
    "e2e/cleanup/test_killed_runs.py",
    "e2e/cluster/test_binaries.py",
    "e2e/cluster/test_documented_examples.py",
    "e2e/environments/test_run_scope.py",
    "e2e/evidence/test_audit.py",
    "e2e/failing_fast/test_terminal_states.py",
    "e2e/faults/test_other_families.py",
    "e2e/parallel/test_serial.py",
    "e2e/parallel/test_shard_jobs.py",
    "e2e/programs/",
    "e2e/recording/",
    "examples/",
)
"""A quarter of the tests, which take more than half of the time on a real control plane."""

_COLOURS = ("NO_COLOR", "FORCE_COLOR", "PY_COLORS")


@pytest.fixture(scope="session", autouse=True)
def _as_everywhere() -> Iterator[None]:
    """Runs that a test starts print the same on a CI system, a narrow terminal and elsewhere."""
    shards = itertools.chain.from_iterable((system.index, system.total) for system in CI_SYSTEMS)
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(None, (*_CI, *_COLOURS, *shards)):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", "80")
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "slow: takes long on a real control plane, where `.ci/run slow` runs it",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, before `-m` selects."""
    for item in items:
        if item.nodeid.startswith(_SLOW):
            item.add_marker("slow")
