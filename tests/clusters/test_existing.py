from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clusters.cluster import Cluster, ClusterRequest
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.clusters.provider import ExistingCluster, ExistingProvider
from pytest_kwait.errors import ApiError, ClusterError
from tests.clusters.kubeconfigs import contents, written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture(autouse=True)
def let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "check", lambda _self: None)


def found(
    tmp_path: Path, environ: Mapping[str, str], context: str | None = None
) -> ExistingCluster:
    """The cluster that the standard loading rules lead to."""
    return ExistingProvider(
        ClusterRequest(context=context),
        environ=environ,
        home=tmp_path,
        service_account=tmp_path / "service-account",
    ).start()


def test_home_is_the_default(tmp_path: Path) -> None:
    file = written(tmp_path / ".kube/config", contents("home"))
    cluster = found(tmp_path, {})
    assert (cluster.kubeconfig, cluster.server) == (file, "https://home.example:6443")
    cluster.stop()
    assert file.exists()


def test_the_environment_wins_over_home(tmp_path: Path) -> None:
    written(tmp_path / ".kube/config", contents("home"))
    file = written(tmp_path / "other", contents("other"))
    assert found(tmp_path, {"KUBECONFIG": str(file)}).kubeconfig == file


def test_files_of_the_list_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    file = written(tmp_path / "b", contents("b"))
    empty = written(tmp_path / "empty", "")
    environ = {"KUBECONFIG": f"{tmp_path / 'a'}:{empty}:{file}"}
    assert found(tmp_path, environ).kubeconfig == file


def test_several_files_are_merged_into_one_of_our_own(tmp_path: Path) -> None:
    one = written(tmp_path / "one", contents("one"))
    two = written(tmp_path / "two", contents("two"))
    cluster = found(tmp_path, {"KUBECONFIG": f"{one}:{two}"}, context="two")
    assert cluster.server == "https://two.example:6443"
    merged = cluster.kubeconfig
    assert merged not in {one, two}
    assert read_kubeconfig(merged).contexts == ("one", "two")
    assert merged.parent.stat().st_mode & 0o077 == 0, "there are secrets in it"
    cluster.stop()
    assert not merged.parent.exists()
    cluster.stop()


def test_a_merged_file_is_gone_with_its_cluster(tmp_path: Path) -> None:
    one = written(tmp_path / "one", contents("one"))
    two = written(tmp_path / "two", contents("two"))
    merged = found(tmp_path, {"KUBECONFIG": f"{one}:{two}"}).kubeconfig
    gc.collect()
    assert not merged.exists()


def test_a_broken_file_of_the_list_is_named_with_its_source(tmp_path: Path) -> None:
    broken = written(tmp_path / "broken", "[")
    with pytest.raises(ClusterError) as caught:
        found(tmp_path, {"KUBECONFIG": str(broken)})
    assert str(caught.value) == (
        f"kubeconfig {broken} (from env KUBECONFIG) is not YAML: "
        "expected the node content, but found '<stream end>' in line 1"
    )


def test_in_a_pod_its_service_account_is_used(tmp_path: Path) -> None:
    written(tmp_path / "service-account/token", "secret")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    cluster = found(tmp_path, environ)
    assert cluster.server == "https://10.0.0.1:443"
    assert read_kubeconfig(cluster.kubeconfig).contexts == ("in-cluster",)
    token = cluster.client().configuration.get_api_key_with_prefix("BearerToken")
    assert token == "Bearer secret"
    cluster.stop()


@pytest.mark.parametrize(
    ("environ", "looked"),
    [
        ({}, "{home}/.kube/config (the standard place)"),
        ({"KUBECONFIG": "/no/a:/no/b"}, "/no/a, /no/b (env KUBECONFIG)"),
    ],
)
def test_missing_kubeconfig_error_lists_searched_paths(
    tmp_path: Path, environ: dict[str, str], looked: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        found(tmp_path, environ)
    assert str(caught.value) == (
        f"there is no kubeconfig: {looked.format(home=tmp_path)} is not there or empty, and this "
        "is no pod; give one with --kwait-kubeconfig, or run on the embedded cluster by leaving "
        "out --kwait-cluster=existing"
    )


def test_missing_kubeconfig_error_of_commands_names_their_option(tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        ExistingProvider(
            ClusterRequest(sources={"kubeconfig": "option --kubeconfig"}),
            environ={},
            home=tmp_path,
            service_account=tmp_path / "service-account",
        )
    assert str(caught.value) == (
        f"there is no kubeconfig: {tmp_path}/.kube/config (the standard place) is not there or "
        "empty, and this is no pod; give one with --kubeconfig"
    )


def test_rejected_credentials_fail_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Cluster) -> None:
        raise ClusterError("no") from ApiError("Unauthorized", status=401)

    monkeypatch.setattr(Cluster, "check", refuse)
    file = written(tmp_path / "config", contents("a"))
    provider = ExistingProvider(ClusterRequest(kubeconfig=file))
    with pytest.raises(ClusterError, match=r"^no$"):
        provider.start()
