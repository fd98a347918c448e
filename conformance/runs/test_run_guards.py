"""Guards: a run refuses contexts and identities before it creates anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run
from e2e.service_accounts import bind, user_name

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait


UNSEEN = """\
  list, watch nodes: not awaited before the first test
  list, watch pods in kube-system: not awaited before the first test
  list, watch replicationcontrollers in kube-system: not awaited before the first test
  list, watch replicasets.apps in kube-system: not awaited before the first test
  list, watch daemonsets.apps in kube-system: not awaited before the first test
"""
LACKING = f"""
  create, delete namespaces
  get, list, watch serviceaccounts in every namespace
  get, list, watch configmaps in every namespace
and what runs go on without:
  create, delete, get, list, patch, update, watch leases.coordination.k8s.io in default: what it \
leaves if it is killed stays until it expires, and no serial test is run
  list namespaces: what dead runs have left stays, and nothing bounds how many namespaces there \
are at a time
  list pods in every namespace: failures are told without them
  list events in every namespace: failures are told without them
  get pods/log in every namespace: failures are told without them
{UNSEEN}grant it that; or give --kwait-namespace NAME: """
SUITE = "def test_it(kwait): pass\n"


def test_a_context_that_is_not_allowed(kwait_cluster: Cluster, tmp_path: Path) -> None:
    option = "--kwait-allowed-contexts=staging,kind-*"
    status, output = run(tmp_path, kwait_cluster.kubeconfig, SUITE, option)

    assert status == pytest.ExitCode.USAGE_ERROR
    assert (
        "is not valid: tests may run on staging, kind-* (allowed_contexts from option "
        "--kwait-allowed-contexts) and on the embedded cluster"
    ) in output


def test_an_identity_that_may_not_make_namespaces(kwait: Kwait, tmp_path: Path) -> None:
    """A service account has no rights by default; a given namespace must be readable."""
    path = kwait.kubeconfig_for("default")

    status, output = run(tmp_path, path, SUITE)
    assert status == pytest.ExitCode.USAGE_ERROR, output
    assert f"user '{user_name(kwait)}' may not do" in output
    assert LACKING in output

    bind(kwait, "admin")
    status, output = run(tmp_path, path, SUITE, f"--kwait-namespace={kwait.namespace}")
    assert status == pytest.ExitCode.OK, output
    lost = "  list namespaces: what dead runs have left stays\n"
    assert f" what runs go on without:\n{lost}{UNSEEN}" in output, output
    # Forbidden kinds are not awaited before the tests.
    skipped = "kwait: not awaited before the first test, as forbidden: "
    for what in ("nodes: GET /api/v1/nodes: 403", "pods of kube-system: ", "daemon sets of kube-"):
        assert f"{skipped}{what}" in output
