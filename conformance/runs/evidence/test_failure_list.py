"""`failures.md` of whole runs, with workers and without: each distinct failure once."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters import Cluster

SUITE = """
import pytest

POD = '''
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "busybox:1.36", command: [sh, -c, "echo no disk; exit 3"]}
'''

@pytest.mark.parametrize("number", range(3))
def test_pod(kwait, number):
    with kwait.step("start the worker"):
        kwait.apply(POD)
        kwait.wait_for_pod_success("worker")

def test_other(kwait):
    kwait.wait_for("configmap/late", "create", timeout="300ms")

def test_good(kwait):
    kwait.wait_for("serviceaccount/default", "create")
"""

_TITLE = "pod worker can no longer succeed: the pod has failed: container main ..."


@pytest.mark.own_cluster
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_distinct_failures_of_a_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Three tests fail from one cause: their pod, its timeline, its log, where, and commands."""
    status, output = run(tmp_path, None, SUITE, "--kwait-artifacts=art", *workers)

    assert status == 1, output
    line = "kwait: 4 failed tests, 2 distinct failures: art/failures.md"
    assert output.splitlines().count(line) == 1, output
    text = (tmp_path / "art" / "failures.md").read_text()
    titles = [found[3:] for found in text.splitlines() if found.startswith("## ")]
    late = "configmap late did not get created within 300ms: not found yet"
    assert titles == [f"1. `{_TITLE}`", f"2. `{late}`"]
    section = text[text.index("## 1. ") : text.index("## 2. ")]
    for number in range(3):
        assert f"- `test_suite.py::test_pod[{number}]`" in section
    assert "    | no disk\n" in section
    assert re.search(r"^ +\d+\.\ds  the pod has failed: container main ended", section, re.M)
    assert "- step: `start the worker`\n- cluster: `embedded`, which ends with the run" in section
    # The commands of the file work.
    replay = next(line for line in section.splitlines() if line.endswith(" --timeline"))
    program, *arguments = shlex.split(replay)
    recording = tmp_path / arguments[1]
    assert (program, recording.exists()) == ("kwait", True)
    assert main(["replay", str(recording), "--timeline"]) == 0

    green, output = run(tmp_path, None, SUITE, "--kwait-artifacts=art", "-k", "good", *workers)

    assert green == 0, output
    assert "failures.md" not in output
    assert not (tmp_path / "art" / "failures.md").exists()


def test_list_of_an_existing_cluster_has_its_kubectl(
    kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """The command selects the cluster of the test."""
    options = ("--kwait-artifacts=art", "-k", "late or other")
    context = [f"--kwait-context={kwait_cluster.context}"] if kwait_cluster.context else []
    status, output = run(tmp_path, kwait_cluster.kubeconfig, SUITE, *options, *context)

    assert status == 1, output
    text = (tmp_path / "art" / "failures.md").read_text()
    (command,) = re.findall("^kubectl .*$", text, re.M)
    words = shlex.split(command)
    assert str(kwait_cluster.kubeconfig) in words
    assert words[-2:] == ["get", "configmaps"]
    assert "which ends with the run" not in text
