from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.controllers.taint_eviction import min_toleration_seconds
from tests.simulator.cluster import Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_NODE = "kwait-node-1"
_UNKNOWN = "Unknown NodeStatusUnknown"
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Silence:
    """Kubelets that are no longer heard: none of their leases is renewed."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: set[str] = set()
        renew = cluster.api.renew
        monkeypatch.setattr(
            cluster.api, "renew", lambda space, name: name in self.nodes or renew(space, name)
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(nodes=2)


@pytest.fixture
def silence(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Silence:
    return Silence(cluster, monkeypatch)


def _toleration(key: str, seconds: int | None = None) -> Obj:
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **more}


def _taints(cluster: Cluster, node: str = _NODE) -> list[str]:
    taints = cluster.api.get("nodes", node)["spec"].get("taints") or ()
    return [f"{one['key'].rpartition('/')[2]}:{one['effect']}" for one in taints]


def _run_pod(cluster: Cluster, name: str = "p", **spec: object) -> None:
    cluster.create("pods", name, pod_spec("sleep", "999", nodeName=_NODE, **spec))
    cluster.run(5)


def _told(cluster: Cluster, name: str, reason: str) -> list[str]:
    found = [event.split(" ", 2) for event in cluster.events(name)]
    return [text for told, _, text in found if told == reason]


def _report(cluster: Cluster, node: str, ready: str) -> None:
    """Write the status that the node's kubelet would."""

    def report(changed: Obj) -> None:
        for one in changed["status"]["conditions"]:
            fine = one["type"] == "Ready"
            one.update(status=ready if fine else "False", reason="r", message="m")
            one["lastHeartbeatTime"] = cluster.clock.stamp()

    cluster.api.modify("nodes", node, "", report, subresource="status")


def test_nodes_are_registered_and_stay_ready(cluster: Cluster) -> None:
    cluster.run(200)
    told = f"Node {_NODE} event: Registered Node {_NODE} in Controller"
    assert _told(cluster, _NODE, "RegisteredNode") == [told]
    assert conditions(cluster.api.get("nodes", _NODE))["Ready"] == "True KubeletReady"
    assert _taints(cluster) == []


def test_silent_node_is_unknown_after_its_grace(cluster: Cluster, silence: Silence) -> None:
    _run_pod(cluster)
    silence.nodes.add(_NODE)
    cluster.run(35)
    assert conditions(cluster.api.get("nodes", _NODE))["Ready"] == "True KubeletReady"
    cluster.run(30)
    assert conditions(cluster.api.get("nodes", _NODE)) == {
        "MemoryPressure": _UNKNOWN,
        "DiskPressure": _UNKNOWN,
        "PIDPressure": _UNKNOWN,
        "Ready": _UNKNOWN,
    }
    ready = cluster.api.get("nodes", _NODE)["status"]["conditions"][3]
    assert ready["message"] == "Kubelet stopped posting node status."
    assert _taints(cluster) == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert _taints(cluster, "kwait-node-2") == []
    pod = conditions(cluster.get("pods", "p"))
    assert (pod["Ready"], pod["ContainersReady"]) == ("False", "True")
    assert _told(cluster, "p", "NodeNotReady") == ["Node is not ready"]
    assert _told(cluster, _NODE, "NodeNotReady") == [f"Node {_NODE} status is now: NodeNotReady"]


def test_events_of_a_node_are_in_order(cluster: Cluster, silence: Silence) -> None:
    _run_pod(cluster, tolerations=[_toleration(_UNREACHABLE, 7)])
    cluster.history.clear()
    silence.nodes.add(_NODE)
    cluster.run(90)
    order: list[str] = []
    for resource, _, obj in cluster.history:
        name, seen = obj["metadata"]["name"], ""
        if resource == "nodes" and name == _NODE:
            taints = [one["effect"] for one in obj["spec"].get("taints") or ()]
            seen = f"node {conditions(obj)['Ready'].split()[0]} {' '.join(taints)}".strip()
        elif resource == "pods" and name == "p":
            known = conditions(obj)
            target = known.get("DisruptionTarget", "")
            going = "deleted" if "deletionTimestamp" in obj["metadata"] else ""
            seen = " ".join(filter(None, ["pod", known["Ready"], target, going]))
        if seen and (not order or order[-1] != seen) and seen not in order:
            order.append(seen)
    target = "pod False True DeletionByTaintManager"
    assert order[:6] == [
        "node Unknown",
        "pod False",
        "node Unknown NoSchedule",
        "node Unknown NoSchedule NoExecute",
        target,
        f"{target} deleted",
    ]
    assert _told(cluster, "p", "TaintManagerEviction") == ["Marking for deletion Pod t/p"]


def test_pod_stays_as_long_as_it_tolerates(cluster: Cluster, silence: Silence) -> None:
    _run_pod(cluster, "short", tolerations=[_toleration(_UNREACHABLE, 20)])
    _run_pod(cluster, "default")
    _run_pod(cluster, "always", tolerations=[_toleration(_UNREACHABLE)])
    silence.nodes.add(_NODE)
    cluster.run(65)
    assert "deletionTimestamp" not in cluster.get("pods", "short")["metadata"]
    cluster.run(55)
    assert cluster.find("pods", "short") is None
    assert "deletionTimestamp" not in cluster.get("pods", "default")["metadata"]
    cluster.run(300)
    assert cluster.find("pods", "default") is None
    assert "deletionTimestamp" not in cluster.get("pods", "always")["metadata"]


def test_node_that_returns_keeps_its_pods(cluster: Cluster, silence: Silence) -> None:
    _run_pod(cluster)
    silence.nodes.add(_NODE)
    cluster.run(80)
    assert _taints(cluster) == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    silence.nodes.clear()
    _report(cluster, _NODE, "True")
    cluster.run(6)
    assert _taints(cluster) == []
    assert _told(cluster, "p", "TaintManagerEviction") == ["Cancelling deletion of Pod t/p"]
    cluster.run(400)
    assert "deletionTimestamp" not in cluster.get("pods", "p")["metadata"]


def test_node_reports_itself_not_ready(cluster: Cluster) -> None:
    cluster.run(6)
    _report(cluster, _NODE, "False")
    cluster.run(11)
    assert _taints(cluster) == ["not-ready:NoSchedule", "not-ready:NoExecute"]
    _report(cluster, _NODE, "Unknown")
    cluster.run(11)
    assert _taints(cluster) == ["unreachable:NoSchedule", "unreachable:NoExecute"]


def test_no_eviction_if_no_node_is_ready(cluster: Cluster, silence: Silence) -> None:
    _run_pod(cluster, tolerations=[_toleration(_UNREACHABLE, 0)])
    silence.nodes |= {_NODE, "kwait-node-2"}
    cluster.run(200)
    assert _taints(cluster) == ["unreachable:NoSchedule"]
    assert "deletionTimestamp" not in cluster.get("pods", "p")["metadata"]


def test_suspended_process_marks_no_node_unknown(cluster: Cluster) -> None:
    cluster.run(11)
    # As for a process that was stopped: all timers are late and fire at once.
    cluster.clock.leap(500)
    cluster.run(20)
    assert conditions(cluster.api.get("nodes", _NODE))["Ready"] == "True KubeletReady"


def test_node_without_kubelet_is_unknown(cluster: Cluster) -> None:
    cluster.api.create("nodes", {"metadata": {"name": "made"}})
    cluster.run(55)
    assert conditions(cluster.api.get("nodes", "made")) == {}
    cluster.run(15)
    found = conditions(cluster.api.get("nodes", "made"))
    assert found["Ready"] == "Unknown NodeStatusNeverUpdated"
    cluster.api.delete("nodes", "made")
    cluster.run(10)
    told = "Node made event: Removing Node made from Controller"
    assert _told(cluster, "made", "RemovingNode") == [told]


def test_nodes_of_other_kubelets_have_real_grace() -> None:
    cluster = Cluster(nodes=1, scale=0.1)
    cluster.api.create("nodes", {"metadata": {"name": "made"}})
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": cluster.clock.stamp()}
    made = cluster.api.get("nodes", "made")
    cluster.api.update_status("nodes", {**made, "status": {"conditions": [ready]}})
    cluster.run(45)
    assert conditions(cluster.api.get("nodes", "made"))["Ready"] == "True"
    cluster.run(10)
    assert conditions(cluster.api.get("nodes", "made"))["Ready"] == _UNKNOWN


def test_manual_taints_evict_pods(cluster: Cluster) -> None:
    _run_pod(cluster)
    _run_pod(cluster, "tolerant", tolerations=[{"operator": "Exists"}])
    taint = {"key": "example.com/out", "effect": "NoExecute"}
    cluster.api.modify("nodes", _NODE, "", lambda node: node["spec"].update(taints=[taint]))
    cluster.run(1)
    assert conditions(cluster.get("pods", "p"))["DisruptionTarget"] == "True DeletionByTaintManager"
    cluster.run(60)
    assert [pod["metadata"]["name"] for pod in cluster.every("pods")] == ["tolerant"]


@pytest.mark.parametrize(
    ("tolerations", "stay"),
    [
        ([], 0),
        ([_toleration("a", 5)], 0),
        ([_toleration("a", 5), _toleration("b", 9)], 5),
        ([_toleration("a", -1), _toleration("b")], 0),
        ([_toleration("a"), _toleration("b")], None),
        ([{"operator": "Exists"}], None),
    ],
)
def test_toleration_seconds_of_a_pod(tolerations: list[Obj], stay: float | None) -> None:
    taints = [{"key": key, "effect": "NoExecute"} for key in "ab"]
    assert min_toleration_seconds(taints, tolerations) == stay
