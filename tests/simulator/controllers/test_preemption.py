from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_PORTS = "node(s) didn't have free ports for the requested pod ports"
_FULL = f"0/1 nodes are available: 1 {_PORTS}."
_NO_WAY = f"{_FULL} no new claims to deallocate, preemption:"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for name, value, more in (
        ("middle", 10, {}),
        ("high", 1000, {}),
        ("polite", 1000, {"preemptionPolicy": "Never"}),
    ):
        body = {"metadata": {"name": name}, "value": value, **more}
        made.api.create("priorityclasses.scheduling.k8s.io", body)
    return made


def _add_pod(cluster: Cluster, name: str, priority: str = "", **more: Any) -> None:
    """A pod that needs a port of its node for itself."""
    port = {"containerPort": 80, "hostPort": more.pop("port", 8080)}
    resources = {"requests": {"cpu": more.pop("cpu", "0")}}
    container = {"ports": [port] if port["hostPort"] else [], "resources": resources}
    labels = more.pop("labels", {"app": name})
    if priority:
        more["priorityClassName"] = priority
    spec = pod_spec("sleep", "999", container=container, terminationGracePeriodSeconds=3, **more)
    cluster.create("pods", name, spec, labels=labels)
    cluster.run(2)


def _message(cluster: Cluster, name: str) -> str:
    found = cluster.get("pods", name)["status"]["conditions"]
    return str(next(one["message"] for one in found if one["type"] == "PodScheduled"))


def _nominated(cluster: Cluster, name: str) -> str | None:
    found: str | None = cluster.get("pods", name)["status"].get("nominatedNodeName")
    return found


def _node_of(cluster: Cluster, name: str) -> str | None:
    found: str | None = cluster.get("pods", name)["spec"].get("nodeName")
    return found


def test_more_important_pod_preempts(cluster: Cluster) -> None:
    _add_pod(cluster, "low")
    _add_pod(cluster, "high", "high")
    low, high = cluster.get("pods", "low"), cluster.get("pods", "high")
    assert low["metadata"]["deletionGracePeriodSeconds"] == 3
    target = next(one for one in low["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    told = f"Preempted x1: Preempted by pod {high['metadata']['uid']} on node kwait-node-1"
    assert told in cluster.events("low")
    assert cluster.events("high") == [f"FailedScheduling x1: {_FULL}"]
    assert _message(cluster, "high") == _FULL
    assert _nominated(cluster, "high") == "kwait-node-1"
    cluster.run(40)
    assert cluster.find("pods", "low") is None
    assert cluster.get("pods", "high")["status"]["phase"] == "Running"
    assert _nominated(cluster, "high") is None


def test_never_preempting_pod_waits(cluster: Cluster) -> None:
    _add_pod(cluster, "low")
    _add_pod(cluster, "polite", "polite")
    cluster.run(20)
    never = "not eligible due to preemptionPolicy=Never."
    assert _message(cluster, "polite") == f"{_NO_WAY} {never}"
    assert conditions(cluster.get("pods", "low")).keys().isdisjoint({"DisruptionTarget"})


def test_equal_priority_is_not_preempted(cluster: Cluster) -> None:
    _add_pod(cluster, "first", "middle")
    _add_pod(cluster, "second", "middle")
    useless = "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert _message(cluster, "second") == f"{_NO_WAY} {useless}"
    assert cluster.get("pods", "first")["status"]["phase"] == "Running"


def test_pods_are_not_preempted_without_use(cluster: Cluster) -> None:
    _add_pod(cluster, "low", port=0)
    _add_pod(cluster, "holder", "high")
    _add_pod(cluster, "middle", "middle")
    useless = f"0/1 nodes are available: 1 {_PORTS}."
    assert _message(cluster, "middle") == f"{_NO_WAY} {useless}"
    assert "deletionTimestamp" not in cluster.get("pods", "low")["metadata"]


def test_only_needed_victims_are_preempted(cluster: Cluster) -> None:
    _add_pod(cluster, "old", cpu="3", port=0)
    _add_pod(cluster, "young", cpu="3", port=0)
    _add_pod(cluster, "important", "middle", cpu="2", port=0)
    _add_pod(cluster, "high", "high", cpu="3", port=0)
    going = [
        pod["metadata"]["name"]
        for pod in cluster.every("pods")
        if "deletionTimestamp" in pod["metadata"]
    ]
    assert going == ["young"]


def test_preemptor_waits_for_terminating_victims(cluster: Cluster) -> None:
    _add_pod(cluster, "low")
    _add_pod(cluster, "high", "high")
    # Something else changes, and it is tried again.
    cluster.api.modify(
        "nodes", "kwait-node-1", "", lambda node: node["metadata"]["labels"].update(a="b")
    )
    cluster.run(0.9)
    waits = "not eligible due to a terminating pod on the nominated node."
    assert _message(cluster, "high") == f"{_NO_WAY} {waits}"
    assert _nominated(cluster, "high") == "kwait-node-1"


def test_nominated_node_is_not_given_to_less_important_pods(cluster: Cluster) -> None:
    _add_pod(cluster, "low")
    _add_pod(cluster, "high", "high")
    _add_pod(cluster, "middle", "middle")
    cluster.run(60)
    assert cluster.find("pods", "low") is None
    assert _node_of(cluster, "high") == "kwait-node-1"
    assert _node_of(cluster, "middle") is None


def test_nomination_is_removed_for_a_more_important_pod(cluster: Cluster) -> None:
    _add_pod(cluster, "low")
    _add_pod(cluster, "middle", "middle")
    assert _nominated(cluster, "middle") == "kwait-node-1"
    cluster.delete("pods", "low", grace=0)
    cluster.run(0.01)
    _add_pod(cluster, "high", "high")
    cluster.run(60)
    assert _node_of(cluster, "high") == "kwait-node-1"


def _add_budget(cluster: Cluster, app: str) -> None:
    selector = {"matchLabels": {"app": app}}
    spec: Obj = {"minAvailable": 1, "selector": selector}
    cluster.create("poddisruptionbudgets.policy", app, spec)
    cluster.run(2)


def test_preemption_prefers_not_to_violate_budgets() -> None:
    cluster = Cluster(nodes=2)
    body = {"metadata": {"name": "high"}, "value": 1000}
    cluster.api.create("priorityclasses.scheduling.k8s.io", body)
    for number in (1, 2):
        _add_pod(cluster, f"p{number}", nodeName=f"kwait-node-{number}")
    _add_budget(cluster, "p1")
    _add_pod(cluster, "high", "high")
    assert _nominated(cluster, "high") == "kwait-node-2"
    assert "deletionTimestamp" not in cluster.get("pods", "p1")["metadata"]
    # Without a choice they are violated.
    _add_pod(cluster, "higher", "high")
    assert _nominated(cluster, "higher") == "kwait-node-1"
    assert cluster.api.get("pods", "p1", NAMESPACE)["metadata"]["deletionTimestamp"]
