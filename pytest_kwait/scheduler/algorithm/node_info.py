"""What is already on a node, kept up to date pod by pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.requests import (
    Amounts,
    HostPort,
    amounts,
    host_ports,
    resource_requests,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NodeInfo"]


class NodeInfo:
    """A node and the sum of the pods on it; adding and removing a pod costs the same however full.

    Args:
        node: the Node as the API has it.
    """

    __slots__ = ("_pods", "allocatable", "node", "requested")

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.node: Mapping[str, Any] = node
        self.allocatable: Amounts = {}
        self.requested: Amounts = {}
        self._pods: dict[str, tuple[Amounts, frozenset[HostPort]]] = {}
        self.set_node(node)

    @property
    def name(self) -> str:
        """The node's name."""
        name: str = self.node["metadata"]["name"]
        return name

    @property
    def pod_count(self) -> int:
        """How many pods are on the node."""
        return len(self._pods)

    @property
    def used_ports(self) -> set[HostPort]:
        """The host ports its pods take."""
        return {port for _, ports in self._pods.values() for port in ports}

    def set_node(self, node: Mapping[str, Any]) -> None:
        """Take over a changed Node; its pods stay."""
        self.node = node
        self.allocatable = amounts((node.get("status") or {}).get("allocatable"))

    def add(self, pod: dict[str, Any]) -> None:
        """Count `pod` in; a pod that is there already is counted once."""
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            return
        requested = resource_requests(pod)
        self._pods[uid] = (requested, frozenset(host_ports(pod)))
        for name, amount in requested.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, pod: Mapping[str, Any]) -> bool:
        """Count `pod` out; False where it was not on the node."""
        counted = self._pods.pop(pod["metadata"]["uid"], None)
        if counted is None:
            return False
        for name, amount in counted[0].items():
            self.requested[name] -= amount
        return True
