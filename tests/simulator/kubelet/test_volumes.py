"""Contents of volumes: visibility to pods, and lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.kubelet.volumes import get_persistent_folders
from tests.simulator.controllers.cluster import Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
NODES = ("kwait-node-1", "kwait-node-2")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(nodes=2)


def _claim(cluster: Cluster, name: str = "data", **spec: Any) -> None:
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
    text = b" ".join(line for _, line in kubelet.logs("t", name, "c")).decode()
    cluster.delete("pods", name)
    cluster.run(5)
    return text


def _of(claim: str = "data") -> Obj:
    return {"persistentVolumeClaim": {"claimName": claim}}


def test_files_of_a_claim_outlive_its_pods(cluster: Cluster) -> None:
    _claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of()) == ""
    assert _says(cluster, "b", "cat /v/f; echo two >> /v/f", _of()) == "one"
    assert _says(cluster, "c", "cat /v/f", _of()) == "one two"


def test_files_belong_to_the_volume_not_to_the_claims_name(cluster: Cluster) -> None:
    _claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f; cat /v/f", _of()) == "one"
    cluster.delete(CLAIMS, "data")
    cluster.run(20)
    assert cluster.api.list(VOLUMES) == []
    assert get_persistent_folders(cluster.api).folders() == []
    _claim(cluster)
    assert _says(cluster, "b", "ls /v; echo empty", _of()) == "empty"


def test_a_retained_volume_keeps_its_files_for_the_next_claim(cluster: Cluster) -> None:
    hand: Obj = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hand",
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "files", "path": "/"},
    }
    cluster.api.create(VOLUMES, {"metadata": {"name": "v"}, "spec": hand})
    _claim(cluster, "first", storageClassName="hand")
    assert _says(cluster, "a", "echo one > /v/f", _of("first")) == ""
    cluster.delete(CLAIMS, "first")
    cluster.run(5)
    cluster.api.modify(VOLUMES, "v", "", lambda one: one["spec"].pop("claimRef"))
    _claim(cluster, "second", storageClassName="hand")
    assert _says(cluster, "b", "cat /v/f", _of("second")) == "one"


def test_mounts_of_one_host_path_share_files(cluster: Cluster) -> None:
    hand: Obj = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hand",
        "hostPath": {"path": "/srv/data"},
    }
    cluster.api.create(VOLUMES, {"metadata": {"name": "v"}, "spec": hand})
    _claim(cluster, storageClassName="hand")
    cluster.run(5)
    assert _says(cluster, "a", "echo one > /v/f", {**_of(), "nodeName": NODES[0]}) == ""
    whole = {"hostPath": {"path": "/srv"}}
    assert _says(cluster, "b", "cat /v/data/f", {**whole, "nodeName": NODES[0]}) == "one"
    assert _says(cluster, "c", "ls /v; echo none", {**whole, "nodeName": NODES[1]}) == "none"


def test_sub_path_expressions_use_variables(cluster: Cluster) -> None:
    _claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of(), subPathExpr="$(POD)/x") == ""
    assert _says(cluster, "b", "cat /v/x/f", _of(), subPath="a") == "one"
    assert _says(cluster, "c", "cat /v/a/x/f", _of()) == "one"


def test_a_sub_path_may_be_a_file(cluster: Cluster) -> None:
    _claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f; mkdir /v/d; echo x > /v/d/f", _of()) == ""
    assert _says(cluster, "b", "cat /v; echo two > /v", _of(), subPath="f") == "one"
    assert _says(cluster, "c", "cat /v", _of(), subPath="d/f") == "x"
    assert _says(cluster, "d", "cat /v/f", _of()) == "two"


def test_a_file_in_place_of_a_folder_is_kept(cluster: Cluster) -> None:
    _claim(cluster)
    assert _says(cluster, "a", "echo one > /v/f", _of()) == ""
    assert _says(cluster, "b", "ls /v; echo none", _of(), subPath="f/g") == "none"
    assert _says(cluster, "c", "cat /v/f", _of()) == "one"
