"""Tests in an existing namespace, one after another, with the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


SUITE = """
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "same"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "busybox:1.36", "command": ["sleep", "600"]}],
            }
        }
    },
}


def test_first(kwait, wait_for_pods_running_ready):
    kwait.create(JOB)
    wait_for_pods_running_ready(1, timeout="4m")


def test_second(kwait):
    assert kwait.list("pods") == kwait.list("jobs") == []
"""


def test_tests_do_not_see_objects_of_earlier_tests(kwait: Kwait, tmp_path: Path) -> None:
    """The next test begins once the pods of a Job are deleted."""
    path = kwait.cluster.kubeconfig
    status, said = run(tmp_path, path, SUITE, f"--kwait-namespace={kwait.namespace}")

    assert status == pytest.ExitCode.OK, said
    assert kwait.list("pods") == []
