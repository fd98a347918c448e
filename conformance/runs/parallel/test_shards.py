"""A suite in shards: independent jobs run each test once, on one cluster."""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import start

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster

SUITE = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_namespace_of_its_own(kwait, number):
    made = kwait.get(f"namespace/{kwait.namespace}")
    shard = made["metadata"]["annotations"]["pytest-kwait/shard"]
    assert made["metadata"]["labels"]["pytest-kwait/shard"] == shard.replace("/", "-")
    with open(f"ran-{shard[0]}", "a") as file:
        file.write(f"{number}\\n")
"""


def test_two_jobs_share_a_suite(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """The second one reads from the environment which it is, as in a Job of the cluster."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    pytest = [
        *(sys.executable, "-m", "pytest", "-q", f"--kwait-run-id=shards-{uuid.uuid4().hex[:8]}"),
        "--kwait-no-janitor",
        f"--kwait-kubeconfig={kwait_cluster.kubeconfig}",
        *([f"--kwait-context={kwait_cluster.context}"] if kwait_cluster.context else []),
    ]
    jobs = [
        start([*pytest, f"--kwait-shard={shard}"], tmp_path, environ)
        for shard, environ in (
            ("1/2", _environment()),
            ("auto/2", {**_environment(), "JOB_COMPLETION_INDEX": "1"}),
        )
    ]
    output = [job.communicate(timeout=240)[0] for job in jobs]

    assert [job.returncode for job in jobs] == [0, 0], "\n".join(output)
    assert "kwait: shard 1/2 is 3 of 5 tests" in output[0]
    assert "kwait: shard 2/2 is 2 of 5 tests" in output[1]
    ran = [(tmp_path / f"ran-{index}").read_text().split() for index in (1, 2)]
    assert sorted(ran[0] + ran[1]) == list("01234")


def _environment() -> dict[str, str]:
    variables = ("CI_NODE", "CIRCLE_NODE", "BUILDKITE_PARALLEL", "JOB_COMPLETION", "KWAIT_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith((*variables, "PYTEST_"))
    }
