"""Readiness checks of an existing cluster before the first test."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import finish, start

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster

SUITE = """
def test_elsewhere(): pass

def test_nodes(kwait_cluster): assert kwait_cluster.nodes

def test_version(kwait_cluster): assert kwait_cluster.version
"""


def run(folder: Path, cluster: Cluster, *options: str) -> tuple[int, str]:
    """Run a suite in a process of its own; return its status and output."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", f"--kwait-kubeconfig={cluster.kubeconfig}"]
    command.append("--kwait-no-janitor")
    if cluster.context:
        command.append(f"--kwait-context={cluster.context}")
    return finish(start([*command, *options], folder))


def test_a_cluster_that_is_ready(kwait_cluster: Cluster, tmp_path: Path) -> None:
    status, output = run(tmp_path, kwait_cluster)

    assert status == pytest.ExitCode.OK, output
    assert "3 passed" in output
    found = re.search(r"kwait: waited \S+ in (\d+) waits, 0 failed early, 0 retries", output)
    assert found, output
    # Nodes, pods and daemon sets; and the lock of the cluster, if a serial test of others holds it.
    assert 3 <= int(found[1]) <= 5, output


def test_a_cluster_that_is_not(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """Tests that use it say so, the first in full; the others are run."""
    status, output = run(
        tmp_path,
        kwait_cluster,
        "-n2",
        "--kwait-min-startup-pods=1000",
        "--kwait-timeout=system_pods_startup=2s",
    )

    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert "1 passed, 2 errors" in output, output
    assert output.count("the cluster is not ready for tests:\n") == 1, output
    assert output.count("the cluster is not ready for tests, as said of test_suite.py::") == 1
    assert "pods in kube-system did not come to 1000 or more Running and ready" in output
