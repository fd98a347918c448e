"""A suite that `kwait shards run` runs in the cluster, one pod for each shard."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from pytest_kwait.cli import main
from pytest_kwait.suite.report.files import read_report

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.clusters import Cluster

SUITE = """
import pytest


@pytest.mark.parametrize("number", range(4))
def test_namespace_of_its_own(kwait, number):
    assert kwait.get(f"namespace/{kwait.namespace}")
    assert number != 3, "three is wrong"
"""


def command(cluster: Cluster, namespace: str, *options: str) -> list[str]:
    context = [f"--context={cluster.context}"] if cluster.context else []
    where = f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}", "--timeout=2m"
    return ["shards", "run", *where, *context, *options]


@pytest.mark.needs("images")
def test_two_pods_share_a_suite(
    kwait: Kwait, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No image with Python is at hand here, so the pods borrow that of their node."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    template = {
        "spec": {
            "hostNetwork": True,
            "containers": [
                {
                    "name": "pytest",
                    "env": [{"name": "PYTHONPATH", "value": os.environ.get("PYTHONPATH", "")}],
                    "volumeMounts": [{"name": "node", "mountPath": "/node"}],
                }
            ],
            "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
        }
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(template))
    python = f"chroot /node {sys.executable}"
    suite = str(tmp_path), "-q", f"--rootdir={tmp_path}", "-p", "no:cacheprovider"
    name = f"in-pods-{uuid.uuid4().hex[:8]}"
    same = f"--kwait-kubeconfig={kwait.cluster.kubeconfig}", f"--kwait-run-id={name}"

    status = main(
        [
            *command(kwait.cluster, kwait.namespace, "--shards=2", "--image=busybox:1.36"),
            *(f"--pod-template={tmp_path}/pod.yaml", f"--command={python}"),
            *(f"--junitxml={tmp_path}/all.xml", f"--output={tmp_path}/out", f"--run-id={name}"),
            f"--report={tmp_path}/all.json",
            *("--", *suite, *same, "--kwait-no-janitor"),
        ]
    )

    output = capfd.readouterr().out
    assert status == 1, output
    assert "shard 1/2 passed: 2 passed, 0 failed, 0 errors, 0 skipped" in output
    assert "shard 2/2 failed (pytest's exit status 1); its log:" in output
    assert "AssertionError: three is wrong" in output
    assert output.endswith("3 passed, 1 failed, 0 errors, 0 skipped in 2 shards\n")
    assert Path(tmp_path / "all.xml").read_text().count("<testcase ") == 4
    assert "1 passed" in Path(tmp_path / "out/shard-2/log.txt").read_text()
    report = read_report(tmp_path / "all.json", "FILE")
    assert sorted(run.shard for run in report.runs) == ["1/2", "2/2"]
    assert kwait.list("jobs") == []


@pytest.mark.needs("images")
def test_unstartable_pods_end_the_job_early(
    kwait: Kwait, capfd: pytest.CaptureFixture[str]
) -> None:
    status = main(
        command(
            kwait.cluster, kwait.namespace, "--shards=2", "--image=busybox:1.36", "--command=/no"
        )
    )
    output = capfd.readouterr()
    assert status == 1, output
    assert "shard 1/2 was lost: " in output.out
    assert kwait.list("jobs") == []


def test_clusters_without_real_nodes_refuse_shard_jobs(
    kwait: Kwait, capfd: pytest.CaptureFixture[str]
) -> None:
    if kwait.cluster.provider not in ("embedded", "binaries"):
        pytest.skip("on a cluster that runs images")
    reason = (
        "the nodes of this cluster are simulated and run no images; `kwait shards run` needs a "
        "cluster with real nodes"
        if kwait.cluster.has_controllers
        else "this cluster has no nodes and no controllers, so nothing runs a Job; use a cluster "
        "with real nodes"
    )
    assert main(command(kwait.cluster, kwait.namespace, "--shards=2", "--image=suite:1")) == 1
    assert capfd.readouterr().err == (
        f"kwait shards: {reason}, or run shards beside each other with pytest --kwait-shard=I/N\n"
    )
