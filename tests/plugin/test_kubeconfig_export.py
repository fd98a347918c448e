"""KUBECONFIG names the cluster of the run while tests are collected, and run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from kubernetes import config
from kubernetes.config import kube_config

from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.plugin.kubeconfig_export import KubeconfigExport
from tests.clusters.kubeconfigs import contents, written
from tests.plugin.given_cluster import given
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path

_CLUSTER = given("""
class Cluster(GivenCluster):
    provider = "embedded"
    has_log = False

    @classmethod
    def start(cls):
        if os.environ.get("FAKE_TROUBLE"):
            raise ClusterError(os.environ["FAKE_TROUBLE"])
        return cls()

    @classmethod
    def connect(cls, *_, **__):
        return cls()
""")
_READER = """
import os
import pytest

KUBECONFIG = os.environ["KUBECONFIG"]  # as clients read it

@pytest.mark.parametrize("x", range(2))
def test_it(x):
    assert KUBECONFIG == os.environ["KUBECONFIG"] == "/fake/kubeconfig"
"""


@pytest.fixture(autouse=True)
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set KUBECONFIG to a file of the user."""
    monkeypatch.setenv("KUBECONFIG", "/home/jane/.kube/config")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(_CLUSTER)
    pytester.makeini("[pytest]\nkwait_export_kubeconfig = true\n")
    pytester.makepyfile(test_it=_READER)
    return pytester


def test_modules_read_it_when_they_are_imported(suite: pytest.Pytester) -> None:
    result = suite.runpytest("--strict-markers")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines("kwait: export_kubeconfig=true (ini kwait_export_kubeconfig)")
    # It is used, so nothing says that it is not.
    assert "KUBECONFIG is set" not in result.stdout.str()
    assert os.environ["KUBECONFIG"] == "/home/jane/.kube/config"


def test_workers_of_xdist_read_it_too(suite: pytest.Pytester) -> None:
    suite.runpytest("-n2").assert_outcomes(passed=2)
    assert os.environ["KUBECONFIG"] == "/home/jane/.kube/config"


def test_tests_are_listed_with_it(suite: pytest.Pytester) -> None:
    result = suite.runpytest("--collect-only", "-q")
    assert "2 tests collected" in result.stdout.str()


def test_the_option_sets_it(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\n")
    suite.runpytest("--kwait-export-kubeconfig").assert_outcomes(passed=2)


def test_it_is_removed_where_there_was_none(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    suite.runpytest().assert_outcomes(passed=2)
    assert "KUBECONFIG" not in os.environ


def test_a_cluster_that_cannot_be_started_ends_the_run(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TROUBLE", "no room")
    result = suite.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("ERROR: no room")


def test_a_fixture_of_a_conftest_has_its_cluster_too_late(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kwait_cluster():
            raise AssertionError
        """
    )
    result = suite.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "ERROR: export_kubeconfig=True (from ini kwait_export_kubeconfig) is not valid: the "
        f"cluster of the fixture kwait_cluster in {suite.path}/conftest.py is made with the first "
        "test; set KUBECONFIG there"
    ) in result.stderr.str()


def test_a_given_context_is_the_current_one_of_a_copy(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.kubeconfig = written(tmp_path / "config", contents("ours", "other"))
    cluster.context = "other"
    before = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    export = KubeconfigExport(cluster)  # type: ignore[arg-type] # what is used of a cluster

    copy = os.environ["KUBECONFIG"]
    # The client has read the environment when it was imported.
    assert copy == config.KUBE_CONFIG_DEFAULT_LOCATION
    assert copy == kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    assert read_kubeconfig(tmp_path / copy).target().context == "other"
    export.end()
    assert before == kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    assert not (tmp_path / copy).exists()
    assert os.environ["KUBECONFIG"] == "/home/jane/.kube/config"
