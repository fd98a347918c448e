"""Objects that remain at the end of a run, and users who are restricted to one namespace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kubernetes.client import CoreV1Api

from conformance.runs.inner_runs import run
from e2e.service_accounts import bind

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


def test_end_of_the_run_names_remaining_objects(kwait: Kwait, tmp_path: Path) -> None:
    """The tests pass; a line names object and finalizer."""
    suite = """
HELD = {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}

def test_it(kwait):
    kwait.create(HELD)
    print("namespace", kwait.namespace)
    # What is left is said by the cluster's own controller, in its time: from 5 seconds on.
    kwait.delete(f"namespace/{kwait.namespace}")
    said = "condition=NamespaceFinalizersRemaining"
    kwait.wait_for(f"namespace/{kwait.namespace}", said, timeout="4m")
"""
    path = kwait.cluster.kubeconfig
    status, said = run(tmp_path, path, suite, "--kwait-deletion-wait=3s", "-s")
    found = re.search(r"namespace (t-\S+)", said)
    assert found is not None, said
    try:
        assert status == 0, said
        assert "kwait: 1 namespace is not gone after 3s; the server is still deleting" in said
        assert re.search(rf"  {found[1]} .*: .*example\.com/hold", said), said
    finally:
        core: Any = CoreV1Api(kwait.client)
        core.patch_namespaced_config_map("held", found[1], {"metadata": {"finalizers": None}})


def test_user_restricted_to_one_namespace(kwait: Kwait, tmp_path: Path) -> None:
    """With --kwait-namespace only objects of its tests are deleted, one by one."""
    path = kwait.kubeconfig_for("default")
    bind(kwait, "admin")
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}})

    suite = """
import pytest
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}

@pytest.mark.parametrize("number", range(2))
def test_it(kwait, number):
    kwait.create(NOTE)
    assert kwait.get("cm/note")

def test_further(kwait):
    kwait.create_namespace("peer")
"""
    status, said = run(tmp_path, path, suite, f"--kwait-namespace={kwait.namespace}")

    assert status == 1
    assert "1 failed, 2 passed" in said
    assert "namespace 'peer' cannot be created: the test runs in" in said
    assert [each["metadata"]["name"] for each in kwait.list("cm")] == ["kube-root-ca.crt", "note"]
