from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.controllers.node_lifecycle import list_condition_taints
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_UNFIT = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(nodes=2)


def _asking(cpu: str, **more: Any) -> Obj:
    return pod_spec("sleep", "9", container={"resources": {"requests": {"cpu": cpu}}}, **more)


def test_pods_are_spread(cluster: Cluster) -> None:
    for number in range(6):
        cluster.create("pods", f"p{number}", pod_spec("sleep", "9"))
    cluster.run(1)
    nodes = Counter(pod["spec"]["nodeName"] for pod in cluster.every("pods"))
    assert nodes == {"kwait-node-1": 3, "kwait-node-2": 3}


def test_unschedulable_pod_has_reason(cluster: Cluster) -> None:
    cluster.create("pods", "p", _asking("100"))
    cluster.run(1)
    pod = cluster.get("pods", "p")
    assert conditions(pod) == {"PodScheduled": "False Unschedulable"}
    assert pod["status"]["conditions"][0]["message"] == _UNFIT
    assert cluster.events("p") == [f"FailedScheduling x1: {_UNFIT}"]


def test_unschedulable_pod_is_retried_when_a_pod_ends(cluster: Cluster) -> None:
    spec = _asking("8", restartPolicy="Never")
    for name in ("a", "b", "late"):
        cluster.create("pods", name, spec)
        cluster.run(0.1)
    assert conditions(cluster.get("pods", "late")) == {"PodScheduled": "False Unschedulable"}
    cluster.run(15)
    assert cluster.get("pods", "late")["spec"]["nodeName"]
    assert conditions(cluster.get("pods", "late"))["PodScheduled"] == "True"


def test_unschedulable_pod_is_retried_when_a_node_changes(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9", nodeSelector={"disk": "ssd"}))
    cluster.run(1)
    assert "nodeName" not in cluster.get("pods", "p")["spec"]
    cluster.api.modify(
        "nodes", "kwait-node-2", "", lambda node: node["metadata"]["labels"].update(disk="ssd")
    )
    cluster.run(3)
    assert cluster.get("pods", "p")["spec"]["nodeName"] == "kwait-node-2"


def test_cordoned_node_is_tainted_and_skipped(cluster: Cluster) -> None:
    cluster.api.modify(
        "nodes", "kwait-node-1", "", lambda node: node["spec"].update(unschedulable=True)
    )
    cluster.run(1)
    taints = cluster.api.get("nodes", "kwait-node-1")["spec"]["taints"]
    assert [(one["key"], one["effect"]) for one in taints] == [
        ("node.kubernetes.io/unschedulable", "NoSchedule")
    ]
    for name in ("a", "b"):
        cluster.create("pods", name, pod_spec("sleep", "9"))
    cluster.run(1)
    assert {pod["spec"]["nodeName"] for pod in cluster.every("pods")} == {"kwait-node-2"}
    cluster.api.modify("nodes", "kwait-node-1", "", lambda node: node["spec"].pop("unschedulable"))
    cluster.run(1)
    assert "taints" not in cluster.api.get("nodes", "kwait-node-1")["spec"]


def test_gated_pod_is_not_scheduled(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9", schedulingGates=[{"name": "example.org/g"}]))
    cluster.run(5)
    assert conditions(cluster.get("pods", "p")) == {"PodScheduled": "False SchedulingGated"}
    assert cluster.events("p") == []
    cluster.change("pods", "p", lambda pod: pod["spec"].update(schedulingGates=[]))
    cluster.run(1)
    assert cluster.get("pods", "p")["spec"]["nodeName"]


def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9", schedulerName="mine"))
    cluster.run(5)
    assert "nodeName" not in cluster.get("pods", "p")["spec"]
    cluster.api.bind(NAMESPACE, "p", "kwait-node-1")
    cluster.run(3)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"


def test_node_has_room_for_110_pods() -> None:
    cluster = Cluster(nodes=1)
    for number in range(111):
        cluster.create("pods", f"p{number:03}", pod_spec("sleep", "9"))
    cluster.run(1)
    waiting = [pod for pod in cluster.every("pods") if "nodeName" not in pod["spec"]]
    assert len(waiting) == 1
    assert "1 Too many pods." in waiting[0]["status"]["conditions"][0]["message"]


def test_pods_of_a_deleted_node_are_deleted(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec("sleep", "9", nodeName="kwait-node-2"))
    cluster.create("pods", "lost", pod_spec("sleep", "9", nodeName="nowhere"))
    cluster.run(5)
    cluster.api.delete("nodes", "kwait-node-2")
    cluster.run(30)
    assert cluster.find("pods", "p") is not None
    cluster.run(15)
    assert cluster.every("pods") == []
    told = cluster.states("pods", "p", lambda pod: conditions(pod).get("DisruptionTarget"))
    assert told == [None, "True DeletionByPodGC", "DELETED"]


@pytest.mark.parametrize(
    ("node", "taints"),
    [
        ({}, []),
        ({"spec": {"unschedulable": True}}, ["unschedulable"]),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, ["not-ready"]),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, ["unreachable"]),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, []),
        (
            {"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}},
            ["disk-pressure"],
        ),
        ({"status": {"conditions": [{"type": "DiskPressure", "status": "Unknown"}]}}, []),
    ],
)
def test_taints_follow_from_the_state_of_a_node(node: Obj, taints: list[str]) -> None:
    assert list_condition_taints(node) == [f"node.kubernetes.io/{taint}" for taint in taints]


def _term(app: str) -> Obj:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _required(*terms: Obj) -> Obj:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def test_pod_waits_for_its_affinity_target(cluster: Cluster) -> None:
    together = {"podAffinity": _required(_term("db"))}
    cluster.create("pods", "web", pod_spec("sleep", "9", affinity=together))
    cluster.run(1)
    assert "2 node(s) didn't match pod affinity rules" in cluster.events("web")[0]
    cluster.create("pods", "other", pod_spec("sleep", "9"))
    cluster.run(20)
    assert "nodeName" not in cluster.get("pods", "web")["spec"]
    cluster.change("pods", "other", lambda pod: pod["metadata"].update(labels={"app": "db"}))
    cluster.run(20)
    beside = cluster.get("pods", "other")["spec"]["nodeName"]
    assert cluster.get("pods", "web")["spec"]["nodeName"] == beside


def test_namespaces_are_selected_by_their_labels(cluster: Cluster) -> None:
    cluster.api.modify(
        "namespaces", NAMESPACE, "", lambda one: one["metadata"]["labels"].update(team="red")
    )
    cluster.create("pods", "db", pod_spec("sleep", "9"))
    cluster.change("pods", "db", lambda pod: pod["metadata"].update(labels={"app": "db"}))
    cluster.run(1)
    where = cluster.get("pods", "db")["spec"]["nodeName"]
    for team, name in (("red", "apart"), ("blue", "anywhere")):
        term = {**_term("db"), "namespaceSelector": {"matchLabels": {"team": team}}}
        affinity = {"podAntiAffinity": _required(term), "podAffinity": None}
        cluster.create("pods", name, pod_spec("sleep", "9", affinity=affinity))
    cluster.run(1)
    assert cluster.get("pods", "apart")["spec"]["nodeName"] != where
    assert cluster.get("pods", "anywhere")["spec"]["nodeName"]


def test_pods_of_a_service_are_spread_over_the_nodes(cluster: Cluster) -> None:
    """The second node has more room: without the service all pods would go there."""
    filling = {"nodeName": "kwait-node-1", "container": {"resources": {"requests": {"cpu": "4"}}}}
    cluster.create("pods", "filling", pod_spec("sleep", "99", **filling))
    cluster.create(
        "services", "web", {"selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP"}]}
    )
    for name in ("a", "b"):
        made = {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": _asking("100m")}
        cluster.api.create("pods", made, NAMESPACE)
        cluster.run(0.1)
    assert {cluster.get("pods", name)["spec"]["nodeName"] for name in ("a", "b")} == {
        "kwait-node-1",
        "kwait-node-2",
    }


def test_invalid_pod_is_reported_and_others_are_scheduled(cluster: Cluster) -> None:
    expression = {"key": "size", "operator": "Gt", "values": ["large"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster.create("pods", "p", pod_spec("sleep", "9", affinity=affinity))
    cluster.create("pods", "good", pod_spec("sleep", "9"))
    cluster.run(1)
    assert conditions(cluster.get("pods", "p")) == {"PodScheduled": "False SchedulerError"}
    (event,) = cluster.events("p")
    assert event.endswith("is not valid: Gt compares with one whole number")
    assert cluster.get("pods", "good")["spec"]["nodeName"]
