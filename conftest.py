"""What all tests share; only here may pytest be told which plugins to load."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.continuous_integration import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["pytester"]

_CI = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
"""Where one of these is set, pytest shortens no line or pytest-kwait writes more."""


@pytest.fixture(scope="session", autouse=True)
def _as_on_no_ci() -> Iterator[None]:
    """Runs that a test starts do and print on a CI system what they do elsewhere."""
    shards = itertools.chain.from_iterable((system.index, system.total) for system in SYSTEMS)
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(None, (*_CI, *shards)):
            patch.delenv(name, raising=False)
        yield
