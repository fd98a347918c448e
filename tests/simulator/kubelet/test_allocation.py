"""Deferred resizes are made once the node has room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

PENDING = "PodResizePending"


def _make(cluster: Cluster, name: str, cpu: str, script: str = "sleep 1000", **fields: Any) -> None:
    container = {"resources": {"requests": {"cpu": cpu}}, **fields.pop("container", {})}
    fields |= {"container": container, "terminationGracePeriodSeconds": 0}
    spec = pod_spec("sh", "-c", script, **fields)
    cluster.create("pods", name, spec)
    cluster.run(3)


def _resize(cluster: Cluster, name: str, cpu: str) -> None:
    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu

    cluster.api.modify("pods", name, NAMESPACE, change, subresource="resize")
    cluster.run(3)


def _seen(cluster: Cluster, name: str) -> tuple[str, str, str]:
    """Return the pending condition, the allocated and the actual resources."""
    pod = cluster.get("pods", name)
    (status,) = pod["status"]["containerStatuses"]
    return (
        conditions(pod).get(PENDING, ""),
        status["allocatedResources"]["cpu"],
        status["resources"]["requests"]["cpu"],
    )


def _events(cluster: Cluster, name: str) -> list[str]:
    return [one for one in cluster.events(name) if one.startswith("Resize")]


def test_a_resize_is_deferred_until_there_is_room(cluster: Cluster) -> None:
    _make(cluster, "big", "6")
    _make(cluster, "p", "1")
    _resize(cluster, "p", "4")
    assert _seen(cluster, "p") == ("True Deferred", "1", "1")
    status = cluster.get("pods", "p")["status"]
    pending = status["conditions"][0]
    short = "Node didn't have enough resource: cpu, requested: 4000, used: 6000, capacity: 8000"
    assert (pending["message"], pending["observedGeneration"]) == (short, 2)
    assert status["observedGeneration"] == 2
    resources = '{"containers":[{"name":"c","resources":{"requests":{"cpu":"4"}}}],"generation":2'
    deferred = f'ResizeDeferred x1: Pod resize OutOfcpu: {resources},"error":"{short}"}}'
    assert _events(cluster, "p") == [deferred]

    cluster.delete("pods", "big")
    cluster.run(5)
    assert _seen(cluster, "p") == ("", "4", "4")
    assert _events(cluster, "p") == [
        deferred,
        f"ResizeStarted x1: Pod resize started: {resources}}}",
        f"ResizeCompleted x1: Pod resize completed: {resources}}}",
    ]
    # The allocated resources are in use.
    _make(cluster, "late", "1", nodeName="kwait-node-1")
    _make(cluster, "later", "4", nodeName="kwait-node-1")
    assert cluster.get("pods", "late")["status"]["phase"] == "Running"
    assert cluster.get("pods", "later")["status"]["reason"] == "OutOfcpu"


def test_a_deferred_resize_can_be_changed_and_withdrawn(cluster: Cluster) -> None:
    _make(cluster, "big", "6")
    _make(cluster, "p", "1")
    _resize(cluster, "p", "4")
    since = cluster.get("pods", "p")["status"]["conditions"][0]["lastTransitionTime"]
    _resize(cluster, "p", "5")
    assert _seen(cluster, "p") == ("True Deferred", "1", "1")
    pending = cluster.get("pods", "p")["status"]["conditions"][0]
    assert (pending["lastTransitionTime"], pending["observedGeneration"]) == (since, 3)
    assert len(_events(cluster, "p")) == 2
    _resize(cluster, "p", "1")
    assert _seen(cluster, "p") == ("", "1", "1")
    assert len(_events(cluster, "p")) == 2
    cluster.delete("pods", "big")
    cluster.run(200)
    assert len(_events(cluster, "p")) == 2


def test_freed_resources_go_to_the_pod_of_highest_priority(cluster: Cluster) -> None:
    cluster.api.create(
        "priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 10}
    )
    _make(cluster, "big", "4")
    _make(cluster, "low", "1")
    _make(cluster, "high", "1", priorityClassName="high")
    _resize(cluster, "low", "4")
    _resize(cluster, "high", "4")
    _resize(cluster, "big", "2")
    assert _seen(cluster, "big") == ("", "2", "2")
    assert _seen(cluster, "high") == ("", "4", "4")
    assert _seen(cluster, "low") == ("True Deferred", "1", "1")


def test_containers_start_with_allocated_resources(cluster: Cluster) -> None:
    _make(cluster, "big", "6")
    _make(cluster, "p", "1", "sleep 20; exit 1")
    _resize(cluster, "p", "4")
    cluster.run(40)
    pod = cluster.get("pods", "p")
    assert pod["status"]["containerStatuses"][0]["restartCount"] > 0
    assert _seen(cluster, "p") == ("True Deferred", "1", "1")


def test_a_finished_pod_has_no_pending_resize(cluster: Cluster) -> None:
    _make(cluster, "big", "6")
    _make(cluster, "p", "1", "sleep 10", restartPolicy="Never")
    _resize(cluster, "p", "4")
    assert PENDING in conditions(cluster.get("pods", "p"))
    cluster.run(20)
    assert cluster.get("pods", "p")["status"]["phase"] == "Succeeded"
    assert PENDING not in conditions(cluster.get("pods", "p"))
    cluster.delete("pods", "big")
    cluster.run(200)
    assert len(_events(cluster, "p")) == 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"cpu": "9"}, "cpu, requested: 9000, allocatable: 8000"),
        (
            {"cpu": "9", "memory": "99Gi"},
            "cpu, requested: 9000, allocatable: 8000; "
            "memory, requested: 106300440576, allocatable: 33181138944",
        ),
    ],
)
def test_a_resize_beyond_the_node_is_infeasible(cluster: Cluster, asked: Obj, why: str) -> None:
    container = {"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
    _make(cluster, "p", "1", container=container)

    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"] |= asked

    with pytest.raises(StatusError) as caught:
        cluster.api.modify("pods", "p", NAMESPACE, change, subresource="resize")
    assert caught.value.message == (
        f'pods "p" is forbidden: node didn\'t have enough allocatable resources: {why}'
    )
    assert caught.value.code == 403
    assert (caught.value.details or {})["causes"] == [{"reason": "NodeCapacity"}]


def test_resizes_need_an_existing_linux_node(cluster: Cluster) -> None:
    _make(cluster, "p", "1")

    def system(node: Obj) -> None:
        node["metadata"]["labels"]["kubernetes.io/os"] = "windows"

    cluster.api.modify("nodes", "kwait-node-1", "", system)
    with pytest.raises(StatusError) as caught:
        _resize(cluster, "p", "2")
    assert caught.value.message == (
        'pods "p" is forbidden: pod resize is only supported on linux nodes, '
        'node "kwait-node-1" is "windows"'
    )
    cluster.api.delete("nodes", "kwait-node-1")
    with pytest.raises(StatusError) as caught:
        _resize(cluster, "p", "2")
    assert caught.value.message == 'pods "p" is forbidden: node "kwait-node-1" not found'
