"""Resizing pods in place, by restart, once there is room, and beyond their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes.utils.quantity import parse_quantity

from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import container, pod
from e2e.raising import raises
from pytest_kwait import ApiError, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def room(kwait: Kwait) -> tuple[str, int]:
    """Return a node and its allocatable memory in MiB."""
    node = first_kubelet_node(kwait)
    memory = kwait.get(f"node/{node}")["status"]["allocatable"]["memory"]
    parse: Any = parse_quantity
    return node, int(parse(memory)) >> 20


def asking(name: str, node: str, mebibytes: int) -> dict[str, Any]:
    resources = {"requests": {"memory": f"{mebibytes}Mi"}}
    return pod(name, container(resources=resources), nodeName=node)


def test_a_resize_waits_for_room(kwait: Kwait) -> None:
    """The deferred resize is made when another pod is deleted."""
    node, memory = room(kwait)
    most = memory * 6 // 10
    kwait.create(asking("large", node, most), asking("small", node, 8))
    kwait.wait_for("pod/large", "condition=Ready")
    kwait.wait_for("pod/small", "condition=Ready")

    kwait.resize("small", requests={"memory": f"{most}Mi"})
    small = kwait.wait_for("pod/small", "condition=PodResizePending")
    assert small["status"]["conditions"][0]["reason"] == "Deferred"
    with raises(WaitFailed, r"pending \(deferred\), container main has requests.memory 8Mi"):
        kwait.wait_for_pod_resized("small", grace="1s")
    kwait.delete("pod/large")
    small = kwait.wait_for_pod_resized("small", restart_counts={"main": 0})
    assert small["status"]["containerStatuses"][0]["allocatedResources"]["memory"] == f"{most}Mi"


def test_a_resize_restarts_where_its_policy_says_so(kwait: Kwait) -> None:
    """The restart is part of what is awaited."""
    node, _ = room(kwait)
    small = asking("small", node, 8)
    policy = {"resourceName": "memory", "restartPolicy": "RestartContainer"}
    small["spec"]["containers"][0]["resizePolicy"] = [policy]
    small["spec"]["restartPolicy"] = "Always"
    kwait.create_and_wait(small)

    kwait.resize(kwait.get("pod/small"), container="main", requests={"memory": "12Mi"})

    kwait.wait_for_pod_resized("small", restart_counts={"main": 1})


def test_a_resize_beyond_the_node_is_refused(kwait: Kwait) -> None:
    node, memory = room(kwait)
    kwait.create(asking("small", node, 8))
    with raises(ApiError, "didn't have enough allocatable resources: memory"):
        kwait.resize("small", requests={"memory": f"{memory + 1}Mi"})
