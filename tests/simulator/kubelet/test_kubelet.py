from __future__ import annotations

from typing import Any

from pytest_kwait.simulator.protocol.nodes import EmbeddedNode, Taint
from tests.simulator.cluster import Cluster, conditions, pod_spec, set_spec

GPU = EmbeddedNode(
    "gpu",
    {"pool": "gpu", "kubernetes.io/arch": "arm64"},
    (Taint("gpu", "true", "NoSchedule"),),
    {"cpu": "2", "nvidia.com/gpu": "1"},
    {"cpu": "1500m"},
)
TOLERATION = {"key": "gpu", "operator": "Exists"}


def requesting(name: str, amount: str, **fields: Any) -> dict[str, Any]:
    resources = {"requests": {name: amount}, "limits": {name: amount}}
    spec: dict[str, Any] = pod_spec("sleep", "99", container={"resources": resources}, **fields)
    return spec


def message(cluster: Cluster, pod: str) -> str:
    (found,) = cluster.get("pods", pod)["status"]["conditions"]
    text: str = found["message"]
    return text


def test_the_node_of_a_table() -> None:
    cluster = Cluster(nodes=(GPU, EmbeddedNode("plain")))
    node = cluster.api.get("nodes", "gpu")
    assert node["metadata"]["labels"] == {
        "beta.kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": "gpu",
        "kubernetes.io/os": "linux",
        "pool": "gpu",
    }
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    status = node["status"]
    assert (status["nodeInfo"]["architecture"], conditions(node)["Ready"]) == (
        "arm64",
        "True KubeletReady",
    )
    amounts = {"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110", "nvidia.com/gpu": "1"}
    assert status["capacity"] == {
        **amounts, "cpu": "2", "memory": "31Gi", "ephemeral-storage": "100Gi",
    }  # fmt: skip
    assert status["allocatable"] == {
        **amounts, "cpu": "1500m", "memory": "31644Mi", "ephemeral-storage": "96636764160",
    }  # fmt: skip
    plain = cluster.api.get("nodes", "plain")
    assert ("taints" in plain["spec"], plain["status"]["capacity"]["cpu"]) == (False, "8")


def test_the_scheduler_respects_taints_and_capacity() -> None:
    cluster = Cluster(nodes=(GPU, EmbeddedNode("plain")))
    cluster.create("pods", "plain", pod_spec("sleep", "99"))
    cluster.create("pods", "gpu-1", requesting("nvidia.com/gpu", "1", tolerations=[TOLERATION]))
    cluster.run(5)
    cluster.create("pods", "gpu-2", requesting("nvidia.com/gpu", "1", tolerations=[TOLERATION]))
    cluster.create("pods", "refused", requesting("nvidia.com/gpu", "1"))
    cluster.create(
        "pods",
        "big",
        requesting("cpu", "1600m", tolerations=[TOLERATION], nodeSelector={"pool": "gpu"}),
    )
    cluster.run(5)
    assert cluster.get("pods", "plain")["spec"]["nodeName"] == "plain"
    assert cluster.get("pods", "gpu-1")["spec"]["nodeName"] == "gpu"
    assert message(cluster, "gpu-2").startswith(
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    )
    assert message(cluster, "refused").startswith(
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated "
        "taint(s)."
    )
    assert message(cluster, "big").startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node "
        "affinity/selector."
    )


def test_a_daemon_set_runs_where_its_pods_tolerate_the_taints() -> None:
    cluster = Cluster(nodes=(GPU, EmbeddedNode("plain")))
    cluster.create("daemonsets.apps", "agent", set_spec())
    cluster.create(
        "daemonsets.apps",
        "driver",
        set_spec(pod={"tolerations": [TOLERATION], "nodeSelector": {"pool": "gpu"}}),
    )
    cluster.run(5)
    placed = {
        (pod["metadata"]["ownerReferences"][0]["name"], pod["spec"].get("nodeName"))
        for pod in cluster.every("pods")
    }
    assert placed == {("agent", "plain"), ("driver", "gpu")}


def test_no_pods_beyond_the_capacity_of_a_node() -> None:
    cluster = Cluster(nodes=(EmbeddedNode("small", capacity={"pods": "1"}),))
    cluster.create("pods", "a", pod_spec("sleep", "99"))
    cluster.run(5)
    cluster.create("pods", "b", pod_spec("sleep", "99"))
    cluster.run(5)
    assert message(cluster, "b").startswith("0/1 nodes are available: 1 Too many pods.")


def test_a_bound_pod_that_is_too_large_is_rejected_by_the_kubelet() -> None:
    cluster = Cluster(nodes=(GPU,))
    cluster.create("pods", "a", requesting("nvidia.com/gpu", "2", nodeName="gpu"))
    cluster.run(5)
    status = cluster.get("pods", "a")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfnvidia.com/gpu")
