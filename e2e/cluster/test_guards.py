"""What a run is kept from, and told that it could not do: before anything is made."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.client import CoreV1Api

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Bench
    from pytest_kwait.clusters.provider import Cluster


def run(folder: Path, kubeconfig: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a suite of one test in a process of its own."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text("def test_it(kwait): pass\n")
    command = [sys.executable, "-m", "pytest", f"--kwait-kubeconfig={kubeconfig}", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_context_that_is_not_allowed(kwait_cluster: Cluster, tmp_path: Path) -> None:
    refused = run(tmp_path, kwait_cluster.kubeconfig, "--kwait-allowed-contexts=staging,kind-*")

    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert (
        "is not valid: tests may run on staging, kind-* (allowed_contexts from option "
        "--kwait-allowed-contexts) and on the embedded cluster"
    ) in refused.stderr


@pytest.mark.needs("authorization")
def test_an_identity_that_may_not_make_namespaces(kwait: Bench, tmp_path: Path) -> None:
    """A service account may do nothing by itself; a namespace that is given must be readable."""
    request: Any = {"spec": {"audiences": [], "expirationSeconds": 600}}
    answer = CoreV1Api(kwait.client).create_namespaced_service_account_token(
        "default", kwait.namespace, request
    )
    assert answer.status is not None
    kubeconfig = yaml.safe_load(kwait.cluster.kubeconfig.read_text())
    for user in kubeconfig["users"]:
        user["user"] = {"token": answer.status.token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))

    refused = run(tmp_path, path)
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"user 'system:serviceaccount:{kwait.namespace}:default' may not do" in refused.stderr
    assert "\n  create namespaces\n  delete namespaces\n" in refused.stderr

    kwait.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "runner"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        }
    )
    used = run(tmp_path, path, f"--kwait-namespace={kwait.namespace}")
    assert used.returncode == pytest.ExitCode.OK, used.stdout
    # What it may not look at is not awaited before its tests.
    skipped = "kwait: not awaited before the first test, as forbidden: "
    for what in ("nodes: GET /api/v1/nodes: 403", "pods of kube-system: ", "daemon sets of kube-"):
        assert f"{skipped}{what}" in used.stdout
