"""Tests in an existing namespace, one after another, with the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from e2e.inner_runs import run
from e2e.raising import raises
from pytest_kwait import WaitTimeout

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


def held(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", **metadata}}


def test_tests_do_not_see_objects_of_earlier_tests(kwait: Kwait, tmp_path: Path) -> None:
    """The next test begins once the pods of a Job are deleted."""
    path = kwait.cluster.kubeconfig
    status, said = run(tmp_path, path, SUITE, f"--kwait-namespace={kwait.namespace}")

    assert status == pytest.ExitCode.OK, said
    assert kwait.list("pods") == []


@pytest.mark.kwait(timeouts={"pod_client_deletion": "1s"})
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_reused_name_of_an_object_that_stays(kwait: Kwait, verb: str) -> None:
    """The error names the finalizer; without it the object is created again."""
    (old,) = kwait.create(held(finalizers=["example.com/hold"]))
    kwait.delete("cm/held")

    with raises(WaitTimeout, "did not go away within 1s: being deleted, held by example.com/hold"):
        getattr(kwait, verb)(held())

    core: Any = CoreV1Api(kwait.client)
    core.patch_namespaced_config_map("held", kwait.namespace, {"metadata": {"finalizers": None}})
    (new,) = getattr(kwait, verb)(held())
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
