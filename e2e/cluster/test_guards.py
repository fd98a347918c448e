"""What a run is kept from, and told that it could not do: before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.inner_runs import run
from e2e.service_accounts import bind, kubeconfig_of_default, user_name

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Bench
    from pytest_kwait.clusters.provider import Cluster


SUITE = "def test_it(kwait): pass\n"


def test_a_context_that_is_not_allowed(kwait_cluster: Cluster, tmp_path: Path) -> None:
    option = "--kwait-allowed-contexts=staging,kind-*"
    status, said = run(tmp_path, kwait_cluster.kubeconfig, SUITE, option)

    assert status == pytest.ExitCode.USAGE_ERROR
    assert (
        "is not valid: tests may run on staging, kind-* (allowed_contexts from option "
        "--kwait-allowed-contexts) and on the embedded cluster"
    ) in said


def test_an_identity_that_may_not_make_namespaces(kwait: Bench, tmp_path: Path) -> None:
    """A service account may do nothing by itself; a namespace that is given must be readable."""
    path = kubeconfig_of_default(kwait, tmp_path)

    status, said = run(tmp_path, path, SUITE)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"user '{user_name(kwait)}' may not do" in said
    assert "\n  create namespaces\n  delete namespaces\n" in said

    bind(kwait, "admin")
    status, said = run(tmp_path, path, SUITE, f"--kwait-namespace={kwait.namespace}")
    assert status == pytest.ExitCode.OK, said
    # What it may not look at is not awaited before its tests.
    skipped = "kwait: not awaited before the first test, as forbidden: "
    for what in ("nodes: GET /api/v1/nodes: 403", "pods of kube-system: ", "daemon sets of kube-"):
        assert f"{skipped}{what}" in said
