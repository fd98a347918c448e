"""Markers that skip tests by what the cluster has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import pytest

mark = pytest.mark


@mark.kwait_skip_unless_server_version_gte("1.20")
@mark.kwait_skip_unless_node_count_is_at_least(1)
@mark.kwait_skip_unless_provider_is("existing", "embedded")
@mark.kwait_skip_if_provider_is("kind")
@mark.kwait_skip_if_missing_resource("pods", "deployments.apps")
def test_runs(kwait):
    pass


@mark.kwait_skip_unless_server_version_gte("9.1")
def test_version():
    raise AssertionError


@mark.kwait_skip_unless_node_count_is_at_least(999)
def test_nodes(kwait):
    raise AssertionError


@mark.kwait_skip_unless_provider_is("kind", "k3d")
def test_provider():
    raise AssertionError


@mark.kwait_skip_if_provider_is("existing")
def test_other_provider():
    raise AssertionError


@mark.kwait_skip_if_missing_resource("pods", "unicorns.example.com")
def test_resource():
    raise AssertionError


@mark.kwait_skip_unless_feature_gate_enabled("NoSuchGate")
def test_gate():
    raise AssertionError
"""


def test_skips_and_reasons(kwait_cluster: Any, tmp_path: Path) -> None:
    status, output = run(tmp_path, kwait_cluster.kubeconfig, SUITE, "-rs")

    assert status == 0, output
    assert "1 passed, 6 skipped" in output
    # Other tests may add nodes to a shared cluster meanwhile.
    output = re.sub(r"\(not [1-9]\d*\)$", "(not N)", output, flags=re.MULTILINE)
    for reason in (
        f"Not supported for server versions before 9.1 (found {kwait_cluster.version})",
        "Requires at least 999 nodes (not N)",
        "Only supported for providers kind, k3d (not existing)",
        "Not supported for providers existing (found existing)",
        "Could not find unicorns.example.com resource",
        "Feature gate NoSuchGate is not enabled",
    ):
        assert f": {reason}\n" in output
