"""Two tests that apply one cluster-scoped object at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


PARALLEL = """
import time
from pathlib import Path

import pytest

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "NAME"},
}

@pytest.mark.parametrize("number", [0, 1])
def test_apply(kwait, number):
    Path(f"ready-{number}").touch()
    while not Path(f"ready-{1 - number}").exists():
        time.sleep(0.05)
    try:
        kwait.apply(ROLE)
    finally:
        Path(f"done-{number}").touch()
        while not Path(f"done-{1 - number}").exists():
            time.sleep(0.05)
"""


def test_one_object_of_the_cluster_is_not_of_two_tests(kwait: Kwait, tmp_path: Path) -> None:
    """Of two tests that apply it at the same time, one fails with the name of the other."""
    name = f"shared-{kwait.namespace}"
    options = ["-n", "2", "--kwait-no-session-waits"]
    if kwait.cluster.context:
        options.append(f"--kwait-context={kwait.cluster.context}")
    suite = PARALLEL.replace("NAME", name)
    status, output = run(tmp_path, kwait.cluster.kubeconfig, suite, *options)

    assert status == 1, output
    assert "1 failed, 1 passed" in output
    assert f"clusterrole/{name} belongs to test_suite.py::test_apply[" in output
    assert not [each for each in kwait.list("clusterroles") if each["metadata"]["name"] == name]
