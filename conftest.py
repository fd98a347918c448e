"""What all tests share; only here may pytest be told which plugins to load."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.shards.ci import CI_SYSTEMS
from tests.leftovers import LeftByRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait import Cluster

pytest_plugins = ["pytester"]

_CI = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
"""Where one of these is set, pytest shortens no line or pytest-kwait writes more."""

_SLOW = (
    "conformance/clusters/test_binaries.py",
    "conformance/failing_fast/test_terminal_states.py",
    "conformance/faults/test_other_families.py",
    "conformance/runs/cleanup/test_killed_runs.py",
    "conformance/runs/evidence/test_audit.py",
    "conformance/runs/parallel/test_run_scope.py",
    "conformance/runs/parallel/test_serial.py",
    "conformance/runs/parallel/test_shard_jobs.py",
    "conformance/runs/recording/",
    "conformance/runs/test_documented_examples.py",
    "conformance/runs/test_image_mappings.py",
    "e2e/programs/",
    "examples/",
)
"""A quarter of the tests, which take more than half of the time on a real control plane."""

_COMPARED = (
    "conformance/api/",
    "conformance/kubectl/",
    "conformance/registry/",
    "conformance/scenarios/",
    "conformance/scheduler/",
    "conformance/test_architecture.py",
)
"""Tests that compare the embedded cluster with a real one."""

_OWN_CLUSTER = (
    "conformance/clusters/test_api_server_alone.py",
    "conformance/clusters/test_dead_clusters.py",
    "conformance/clusters/test_local_clusters.py",
    "conformance/clusters/test_nodes.py",
    "conformance/explore/test_explore.py",
    "conformance/runs/test_coverage_of_programs.py",
    "conformance/runs/test_programs_without_isolation.py",
    "conformance/runs/report/test_flaky_tests.py",
    "conformance/runs/report/test_player.py",
    "conformance/runs/report/test_recorded_run.py",
    "conformance/runs/report/test_report_page.py",
)
"""Tests that start clusters of their own, or look at a page."""

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
    """Register the markers, and the search for what the run leaves."""
    for marker in (
        "slow: takes long on a real control plane, where `.ci/run slow` runs it",
        "compared: compares the embedded cluster with a real one, where `.ci/run conformance` is",
        "own_cluster: starts clusters of its own, or none, or differs from a test of this cluster"
        " in the processes of the run alone; `.ci/run real` leaves it out",
        "needs(*capabilities): what this test needs of the cluster; where it lacks that,"
        " the test is skipped with the reason",
    ):
        config.addinivalue_line("markers", marker)
    if not hasattr(config, "workerinput"):  # a worker's are in the folder of the run
        config.pluginmanager.register(LeftByRun())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of these lists, before `-m` selects."""
    lists = (("slow", _SLOW), ("compared", _COMPARED), ("own_cluster", _OWN_CLUSTER))
    for item in items:
        for marker, paths in lists:
            if item.nodeid.startswith(paths):
                item.add_marker(marker)


@pytest.fixture
def images_on_nodes(kwait_cluster: Cluster, kwait_images: Mapping[str, object]) -> bool:
    """Import images of the mapped programs into the nodes of the built control plane.

    Returns whether the cluster has them: what built another one is not known here.
    """
    from pytest_kwait.clusters.images import read_image_mappings
    from tools.controlplane.cluster import FOLDER_VARIABLE
    from tools.controlplane.program_images import import_images

    if not kwait_images or kwait_cluster.provider == "embedded":
        return True
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        import_images(Path(folder), read_image_mappings(kwait_images, "fixture kwait_images"))
    return bool(folder)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The path of a kubectl of the recorded version; a test is skipped where there is none."""
    from conformance.kubectl.script import find_kubectl

    program, reason = find_kubectl()
    if program is None:
        pytest.skip(reason)
    return program


@pytest.fixture
def helm(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a helm, which is put in PATH; a test is skipped where there is none."""
    from tools import local_clusters

    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{local_clusters.folder()}")
    program = shutil.which("helm")
    if program is None:
        pytest.skip("there is no helm: `python -m tools.local_clusters` builds it")
    return Path(program)
