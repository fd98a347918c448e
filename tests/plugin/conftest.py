"""Fixtures: runs without the user's settings, and a fake cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests.plugin.preloaded  # noqa: F401 - for the runs inside of tests
from tests.forked_python import fork_processes, stop_fork_server
from tests.installed_distributions import keep_distributions
from tests.plugin.registered_plugins import look_for_fixtures_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAKE_CLUSTER = """
import os
import sys
from pathlib import Path

import pytest

sys.path.append(os.environ["FAKE_PATH"])

from tests.suite.fakes import FakeCluster


@pytest.fixture(scope="session")
def kwait_cluster():
    cluster = FakeCluster(Path(os.environ["FAKE_LOG"]), time_scale=0.1)
    cluster.provider = os.environ.get("FAKE_PROVIDER", "fake")
    return cluster
"""

_INI = """
[pytest]
addopts = --strict-markers
kwait_mode = poll
kwait_poll = 10ms
"""


@pytest.fixture(autouse=True)
def _clean_environment(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where runs find the cluster in a dictionary: pytest-xdist gives workers the path as it was
    # before pytest added anything to it.
    monkeypatch.setenv("FAKE_PATH", str(Path(__file__).parents[2]))
    for name in list(os.environ):
        if name.startswith(("KWAIT_", "PYTEST_XDIST")) or name == "KUBECONFIG":
            monkeypatch.delenv(name)
    # Plugins that happen to be installed here cost each run more than all the rest of it. Set
    # after pytester has cleared it.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -p no:anyio -p no:hypothesispytest")


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> Iterator[None]:
    yield
    stop_fork_server()


@pytest.fixture(scope="package", autouse=True)
def _read_plugins_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        keep_distributions(patch)
        look_for_fixtures_once(patch)
        yield


@pytest.fixture(autouse=True)
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in processes of their own, their workers and clusters are forks, not new processes."""
    fork_processes(monkeypatch)


@pytest.fixture
def fake_cluster(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Runs use a cluster that is a dictionary; returns what was written to it, a line each.

    But for the run's sign of life, which is there whatever a test does.
    """
    log = pytester.path / "requests.log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    pytester.makeconftest(FAKE_CLUSTER)
    pytester.makeini(_INI)

    def written() -> str:
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return "".join(line for line in lines if "/leases" not in line)

    return written
