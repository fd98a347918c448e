"""Nodes and pods that tests of the algorithm are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.node_info import NodeInfo
from tests.objects import node

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


def info(*pods: dict[str, Any], **parts: Any) -> NodeInfo:
    made = NodeInfo(node(**parts))
    for one in pods:
        made.add(one)
    return made
