from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.scheduler.command.config_errors import CommandError
from pytest_kwait.scheduler.command.program import (
    make_in_cluster_client,
    make_kubeconfig_client,
    make_scheduler_client,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _outside_of_any_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_MASTER", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "b",
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443"}} for name in "ab"
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in "ab"],
    }
    file.write_text(json.dumps(content))
    return str(file)


def test_kubeconfig_current_context_is_used(kubeconfig: str) -> None:
    configuration: Any = make_scheduler_client(kubeconfig, "").configuration
    assert configuration.host == "https://b.example:6443"
    assert configuration.api_key["BearerToken"] == "Bearer secret"
    assert configuration.proxy == "http://proxy.example:3128"


def test_master_overrides_kubeconfig(kubeconfig: str) -> None:
    configuration: Any = make_scheduler_client(kubeconfig, "https://127.0.0.1:7/").configuration
    assert configuration.host == "https://127.0.0.1:7"
    assert configuration.api_key["BearerToken"] == "Bearer secret"
    assert configuration.proxy is None, "no proxy leads back to this machine"


def test_master_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_scheduler_client("", "10.0.0.1:8080").configuration.host == "http://10.0.0.1:8080"
    monkeypatch.setenv("KUBERNETES_MASTER", "https://other.example")
    assert make_scheduler_client("", "").configuration.host == "https://other.example"
    assert make_scheduler_client("", "one.example").configuration.host == "http://one.example"


@pytest.mark.parametrize("master", ["unix:///x", "https://", "//"])
def test_invalid_master_address_is_refused(master: str) -> None:
    with pytest.raises(CommandError) as caught:
        make_scheduler_client("", master)
    assert str(caught.value) == f"host must be a URL or a host:port pair: {master!r}"


def test_missing_server_address_is_refused() -> None:
    assert make_in_cluster_client() is None
    with pytest.raises(CommandError) as caught:
        make_scheduler_client("", "")
    assert str(caught.value) == (
        "invalid configuration: no configuration has been provided,"
        " try setting KUBERNETES_MASTER environment variable"
    )


@pytest.mark.usefixtures("kubeconfig")
def test_kubeconfig_without_its_context_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text((tmp_path / "kubeconfig").read_text().replace('"b"', '"c"', 1))
    with pytest.raises(CommandError) as caught:
        make_kubeconfig_client(str(broken))
    assert str(caught.value) == (
        f"error loading config file {broken}: Invalid kube-config file."
        f" Expected object with name c in {broken}/contexts list"
    )
