"""Nodes and pods that tests of the algorithm are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.node_info import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Nodes:
    """Lists the given nodes, with optional namespaces and selectors."""

    def __init__(
        self,
        *nodes: NodeInfo,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        selectors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._nodes = nodes
        self._namespaces = namespaces or {}
        self._selectors = selectors

    def list(self) -> Sequence[NodeInfo]:
        return self._nodes

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return self._namespaces.get(name)

    def spread_selectors(self, pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return self._selectors


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
