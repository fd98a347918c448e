from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.controllers.controller_history import (
    compute_revision_hash,
    make_template_patch,
)
from pytest_kwait.simulator.controllers.daemon import (
    DaemonSetView,
    NodePlacement,
    find_target_node,
    plan_rolling_update,
)
from tests.objects import condition, pod
from tests.simulator.cluster import Cluster, set_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SETS = "daemonsets.apps"
_REVISIONS = "controllerrevisions.apps"
_NODES = ["kwait-node-1", "kwait-node-2"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(nodes=2)


def _annotate(cluster: Cluster, **annotations: str) -> None:
    cluster.change(
        _SETS,
        "d",
        lambda one: one["spec"]["template"]["metadata"].update(annotations=annotations),
    )


def _counts(obj: Obj) -> tuple[int, ...]:
    status = obj["status"]
    return tuple(
        status.get(name, 0)
        for name in (
            "observedGeneration",
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "updatedNumberScheduled",
            "numberReady",
            "numberAvailable",
            "numberUnavailable",
            "numberMisscheduled",
        )
    )


def _places(cluster: Cluster) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "-") for pod in cluster.every("pods"))


def test_each_node_gets_a_pod_and_status_counts_them(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec())
    cluster.run(5)
    assert _places(cluster) == _NODES
    seen = cluster.states(_SETS, "d", _counts)
    assert seen[0] == (0, 0, 0, 0, 0, 0, 0, 0)
    assert seen[1] == (1, 2, 2, 2, 0, 0, 2, 0)
    assert seen[-1] == (1, 2, 2, 2, 2, 2, 0, 0)
    first = cluster.every("pods")[0]
    (revision,) = cluster.every(_REVISIONS)
    digest = revision["metadata"]["labels"]["controller-revision-hash"]
    assert first["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": digest,
        "pod-template-generation": "1",
    }
    assert revision["metadata"]["name"] == f"d-{digest}"
    assert (revision["revision"], revision["data"]["spec"]["template"]["$patch"]) == (1, "replace")
    tolerated = [one["key"].partition("/")[2] for one in first["spec"]["tolerations"]]
    assert tolerated == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]
    names = {pod["metadata"]["name"] for pod in cluster.every("pods")}
    told = {f"SuccessfulCreate x1: Created pod: {name}" for name in names}
    assert set(cluster.events("d")) == told


def test_pods_follow_node_labels_and_taints(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec(pod={"nodeSelector": {"disk": "fast"}}))
    cluster.run(2)
    assert _counts(cluster.get(_SETS, "d"))[:2] == (1, 0)

    def label(node: Obj) -> None:
        node["metadata"]["labels"]["disk"] = "fast"

    cluster.api.modify("nodes", _NODES[0], "", label)
    cluster.run(5)
    assert _places(cluster) == _NODES[:1]
    taint = {"key": "k", "effect": "NoSchedule"}
    cluster.api.modify("nodes", _NODES[0], "", lambda node: node["spec"].update(taints=[taint]))
    cluster.run(2)
    assert _places(cluster) == _NODES[:1]
    # Upstream syncs the set again when another of its fields changes.
    assert _counts(cluster.get(_SETS, "d"))[7] == 1
    taint = {"key": "k", "effect": "NoExecute"}
    cluster.api.modify("nodes", _NODES[0], "", lambda node: node["spec"].update(taints=[taint]))
    cluster.run(5)
    assert _places(cluster) == []


def test_changed_template_replaces_one_pod_after_another(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec())
    cluster.run(5)
    old = {pod["metadata"]["uid"] for pod in cluster.every("pods")}
    cluster.history.clear()
    _annotate(cluster, v="2")
    cluster.run(20)
    assert not old & {pod["metadata"]["uid"] for pod in cluster.every("pods")}
    seen = cluster.states(_SETS, "d", _counts)
    assert min(counts[5] for counts in seen) == 1
    assert seen[-1] == (2, 2, 2, 2, 2, 2, 0, 0)
    labels = [pod["metadata"]["labels"]["pod-template-generation"] for pod in cluster.every("pods")]
    assert labels == ["2", "2"]
    assert sorted(one["revision"] for one in cluster.every(_REVISIONS)) == [1, 2]
    reasons = cluster.reasons("d")
    assert reasons.count("SuccessfulDelete") == 2


def test_restored_template_reuses_its_revision(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec())
    cluster.run(15)
    _annotate(cluster, v="2")
    cluster.run(15)
    _annotate(cluster)
    cluster.run(15)
    assert sorted(one["revision"] for one in cluster.every(_REVISIONS)) == [2, 3]


def test_old_revisions_beyond_limit_are_deleted(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec(revisionHistoryLimit=1))
    for value in ("1", "2", "3"):
        cluster.run(15)
        _annotate(cluster, v=value)
    cluster.run(15)
    assert sorted(one["revision"] for one in cluster.every(_REVISIONS)) == [3, 4]


def test_on_delete_keeps_pods_until_they_are_deleted(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec(updateStrategy={"type": "OnDelete"}))
    cluster.run(5)
    _annotate(cluster, v="2")
    cluster.run(5)
    assert _counts(cluster.get(_SETS, "d"))[3] == 0
    cluster.delete("pods", cluster.every("pods")[0]["metadata"]["name"])
    cluster.run(5)
    assert _counts(cluster.get(_SETS, "d"))[3] == 1


def test_surge_keeps_old_pod_until_new_one_is_ready(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster.create(_SETS, "d", set_spec(updateStrategy=rolling))
    cluster.run(5)
    cluster.history.clear()
    _annotate(cluster, v="2")
    cluster.run(20)
    seen = cluster.states(_SETS, "d", _counts)
    assert seen[-1] == (2, 2, 2, 2, 2, 2, 0, 0)
    assert min(counts[5] for counts in seen) == 2


def test_failed_pod_is_replaced_with_backoff(cluster: Cluster) -> None:
    # It has no kubelet, so that its status stays as the test writes it.
    here = {"nodeSelector": {"kubernetes.io/hostname": _NODES[0]}}
    cluster.create(_SETS, "d", set_spec(pod={**here, "schedulingGates": [{"name": "x/never"}]}))
    cluster.run(5)

    def fail() -> str:
        pod = cluster.every("pods")[0]
        status = {**pod["status"], "phase": "Failed"}
        cluster.api.update_status("pods", {**pod, "status": status})
        return str(pod["metadata"]["name"])

    first = fail()
    cluster.run(0.5)
    message = f"Found failed daemon pod t/{first} on node {_NODES[0]}, will try to kill it"
    assert f"FailedDaemonPod x1: {message}" in cluster.events("d")
    second = fail()
    cluster.run(0.2)
    assert cluster.find("pods", second) is not None
    cluster.run(2)
    assert cluster.find("pods", second) is None


def test_refused_pod_is_reported_and_retried(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec(pod={"serviceAccountName": "late"}))
    cluster.run(1)
    assert cluster.reasons("d")[0] == "FailedCreate"
    assert _counts(cluster.get(_SETS, "d"))[:3] == (1, 2, 0)
    cluster.api.create("serviceaccounts", {"metadata": {"name": "late"}}, "t")
    cluster.run(10)
    assert _places(cluster) == _NODES


def test_deleted_set_removes_pods_and_revisions(cluster: Cluster) -> None:
    cluster.create(_SETS, "d", set_spec())
    cluster.run(5)
    cluster.delete(_SETS, "d")
    cluster.run(10)
    assert cluster.every("pods") == cluster.every(_REVISIONS) == []


def test_revision_names_and_hashes_match_a_real_cluster() -> None:
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "command": ["sleep", "1000"],
        "resources": {},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    pod = {
        "metadata": {"labels": {"app": "s"}},
        "spec": {
            "containers": [container],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 0,
        },
    }
    assert compute_revision_hash(make_template_patch(pod), 0) == "699876cb77"
    assert compute_revision_hash(make_template_patch(pod), 1) != "699876cb77"
    assert (
        compute_revision_hash("<&>", 0)
        == compute_revision_hash("<&>", 0)
        != compute_revision_hash("<& >", 0)
    )


def test_target_node_of_a_pod() -> None:
    spec = set_spec()
    daemon_set: Obj = {"metadata": {"name": "d", "namespace": "t", "uid": "u"}, "spec": spec}
    pod = NodePlacement(daemon_set).pod("n", "h")
    assert find_target_node(pod) == "n"
    assert find_target_node({"spec": {"nodeName": "m"}}) == "m"
    assert find_target_node({"spec": {}}) is None


def _daemon_pod(name: str, new: bool, ready: bool) -> Obj:
    return pod(
        name,
        nodeName=name,
        labels={"controller-revision-hash": "new" if new else "old"},
        creationTimestamp="2026-01-01T00:00:00Z",
        conditions=[condition("Ready", str(ready))],
    )


@pytest.mark.parametrize(
    ("surge", "unavailable", "pods", "created", "deleted"),
    [
        (
            0,
            1,
            {"a": [_daemon_pod("a", False, True)], "b": [_daemon_pod("b", False, True)]},
            [],
            ["a"],
        ),
        (
            0,
            "50%",
            {"a": [_daemon_pod("a", True, False)], "b": [_daemon_pod("b", False, True)]},
            [],
            [],
        ),
        (
            0,
            1,
            {"a": [_daemon_pod("a", False, False)], "b": [_daemon_pod("b", False, True)]},
            [],
            ["a"],
        ),
        (
            0,
            2,
            {"a": [_daemon_pod("a", False, True)], "b": [_daemon_pod("b", False, True)]},
            [],
            ["a", "b"],
        ),
        (
            1,
            0,
            {"a": [_daemon_pod("a", False, True)], "b": [_daemon_pod("b", False, True)]},
            ["a"],
            [],
        ),
        (
            1,
            0,
            {"a": [_daemon_pod("a", False, False)], "b": [_daemon_pod("b", True, True)]},
            ["a"],
            [],
        ),
        (
            1,
            0,
            {
                "a": [_daemon_pod("a", False, True), _daemon_pod("a2", True, True)],
                "b": [_daemon_pod("b", False, True)],
            },
            ["b"],
            ["a"],
        ),
        (
            1,
            0,
            {
                "a": [_daemon_pod("a", False, True), _daemon_pod("a2", True, False)],
                "b": [_daemon_pod("b", False, True)],
            },
            [],
            [],
        ),
        (1, 0, {"gone": [_daemon_pod("gone", False, False)]}, [], ["gone"]),
    ],
)
def test_one_step_of_a_rolling_update(
    surge: int,
    unavailable: int | str,
    pods: dict[str, list[Obj]],
    created: list[str],
    deleted: list[str],
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = set_spec(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    daemon_set: Obj = {"metadata": {"name": "d"}, "spec": spec}
    nodes = {name: {"metadata": {"name": name}} for name in ("a", "b")}
    view = DaemonSetView(daemon_set, NodePlacement(daemon_set), "new", nodes, pods, 0.0)
    change = plan_rolling_update(view)
    assert change.create == created
    assert [pod["metadata"]["name"] for pod in change.delete] == deleted
