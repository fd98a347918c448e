"""The objects of an API server alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.components import start_components, start_server_components
from pytest_kwait.simulator.server_main import main
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]


@pytest.fixture
def api() -> SimulatedCluster:
    """An API server alone."""
    return _start_alone()


def _start_alone() -> SimulatedCluster:
    made = SimulatedCluster(ManualClock(), disabled_plugins=["ServiceAccount"])
    made.root_ca = "CERTIFICATE"
    made.bootstrap(has_controllers=False)
    start_server_components(made)
    assert isinstance(made.clock, ManualClock)
    made.clock.advance(2)
    return made


def _names(api: SimulatedCluster, resource: str) -> list[str]:
    return [one["metadata"]["name"] for one in api.list(resource)]


def test_an_api_server_alone_has_its_own_objects(api: SimulatedCluster) -> None:
    assert _names(api, "namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert [_names(api, each) for each in ("nodes", "serviceaccounts", "pods")] == [[], [], []]
    assert _names(api, "storageclasses.storage.k8s.io") == []
    assert len(_names(api, "flowschemas.flowcontrol.apiserver.k8s.io")) == 11
    assert len(_names(api, "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io")) == 8
    assert "v1.apps" in _names(api, "apiservices.apiregistration.k8s.io")
    assert {one["metadata"]["name"]: one["data"] for one in api.list("configmaps")} == {
        "extension-apiserver-authentication": {
            "client-ca-file": "CERTIFICATE",
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-client-ca-file": api.front_proxy.authority,
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
        "kube-apiserver-legacy-service-account-token-tracking": {
            "since": api.clock.stamp().partition("T")[0]
        },
    }


def test_roles_are_aggregated_by_a_controller_only(api: SimulatedCluster) -> None:
    assert api.get("clusterroles.rbac.authorization.k8s.io", "view")["rules"] is None
    whole = SimulatedCluster(ManualClock())
    whole.bootstrap()
    start_components(whole, nodes=0)
    assert whole.get("clusterroles.rbac.authorization.k8s.io", "view")["rules"]


def test_nothing_acts_on_objects_of_an_api_server_alone(api: SimulatedCluster) -> None:
    pod: Obj = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.create("pods", pod, "default")
    assert isinstance(api.clock, ManualClock)
    api.clock.advance(60)
    assert "nodeName" not in api.get("pods", "p", "default")["spec"]
    assert api.get("namespaces", "default")["status"] == {"phase": "Active"}


def test_the_api_servers_lease_is_renewed_and_created_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "vm")
    api = _start_alone()
    (lease,) = api.list("leases.coordination.k8s.io", "kube-system")
    name = lease["metadata"]["name"]
    # The name that a real server has on a machine of this name.
    assert name == "apiserver-wlv32tlttr4jl3gtroqexyxapa"
    assert lease["spec"]["holderIdentity"].startswith(f"{name}_")
    assert lease["spec"]["leaseDurationSeconds"] == 3600
    assert isinstance(api.clock, ManualClock)
    api.clock.advance(10)
    renewed = api.get("leases.coordination.k8s.io", name, "kube-system")
    assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]
    api.delete("leases.coordination.k8s.io", name, "kube-system")
    api.clock.advance(10)
    assert api.get("leases.coordination.k8s.io", name, "kube-system")["spec"]["holderIdentity"]


def test_the_cluster_ends_with_its_owner_and_takes_its_folder_along(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    owned, owner = os.pipe()
    readable, ready = os.pipe()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest_kwait.simulator",
            f"--kubeconfig={kubeconfig}",
            f"--ready-fd={ready}",
            f"--owner-fd={owned}",
            f"--owner-folder={folder}",
        ],
        pass_fds=(owned, ready),
    )
    os.close(owned)
    os.close(ready)
    try:
        with os.fdopen(readable) as file:
            assert file.readline().startswith("ready https://127.0.0.1:")
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        os.close(owner)
        assert process.wait(60) == 0
        assert not folder.exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": -1}, "nodes must not be negative"),
        ({"port": 70000}, "port must be between 0 and 65535"),
        ({"tls_cert_file": "x"}, "tls_cert_file and tls_private_key_file belong together"),
        ({"timing": "slow"}, "Invalid enum value 'slow' - at `$.timing`"),
        ({"nodes": "2"}, "Expected `int | array`, got `str` - at `$.nodes`"),
        ({"address": "here"}, "address: 'here' does not appear to be an IPv4 or IPv6 address"),
        ({"users": ["a="]}, "users: 'a=' is neither NAME nor NAME=GROUP,..."),
        ({"token_auth_file": "none"}, "token_auth_file: none: No such file or directory"),
    ],
)
def test_invalid_options_are_reported(
    options: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options"
    file.write_text(json.dumps(options))
    with pytest.raises(SystemExit) as ended:
        main(["--kubeconfig=x", f"--options-fd={os.open(file, os.O_RDONLY)}"])
    assert ended.value.code == 2
    error = f"python -m pytest_kwait.simulator: error: {message}"
    assert error in capsys.readouterr().err.splitlines()


def test_process_imports_no_costly_modules() -> None:
    check = (
        "import sys, pytest_kwait.simulator.server_main, pytest_kwait.simulator.server_main;"
        "print([name for name in ('kubernetes', 'pytest', 'yaml') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"
