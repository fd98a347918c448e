"""Wait for an existing cluster to be ready before the first test that uses it.

The process that owns the cluster waits, outside of every test's own timeout. Tests that use no
cluster always run. Registered for existing clusters alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.errors import ClusterError, KwaitError
from pytest_kwait.plugin.cluster import cluster_of, uses_cluster
from pytest_kwait.plugin.live_status import showing_status
from pytest_kwait.plugin.run import run_of
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from collections.abc import Generator

_problem_key = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait before the test's own timeout begins; a failure belongs to its setup."""
    if uses_cluster(item) and _uses_run_cluster(item):
        with showing_status(item.config):
            item.stash[_problem_key] = _problem(item.config, item.nodeid)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail the setup of a test whose cluster is not ready."""
    _refuse(item.stash.get(_problem_key, ""))


def check_ready(config: pytest.Config, test: str) -> None:
    """Check that tests may use the existing cluster of the run.

    Raises:
        ClusterError: it did not become ready.
    """
    _refuse(_problem(config, test))


def _problem(config: pytest.Config, test: str) -> str:
    if not run_settings(config).session_waits:
        return ""
    try:
        cluster_of(config)
    except KwaitError:
        # The fixture reports it.
        return ""
    try:
        return run_of(config).source.problem(test)
    except KwaitError as error:
        # The controller is gone; hooks around a test must not raise.
        return str(error)


def _refuse(problem: str) -> None:
    if problem:
        raise ClusterError(problem)


def _uses_run_cluster(item: pytest.Item) -> bool:
    """Return whether a test's cluster is the run's, and not overridden by a conftest."""
    manager = item.session._fixturemanager
    return len(manager.getfixturedefs("kwait_cluster", item) or ()) == 1
