"""Contents of volumes: visibility to pods, and lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.authentication.service_accounts import (
    InvalidToken,
    parse_unverified_claims,
)
from pytest_kwait.simulator.kubelet.volumes import get_persistent_folders
from tests.simulator.cluster import Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
NODES = ("kwait-node-1", "kwait-node-2")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(nodes=2)


def _add_claim(cluster: Cluster, name: str = "data", **spec: Any) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec}
    cluster.create(CLAIMS, name, spec)


def _says(cluster: Cluster, name: str, script: str, source: Obj, **mount: str) -> str:
    """Return the output of a pod that mounts a volume at `/v`."""
    container = {
        "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}],
        "env": [{"name": "POD", "value": name}],
    }
    node = source.pop("nodeName", None)
    fields: Obj = {"nodeName": node} if node else {}
    volumes = [{"name": "v", **source}]
    spec = pod_spec("sh", "-c", script, container=container, volumes=volumes, **fields)
    cluster.create("pods", name, {**spec, "restartPolicy": "Never"})
    cluster.run(20)
    pod = cluster.get("pods", name)
    assert pod["status"]["phase"] == "Succeeded", pod["status"]
    kubelet = cluster.api.kubelets[pod["spec"]["nodeName"]]
    text = b" ".join(line.rstrip() for _, line in kubelet.logs("t", name, "c")).decode()
    cluster.delete("pods", name)
    cluster.run(5)
    return text


def _of(claim: str = "data") -> Obj:
    return {"persistentVolumeClaim": {"claimName": claim}}


def test_files_of_a_claim_outlive_its_pods(cluster: Cluster) -> None:
    _add_claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of()) == ""
    assert _says(cluster, "b", "cat /v/f; echo two >> /v/f", _of()) == "one"
    assert _says(cluster, "c", "cat /v/f", _of()) == "one two"


def test_files_belong_to_the_volume_not_to_the_claims_name(cluster: Cluster) -> None:
    _add_claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f; cat /v/f", _of()) == "one"
    cluster.delete(CLAIMS, "data")
    cluster.run(20)
    assert cluster.api.list(VOLUMES) == []
    assert get_persistent_folders(cluster.api).folders() == []
    _add_claim(cluster)
    assert _says(cluster, "b", "ls /v; echo empty", _of()) == "empty"


_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def test_a_mounted_token_authenticates_its_pod(cluster: Cluster) -> None:
    spec = pod_spec("cat", _TOKEN)
    cluster.create("pods", "p", {**spec, "restartPolicy": "Never"})
    cluster.run(5)
    pod = cluster.get("pods", "p")
    kubelet = cluster.api.kubelets[pod["spec"]["nodeName"]]
    ((_, token),) = kubelet.logs("t", "p", "c")
    found = cluster.api.accounts.user_of(token.decode())
    assert found is not None
    user, audiences = found
    assert (user.name, audiences) == (
        "system:serviceaccount:t:default",
        ["https://kubernetes.default.svc"],
    )
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert user.extra["authentication.kubernetes.io/pod-uid"] == (pod["metadata"]["uid"],)
    assert user.extra["authentication.kubernetes.io/node-name"] == (pod["spec"]["nodeName"],)
    cluster.delete("pods", "p")
    cluster.run(200)
    with pytest.raises(InvalidToken, match="service account token has been invalidated"):
        cluster.api.accounts.user_of(token.decode())


def test_a_projected_token_has_its_audience(cluster: Cluster) -> None:
    token = {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 700}}
    text = _says(cluster, "p", "cat /v/t", {"projected": {"sources": [token]}})
    claims = parse_unverified_claims(text)
    assert claims is not None
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 700)


def test_a_token_of_a_missing_account_cannot_be_mounted(cluster: Cluster) -> None:
    cluster.api.create("serviceaccounts", {"metadata": {"name": "gone"}}, "t")
    spec = pod_spec("cat", _TOKEN, serviceAccountName="gone", schedulerName="none")
    cluster.create("pods", "p", spec)
    cluster.delete("serviceaccounts", "gone")
    cluster.api.bind("t", "p", NODES[0])
    cluster.run(2)
    volume = cluster.get("pods", "p")["spec"]["volumes"][0]["name"]
    message = (
        f'MountVolume.SetUp failed for volume "{volume}" : failed to fetch token: '
        'serviceaccounts "gone" not found'
    )
    assert message in [event["message"] for event in cluster.every("events")]


def test_a_retained_volume_keeps_its_files_for_the_next_claim(cluster: Cluster) -> None:
    hand: Obj = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hand",
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "files", "path": "/"},
    }
    cluster.api.create(VOLUMES, {"metadata": {"name": "v"}, "spec": hand})
    _add_claim(cluster, "first", storageClassName="hand")
    assert _says(cluster, "a", "echo one > /v/f", _of("first")) == ""
    cluster.delete(CLAIMS, "first")
    cluster.run(5)
    cluster.api.modify(VOLUMES, "v", "", lambda one: one["spec"].pop("claimRef"))
    _add_claim(cluster, "second", storageClassName="hand")
    assert _says(cluster, "b", "cat /v/f", _of("second")) == "one"


def test_mounts_of_one_host_path_share_files(cluster: Cluster) -> None:
    hand: Obj = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hand",
        "hostPath": {"path": "/srv/data"},
    }
    cluster.api.create(VOLUMES, {"metadata": {"name": "v"}, "spec": hand})
    _add_claim(cluster, storageClassName="hand")
    cluster.run(5)
    assert _says(cluster, "a", "echo one > /v/f", {**_of(), "nodeName": NODES[0]}) == ""
    whole = {"hostPath": {"path": "/srv"}}
    assert _says(cluster, "b", "cat /v/data/f", {**whole, "nodeName": NODES[0]}) == "one"
    assert _says(cluster, "c", "ls /v; echo none", {**whole, "nodeName": NODES[1]}) == "none"


def test_sub_path_expressions_use_variables(cluster: Cluster) -> None:
    _add_claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of(), subPathExpr="$(POD)/x") == ""
    assert _says(cluster, "b", "cat /v/x/f", _of(), subPath="a") == "one"
    assert _says(cluster, "c", "cat /v/a/x/f", _of()) == "one"


def test_a_sub_path_may_be_a_file(cluster: Cluster) -> None:
    _add_claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f; mkdir /v/d; echo x > /v/d/f", _of()) == ""
    assert _says(cluster, "b", "cat /v; echo two > /v", _of(), subPath="f") == "one"
    assert _says(cluster, "c", "cat /v", _of(), subPath="d/f") == "x"
    assert _says(cluster, "d", "cat /v/f", _of()) == "two"


def test_a_file_in_place_of_a_folder_is_kept(cluster: Cluster) -> None:
    _add_claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of()) == ""
    assert _says(cluster, "b", "ls /v; echo none", _of(), subPath="f/g") == "none"
    assert _says(cluster, "c", "cat /v/f", _of()) == "one"


def _host_path(path: str, kind: str = "") -> Obj:
    return {"hostPath": {"path": path, "type": kind}, "nodeName": NODES[0]}


def test_a_path_of_a_node_may_be_a_file(cluster: Cluster) -> None:
    script = "cat /v; echo more >> /v"
    assert _says(cluster, "a", script, _host_path("/data/file", "FileOrCreate")) == ""
    assert _says(cluster, "b", script, _host_path("/data/file", "FileOrCreate")) == "more"
    assert _says(cluster, "c", "cat /v", _host_path("/data/file", "File")) == "more more"
    assert _says(cluster, "d", "cat /v/file", _host_path("/data", "Directory")) == "more more"
    assert _says(cluster, "e", "head -n1 /v", _host_path("/etc/hosts", "File")) == (
        "127.0.0.1\tlocalhost"
    )


def test_a_container_that_mounts_its_hosts_file_has_the_nodes(cluster: Cluster) -> None:
    volume = _host_path("/etc/hosts", "File")
    script = "cat /etc/hosts"
    container = {"volumeMounts": [{"name": "v", "mountPath": "/etc/hosts"}]}
    spec = pod_spec("sh", "-c", script, container=container, volumes=[{"name": "v", **volume}])
    networked = pod_spec("sh", "-c", script, hostNetwork=True)
    for name, one in (("mounted", spec), ("networked", networked)):
        cluster.create("pods", name, {**one, "restartPolicy": "Never"})
    cluster.run(20)
    texts = []
    for name in ("mounted", "networked"):
        kubelet = cluster.api.kubelets[cluster.get("pods", name)["spec"]["nodeName"]]
        texts.append([line.decode().rstrip() for _, line in kubelet.logs("t", name, "c")])
    assert texts[0][0] == "127.0.0.1\tlocalhost"
    assert texts[1] == ["# Kubernetes-managed hosts file (host network).", *texts[0]]


@pytest.mark.parametrize("kind", ["File", "DirectoryOrCreate", "Socket"])
def test_a_path_of_another_type_is_not_mounted(cluster: Cluster, kind: str) -> None:
    path = "/etc/hosts" if kind != "File" else "/data"
    mounts = [{"name": "v", "mountPath": "/v"}]
    volumes = [{"name": "v", **_host_path(path, kind)}]
    spec = pod_spec("true", container={"volumeMounts": mounts}, volumes=volumes)
    cluster.create("pods", "p", spec)
    cluster.run(5)
    noun = {"File": "file", "DirectoryOrCreate": "directory", "Socket": "socket"}[kind]
    text = f"hostPath type check failed: {path} is not a {noun}"
    assert any(text in one for one in cluster.events("p"))
