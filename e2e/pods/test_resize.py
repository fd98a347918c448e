"""Pod resizes that are deferred or infeasible on their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
from kubernetes.utils.quantity import parse_quantity

from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import container, pod
from e2e.raising import raises

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


def resize(kwait: Kwait, name: str, mebibytes: int) -> None:
    resources = {"requests": {"memory": f"{mebibytes}Mi"}}
    body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    kubernetes.client.CoreV1Api(kwait.client).patch_namespaced_pod_resize(
        name, kwait.namespace, body
    )


def test_a_resize_waits_for_room(kwait: Kwait) -> None:
    """The deferred resize is made when another pod is deleted."""
    node, memory = room(kwait)
    most = memory * 6 // 10
    kwait.create(asking("large", node, most), asking("small", node, 8))
    kwait.wait_for("pod/large", "condition=Ready")
    kwait.wait_for("pod/small", "condition=Ready")

    resize(kwait, "small", most)
    small = kwait.wait_for("pod/small", "condition=PodResizePending")
    assert small["status"]["conditions"][0]["reason"] == "Deferred"
    kwait.delete("pod/large")
    kwait.wait_for(
        "pod/small",
        f"jsonpath={{.status.containerStatuses[0].resources.requests.memory}}={most}Mi",
    )
    assert kwait.wait_for("pod/small", "condition=Ready")["status"]["phase"] == "Running"


def test_a_resize_beyond_the_node_is_refused(kwait: Kwait) -> None:
    """An infeasible resize fails the wait early."""
    node, memory = room(kwait)
    kwait.create(asking("small", node, 8))
    with raises(kubernetes.client.ApiException, "didn't have enough allocatable resources: memory"):
        resize(kwait, "small", memory + 1)
