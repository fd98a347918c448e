"""Readiness checks of an existing cluster before the first test."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster

SUITE = """
def test_elsewhere(): pass

def test_nodes(kwait_cluster): assert kwait_cluster.nodes

def test_version(kwait_cluster): assert kwait_cluster.version
"""


def run(folder: Path, cluster: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a suite in a process of its own."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", f"--kwait-kubeconfig={cluster.kubeconfig}"]
    command.append("--kwait-no-janitor")
    if cluster.context:
        command.append(f"--kwait-context={cluster.context}")
    return subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, timeout=240
    )


def test_a_cluster_that_is_ready(kwait_cluster: Cluster, tmp_path: Path) -> None:
    done = run(tmp_path, kwait_cluster)

    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "3 passed" in done.stdout
    found = re.search(r"kwait: waited \S+ in (\d+) waits, 0 failed early, 0 retries", done.stdout)
    assert found, done.stdout
    # Nodes, pods and daemon sets; and the lock of the cluster, if a serial test of others holds it.
    assert 3 <= int(found[1]) <= 5, done.stdout


def test_a_cluster_that_is_not(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """Tests that use it say so, the first in full; the others are run."""
    done = run(
        tmp_path,
        kwait_cluster,
        "-n2",
        "--kwait-min-startup-pods=1000",
        "--kwait-timeout=system_pods_startup=2s",
    )

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 passed, 2 errors" in done.stdout, done.stdout
    assert done.stdout.count("the cluster is not ready for tests:\n") == 1, done.stdout
    assert done.stdout.count("the cluster is not ready for tests, as said of test_suite.py::") == 1
    assert "pods in kube-system did not come to 1000 or more Running and ready" in done.stdout
