"""Nodes with a kubelet, apart from those that other tests create meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def list_kubelet_nodes(kwait: Kwait) -> tuple[str, ...]:
    """Return the names of the nodes with a kubelet.

    Nodes that tests create have none; their taints keep other tests' pods away.
    """
    nodes = [node for node in kwait.list("nodes") if not node["spec"].get("taints")]
    return tuple(sorted(node["metadata"]["name"] for node in nodes))


def first_kubelet_node(kwait: Kwait) -> str:
    """Return the first of these names."""
    return list_kubelet_nodes(kwait)[0]
