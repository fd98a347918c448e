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
