"""Checks of containers of a cluster whose programs are plain processes."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.runtimes.processes.plain_checks import (
    find_missing_path,
    has_missed_token,
    is_port_taken,
)
from pytest_kwait.simulator.runtimes.processes.runtime import ContainerConfig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulator.cluster import Cluster

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN = {"name": "kube-api-access-abcde", "mountPath": _TOKEN_PATH, "readOnly": True}
_MAP = {"configMap": {"name": "a"}}
_VARIABLE = "CONTAINER_SANDBOX_MOUNT_POINT"


def make_config(*argv: str, workdir: str = "/", **env: str) -> ContainerConfig:
    return ContainerConfig(id="c-0", argv=argv or ("/srv/web",), env=env, workdir=workdir)


def make_pod(*mounts: dict[str, Any], account: str = "default", **volume: Any) -> dict[str, Any]:
    """Return a pod of one container, whose mounts are of one volume."""
    named = [{"name": "v", **mount} for mount in mounts]
    return {
        "metadata": {"name": "p", "namespace": "t"},
        "spec": {
            "serviceAccountName": account,
            "containers": [{"name": "c", "volumeMounts": named}],
            "volumes": [{"name": "v", **(volume or _MAP)}],
        },
    }


def find_reason(cluster: Cluster, pod: dict[str, Any], config: ContainerConfig) -> str:
    notice = find_missing_path(cluster.api, pod, "c", config)
    return "" if notice is None else notice.reason


@pytest.mark.parametrize(
    ("requested", "remedy"),
    [
        ("none", "leave out --kwait-isolation=none"),
        ("auto", "run where --kwait-isolation=intercepted works"),
    ],
)
def test_a_volume_that_is_not_at_its_path(cluster: Cluster, requested: Any, remedy: str) -> None:
    cluster.api.isolation = requested
    notice = find_missing_path(
        cluster.api, make_pod({"mountPath": "/etc/shop"}), "c", make_config()
    )
    assert notice == (
        "Warning",
        "VolumeNotMounted",
        'Volume "v" is not at /etc/shop: without namespaces mounts are links below '
        f"$CONTAINER_SANDBOX_MOUNT_POINT; read it there and name that variable in env, or {remedy}",
    )


@pytest.mark.parametrize(
    ("volume", "mount", "is_refused"),
    [
        ({"emptyDir": {}}, {"mountPath": "{}"}, False),
        ({"hostPath": {"path": "/x"}}, {"mountPath": "{}/"}, False),
        ({"hostPath": {"path": "/x"}}, {"mountPath": "{}/file", "readOnly": True}, False),
        ({"emptyDir": {}}, {"mountPath": "{}/missing"}, True),
        # Another file of that path would be read in its place.
        (_MAP, {"mountPath": "{}"}, True),
        ({"persistentVolumeClaim": {"claimName": "d"}}, {"mountPath": "{}"}, True),
        ({"secret": {"secretName": "s"}}, {"mountPath": _TOKEN_PATH}, True),
    ],
)
def test_folders_of_the_machine_stand_in_for_empty_ones(
    cluster: Cluster,
    tmp_path: Path,
    volume: dict[str, Any],
    mount: dict[str, Any],
    is_refused: bool,
) -> None:
    (tmp_path / "file").touch()
    placed = {**mount, "mountPath": mount["mountPath"].format(tmp_path)}
    found = find_reason(cluster, make_pod(placed, **volume), make_config())
    assert found == ("VolumeNotMounted" if is_refused else "")


@pytest.mark.parametrize(
    ("workdir", "is_refused"),
    [("/nowhere/", False), ("/nowhere/in", False), ("/nowhere2", True), ("/", True)],
)
def test_a_program_starts_in_the_folder_of_its_volume(
    cluster: Cluster, workdir: str, is_refused: bool
) -> None:
    pod = make_pod({"mountPath": "/nowhere"})
    found = find_reason(cluster, pod, make_config(workdir=workdir))
    assert found == ("VolumeNotMounted" if is_refused else "")


@pytest.mark.parametrize(
    "config",
    [
        make_config("sh", "-c", f"cat ${_VARIABLE}/etc/shop/k"),
        make_config(**{_VARIABLE: ""}),
        make_config(CONFIG=f"${_VARIABLE}/etc/shop"),
    ],
)
def test_a_program_that_names_the_variable_is_not_refused(
    cluster: Cluster, config: ContainerConfig
) -> None:
    assert find_reason(cluster, make_pod({"mountPath": "/etc/shop"}), config) == ""


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("web", ["{}/web"]),
        ("web", ["web"]),
        ("web.py", [sys.executable, "web.py"]),
        ("web.py", [sys.executable, "-m", "web"]),
        ("web/__main__.py", [sys.executable, "-m", "web"]),
        ("lib/shop/web.py", [sys.executable, "-m", "shop.web"]),
    ],
)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_program_whose_own_file_has_the_variable_is_not_refused(
    cluster: Cluster, tmp_path: Path, file: str, command: list[str], is_read: bool
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"os.environ['{_VARIABLE if is_read else 'HOME'}']")
    path.chmod(0o755)
    (tmp_path / "empty").touch()
    argv = [*(word.format(tmp_path) for word in command), "empty", "no-such-file", "a\0b"]
    config = make_config(
        *argv, workdir=str(tmp_path), PATH=str(tmp_path), PYTHONPATH=f"/x:{tmp_path}/lib"
    )
    found = find_reason(cluster, make_pod({"mountPath": "/etc/shop"}), config)
    assert found == ("" if is_read else "VolumeNotMounted")


def _bind(cluster: Cluster, home: str, **subject: str) -> None:
    binding: dict[str, Any] = {
        "metadata": {"name": "shop"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "shop", **subject}],
    }  # fmt: skip
    kind = "rolebindings" if home else "clusterrolebindings"
    cluster.api.create(f"{kind}.rbac.authorization.k8s.io", binding, home)


def test_in_cluster_configuration_of_an_account_with_rights(cluster: Cluster) -> None:
    cluster.api.isolation = "none"
    _bind(cluster, "", namespace="t")
    notice = find_missing_path(cluster.api, make_pod(_TOKEN, account="shop"), "c", make_config())
    assert notice == (
        "Warning",
        "NoInClusterConfig",
        "In-cluster configuration is not at /var/run/secrets/kubernetes.io/serviceaccount: without "
        "namespaces mounts are links below $CONTAINER_SANDBOX_MOUNT_POINT; give the program a "
        "kubeconfig by KUBECONFIG in env, or leave out --kwait-isolation=none",
    )


@pytest.mark.parametrize(
    ("home", "subject", "pod", "env", "is_refused"),
    [
        ("t", {"namespace": "t"}, make_pod(_TOKEN, account="shop"), {}, True),
        # Rights of a group, and those of other accounts, are no sign.
        ("t", {"namespace": "other"}, make_pod(_TOKEN, account="shop"), {}, False),
        ("t", {"namespace": "t"}, make_pod(_TOKEN, account="default"), {}, False),
        ("t", {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io"},
         make_pod(_TOKEN, account="shop"), {}, False),
        # Without a token, and with another configuration.
        ("t", {"namespace": "t"}, make_pod(account="shop"), {}, False),
        ("t", {"namespace": "t"}, make_pod(_TOKEN, account="shop"), {"KUBECONFIG": "/k"}, False),
        ("t", {"namespace": "t"}, make_pod(_TOKEN, account="shop"), {_VARIABLE: ""}, False),
    ],
)  # fmt: skip
def test_an_account_with_rights_is_a_sign_of_in_cluster_configuration(
    cluster: Cluster,
    home: str,
    subject: dict[str, str],
    pod: dict[str, Any],
    env: dict[str, str],
    is_refused: bool,
) -> None:
    _bind(cluster, home, **subject)
    found = find_reason(cluster, pod, make_config(**env))
    assert found == ("NoInClusterConfig" if is_refused else "")


@pytest.mark.parametrize(
    ("log", "is_missed"),
    [
        (b"open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file", True),
        (b"kubernetes.config.config_exception.ConfigException: Service token file does not", True),
        (b"LoginError: Cannot authenticate the client library neither in-cluster, nor via", True),
        (b"out of stock", False),
    ],
)
def test_the_log_says_that_there_is_no_in_cluster_configuration(
    log: bytes, is_missed: bool
) -> None:
    config = make_config()
    assert has_missed_token(make_pod(_TOKEN), "c", config, log) is is_missed
    assert not has_missed_token(make_pod(), "c", config, log)
    assert not has_missed_token(make_pod(_TOKEN), "c", make_config(KUBECONFIG="/k"), log)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_port_that_is_shared_is_not_taken(is_shared: bool) -> None:
    with socket.socket() as held:
        if is_shared:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("", 0))
        held.listen()
        assert is_port_taken(held.getsockname()[1], "TCP") is not is_shared
