"""Further namespaces of a test, blocked deletions, and restricted users."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from e2e.inner_runs import run
from e2e.service_accounts import bind, kubeconfig_of_default
from pytest_kwait import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}}


def test_further_namespaces(kwait: Kwait) -> None:
    """Each is a `Kwait` object, deleted with the test."""
    peer = kwait.create_namespace("peer", labels={"team": "b"})
    kwait.create(NOTE)
    peer.create(NOTE)

    assert peer.namespace != kwait.namespace
    assert kwait.get(f"namespace/{peer.namespace}")["metadata"]["labels"]["team"] == "b"
    assert peer.get("serviceaccount/default")
    assert peer.get("cm/note")["metadata"]["namespace"] == peer.namespace


def test_pod_security_of_further_namespaces(kwait: Kwait) -> None:
    """The server enforces the requested level."""
    strict = kwait.create_namespace("strict", pod_security="restricted:latest")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
    }
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
        strict.create(pod)


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
    path = kubeconfig_of_default(kwait, tmp_path)
    bind(kwait, "admin")
    kwait.create(NOTE)

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


def test_a_level_that_is_none(kwait: Kwait) -> None:
    """Invalid arguments are refused before anything is created."""
    with pytest.raises(ValueError, match="pod_security='tight' is not valid: use privileged"):
        kwait.create_namespace("peer", pod_security="tight")
