"""Node faults: partition, stopped kubelet, pressure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.faults import FaultableNode
    from pytest_kwait.simulator.objects import Obj

NODE = "kwait-node-1"
LEASES = "leases.coordination.k8s.io"


@pytest.fixture
def node(cluster: Cluster) -> FaultableNode:
    return cluster.api.faults.nodes[NODE]


def _phase(pod: Obj) -> str:
    return str(pod["status"]["phase"])


def _condition(cluster: Cluster, kind: str) -> tuple[str, str]:
    conditions = cluster.api.get("nodes", NODE)["status"]["conditions"]
    (found,) = [one for one in conditions if one["type"] == kind]
    return found["status"], found["reason"]


def _renewed(cluster: Cluster) -> str:
    lease = cluster.api.get(LEASES, NODE, "kube-node-lease")
    return str(lease["spec"]["renewTime"])


@pytest.mark.parametrize("dead", [False, True])
def test_exits_on_a_partitioned_node_are_published_after_it_recovers(
    cluster: Cluster, node: FaultableNode, dead: bool
) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "10", restartPolicy="Never"))
    cluster.run(5)
    node.begin(dead=dead)
    before = _renewed(cluster)
    assert NODE not in cluster.api.kubelets
    cluster.run(30)
    assert (_phase(cluster.get("pods", "p")), _renewed(cluster)) == ("Running", before)
    node.end(dead=dead)
    assert NODE in cluster.api.kubelets
    assert _renewed(cluster) > before
    cluster.run(10)
    assert _phase(cluster.get("pods", "p")) == "Succeeded"


@pytest.mark.parametrize(("dead", "restarts"), [(False, 1), (True, 0)])
def test_containers_do_not_restart_while_the_kubelet_is_stopped(
    cluster: Cluster, node: FaultableNode, dead: bool, restarts: int
) -> None:
    cluster.create("pods", "p", pod_spec("sh", "-c", "sleep 10; exit 1"))
    cluster.run(5)
    node.begin(dead=dead)
    cluster.run(9)
    node.end(dead=dead)
    cluster.run(0.5)
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert status["restartCount"] == restarts


def test_a_restarted_kubelet_catches_up(cluster: Cluster, node: FaultableNode) -> None:
    cluster.create("pods", "gone", pod_spec("sleep", "1000"))
    cluster.create("pods", "going", pod_spec("sleep", "1000", terminationGracePeriodSeconds=1))
    cluster.run(5)
    node.begin(dead=False)
    cluster.delete("pods", "gone", grace=0)
    cluster.delete("pods", "going")
    cluster.create("pods", "new", pod_spec("sleep", "1000"))
    cluster.run(60)
    assert "deletionTimestamp" in cluster.get("pods", "going")["metadata"]
    assert _phase(cluster.get("pods", "new")) == "Pending"
    node.end(dead=False)
    cluster.run(20)
    assert cluster.find("pods", "going") is None
    assert _phase(cluster.get("pods", "new")) == "Running"


def test_a_foreign_status_is_reconciled(cluster: Cluster, node: FaultableNode) -> None:
    pod = cluster.create("pods", "p", pod_spec("sleep", "1000"))
    cluster.run(5)
    node.begin(dead=False)
    pod = cluster.get("pods", "p")
    told = [{**one, "status": "False"} for one in pod["status"]["conditions"]]
    cluster.api.update_status("pods", {**pod, "status": {**pod["status"], "conditions": told}})
    node.end(dead=False)
    cluster.run(5)
    seen = {one["type"]: one["status"] for one in cluster.get("pods", "p")["status"]["conditions"]}
    assert seen["Ready"] == seen["ContainersReady"] == "True"


def test_overlapping_outages_end_with_the_last(cluster: Cluster, node: FaultableNode) -> None:
    node.begin(dead=True)
    node.begin(dead=False)
    node.end(dead=True)
    assert NODE not in cluster.api.kubelets
    node.end(dead=False)
    assert NODE in cluster.api.kubelets


@pytest.mark.parametrize(
    ("what", "condition", "short", "enough", "resource"),
    [
        (
            "memory",
            "MemoryPressure",
            "KubeletHasInsufficientMemory",
            "KubeletHasSufficientMemory",
            "memory. Threshold quantity: 100Mi, available: 64Mi. Container c was using 256Ki, "
            "request is 0, has larger consumption of memory. ",
        ),
        (
            "disk",
            "DiskPressure",
            "KubeletHasDiskPressure",
            "KubeletHasNoDiskPressure",
            "ephemeral-storage. Threshold quantity: 10485760Ki, available: 6291456Ki. Container c "
            "was using 16Ki, request is 0, has larger consumption of ephemeral-storage. ",
        ),
    ],
)
def test_pressure_sets_a_condition_and_evicts_pods_one_by_one(
    cluster: Cluster,
    node: FaultableNode,
    what: str,
    condition: str,
    short: str,
    enough: str,
    resource: str,
) -> None:
    modest = {"resources": {"requests": {"memory": "1Mi", "ephemeral-storage": "1Mi"}}}
    cluster.create("pods", "asks", pod_spec("sleep", "1000", container=modest))
    cluster.create("pods", "takes", pod_spec("sleep", "1000"))
    cluster.run(5)
    node.start_pressure(what)
    cluster.run(9)
    assert _condition(cluster, condition) == ("True", short)
    status = cluster.get("pods", "takes")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == f"The node was low on resource: {resource}"
    assert f"Evicted x1: The node was low on resource: {resource}" in cluster.events("takes")
    assert conditions(cluster.get("pods", "takes"))["DisruptionTarget"] == (
        "True TerminationByKubelet"
    )
    assert f"EvictionThresholdMet x1: Attempting to reclaim {resource.partition('.')[0]}" in (
        cluster.events(NODE)
    )
    assert _phase(cluster.get("pods", "asks")) == "Running"
    node.end_pressure(what)
    cluster.run(30)
    assert _condition(cluster, condition) == ("False", enough)
    assert _phase(cluster.get("pods", "asks")) == "Running"


@pytest.mark.parametrize(
    ("short", "spec", "told"),
    [
        (["memory"], {}, "MemoryPressure"),
        (["disk"], {"requests": {"memory": "1Mi"}}, "DiskPressure"),
        (["disk", "memory"], {"requests": {"memory": "1Mi"}}, "DiskPressure MemoryPressure"),
        (["memory"], {"requests": {"memory": "1Mi"}}, ""),
        (["memory"], {"tolerations": ["memory-pressure"]}, ""),
        (["disk"], {"tolerations": ["disk-pressure"]}, "DiskPressure"),
        (["disk", "memory"], {"priorityClassName": "system-node-critical"}, ""),
    ],
)
def test_a_node_under_pressure_rejects_ordinary_pods(
    cluster: Cluster, node: FaultableNode, short: list[str], spec: Obj, told: str
) -> None:
    for what in short:
        node.start_pressure(what)
    cluster.run(1)
    fields: Obj = {
        "nodeName": NODE,
        "container": {"resources": {"requests": spec.pop("requests", {})}},
    }
    fields["tolerations"] = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists"}
        for name in spec.pop("tolerations", ())
    ]
    cluster.create("pods", "p", pod_spec("sleep", "1000", **fields, **spec))
    cluster.run(5)
    status = cluster.get("pods", "p")["status"]
    if not told:
        assert status["phase"] == "Running"
        return
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == f"Pod was rejected: The node had condition: [{told}]. "
    assert cluster.events("p") == [f"Evicted x1: The node had condition: [{told}]. "]


def test_critical_pods_are_never_evicted(cluster: Cluster, node: FaultableNode) -> None:
    spec = pod_spec("sleep", "1000", priorityClassName="system-cluster-critical")
    cluster.create("pods", "needed", spec)
    cluster.run(5)
    node.start_pressure("memory")
    cluster.run(30)
    assert _phase(cluster.get("pods", "needed")) == "Running"


def test_a_container_can_be_oom_killed(cluster: Cluster, node: FaultableNode) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "1000", restartPolicy="Never"))
    assert not node.run_out_of_memory(NAMESPACE, "p", "c"), "not yet"
    cluster.run(5)
    assert not node.run_out_of_memory(NAMESPACE, "p", "other")
    assert node.run_out_of_memory(NAMESPACE, "p", "c")
    cluster.run(5)
    status = cluster.get("pods", "p")["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["reason"], ended["exitCode"]) == ("Failed", "OOMKilled", 137)


def test_injected_faults_delay_or_fail_pulls(cluster: Cluster) -> None:
    from pytest_kwait.simulator.faults import PullFault

    slow = PullFault(NAMESPACE, "slow", delay=20.0)
    broken = PullFault(NAMESPACE, "broken", failure="dial tcp: i/o timeout")
    elsewhere = PullFault("elsewhere", "", failure="never")
    cluster.api.faults.pulls += [slow, broken, elsewhere]
    for name in ("slow", "broken", "fine"):
        cluster.create("pods", name, pod_spec(container={"image": f"example.com/{name}:1"}))
    cluster.run(15)
    phases = {name: _phase(cluster.get("pods", name)) for name in ("slow", "broken", "fine")}
    assert phases == {"slow": "Pending", "broken": "Pending", "fine": "Running"}
    (told, *_) = [one for one in cluster.events("broken") if "Failed to pull" in one]
    assert told.endswith('Failed to pull image "example.com/broken:1": dial tcp: i/o timeout')
    cluster.run(15)
    assert _phase(cluster.get("pods", "slow")) == "Running"
    assert (slow.hits, elsewhere.hits) == (1, 0)
