"""Nodes and pods that tests of the algorithm are made of."""

from __future__ import annotations

from typing import Any

from pytest_kwait.scheduler.algorithm.node_info import NodeInfo


def node(name: str = "n1", **parts: Any) -> dict[str, Any]:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "3", **parts.get("allocatable", {})}
    return {
        "metadata": {"name": name, "labels": parts.get("labels", {})},
        "spec": parts.get("spec", {}),
        "status": {"allocatable": allocatable},
    }


def pod(name: str = "p", *, cpu: str = "", memory: str = "", **spec: Any) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    containers = [{"name": "c", "resources": {"requests": requests}, **spec.pop("container", {})}]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"containers": containers, **spec},
    }


def info(*pods: dict[str, Any], **parts: Any) -> NodeInfo:
    made = NodeInfo(node(**parts))
    for one in pods:
        made.add(one)
    return made
