"""Wait for an existing cluster to be ready before the first test that uses it.

The process that owns the cluster waits, outside of every test's own timeout. Tests that use no
cluster always run. Needed for existing clusters alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.errors import ClusterError, KwaitError
from pytest_kwait.plugin.cluster import is_cluster_overridden, uses_cluster
from pytest_kwait.plugin.live_status import showing_status

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.plugin.run import Run


class ReadinessGate:
    """Lets tests use the existing cluster of the run once it is ready."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._problem = ""

    # First: outside of pytest-timeout's timer, which starts in a hook of the same name.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Wait before the test's own timeout begins; a failure belongs to its setup."""
        self._problem = ""
        if uses_cluster(item) and not is_cluster_overridden(item):
            with showing_status(item.config):
                self._problem = self._find_problem(item.nodeid)
        return (yield)

    def pytest_runtest_setup(self) -> None:
        """Fail the setup of a test whose cluster is not ready."""
        _refuse(self._problem)

    def check(self, test: str) -> None:
        """Check that tests may use the cluster.

        Raises:
            ClusterError: it did not become ready.
        """
        _refuse(self._find_problem(test))

    def _find_problem(self, test: str) -> str:
        if not self._run.settings.session_waits:
            return ""
        try:
            self._run.source.cluster()
        except KwaitError:
            # The fixture reports it.
            return ""
        try:
            return self._run.source.problem(test)
        except KwaitError as error:
            # The controller is gone; hooks around a test must not raise.
            return str(error)


def _refuse(problem: str) -> None:
    if problem:
        raise ClusterError(problem)
