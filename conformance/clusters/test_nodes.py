"""Runs on embedded clusters with nodes of a table and of a kind configuration."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import finish, run, start

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """
name=gpu count=2 labels=pool=gpu taints=gpu=true:NoSchedule capacity=cpu=4,nvidia.com/gpu=1
name=plain capacity=pods=20
"""

OF_TABLE = """
import pytest
from pytest_kwait import WaitFailed

TOLERATIONS = [{"key": "gpu", "operator": "Exists"}]

def pod(name, gpus=0, **spec):
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "c", "image": "busybox:1.36", "command": ["sleep", "99"],
                 "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}

def test_nodes(kwait):
    assert kwait.cluster.nodes == ("gpu-1", "gpu-2", "plain")
    node = kwait.get("node/gpu-2")
    assert node["metadata"]["labels"]["pool"] == "gpu"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-2"
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    for field in ("capacity", "allocatable"):
        amounts = node["status"][field]
        assert (amounts["cpu"], amounts["nvidia.com/gpu"], amounts["pods"]) == ("4", "1", "110")
    assert kwait.get("node/plain")["status"]["allocatable"]["pods"] == "20"

@pytest.mark.kwait(grace="1s")
def test_scheduling(kwait):
    kwait.create(pod("a", 1, tolerations=TOLERATIONS), pod("b", 1, tolerations=TOLERATIONS),
                 pod("c"))
    placed = {name: kwait.wait_for_pod_running(name)["spec"]["nodeName"] for name in "abc"}
    assert sorted(placed.values()) == ["gpu-1", "gpu-2", "plain"]
    assert placed["c"] == "plain"
    kwait.create(pod("d", 1, tolerations=TOLERATIONS))
    with pytest.raises(WaitFailed, match="3 Insufficient nvidia.com/gpu"):
        kwait.wait_for_pod_running("d")

def test_daemon_set(kwait):
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod("x")["spec"]}
    kwait.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
                  "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}})
    kwait.wait_for("daemonset/agent", "jsonpath={.status.numberReady}=1")
"""

KIND = """
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: shop
nodes:
- role: control-plane
  extraPortMappings: [{containerPort: 80, hostPort: 8080}]
- role: worker
  labels: {tier: front}
- role: worker
  kubeadmConfigPatches:
  - |
    kind: JoinConfiguration
    nodeRegistration:
      kubeletExtraArgs:
        register-with-taints: "batch=true:NoSchedule"
        system-reserved: "memory=30Gi"
"""

OF_KIND = """
def test_nodes(kwait):
    assert kwait.cluster.nodes == ("shop-control-plane", "shop-worker", "shop-worker2")
    taints = {node["metadata"]["name"]: [t["key"] for t in node["spec"].get("taints", ())]
              for node in kwait.list("nodes")}
    assert taints == {"shop-control-plane": ["node-role.kubernetes.io/control-plane"],
                      "shop-worker": [], "shop-worker2": ["batch"]}
    assert kwait.get("node/shop-worker")["metadata"]["labels"]["tier"] == "front"
    assert kwait.get("node/shop-worker2")["status"]["allocatable"]["memory"] == "924Mi"

def test_pod(kwait):
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "busybox:1.36", "command": ["true"]}],
        "restartPolicy": "Never"}})
    assert kwait.wait_for_pod_success("p")["spec"]["nodeName"] == "shop-worker"
"""

TAINTS = "node-role.kubernetes.io/control-plane,batch"
"""The taints that the first test on an existing cluster does not wait for."""

CLI = "import sys; from pytest_kwait.cli import main; sys.exit(main())"


def test_a_suite_has_the_nodes_of_its_table(tmp_path: Path) -> None:
    status, shown = run(tmp_path, None, OF_TABLE, "-v", "-n2", f"--kwait-nodes={TABLE}")
    assert status == 0, shown
    assert "kwait: nodes gpu-1, gpu-2, plain\n" in shown


def test_a_suite_has_the_nodes_of_a_kind_configuration(tmp_path: Path) -> None:
    (tmp_path / "kind.yaml").write_text(KIND)
    status, shown = run(tmp_path, None, OF_KIND, "-v", "--kwait-nodes=kind.yaml")
    assert status == 0, shown
    assert (
        "kwait: nodes shop-control-plane, shop-worker, shop-worker2\n"
        "kwait: kind.yaml: the embedded cluster does not use extraPortMappings of nodes\n"
    ) in shown


def test_kwait_up_has_the_nodes_of_a_kind_configuration(tmp_path: Path) -> None:
    (tmp_path / "kind.yaml").write_text(KIND)
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-P", "-c", CLI]
    where = ["--kubeconfig", str(kubeconfig)]
    up = [*command, "up", "--detach", "--nodes=kind.yaml", *where]
    # A process of its own: a fork would wait for the end of what it has started.
    subprocess.run(up, check=True, timeout=120, cwd=tmp_path)
    try:
        taints = f"--kwait-non-blocking-taints={TAINTS}"
        status, shown = run(tmp_path, kubeconfig, OF_KIND, taints)
        assert status == 0, shown
    finally:
        status, said = finish(start([*command, "down", *where], tmp_path))
        assert status == 0, said
