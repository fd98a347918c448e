"""How well a node that fits suits a pod, and which one suits it best."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.scheduler.algorithm.node_info import NodeInfo
    from pytest_kwait.scheduler.algorithm.predicates import Demand

__all__ = ["least_allocated_score", "select_node"]

# What a container that requests nothing is taken to need, so that such pods spread as well.
_ASSUMED = {"cpu": 100, "memory": 200 * 1024 * 1024}


def least_allocated_score(demand: Demand, info: NodeInfo) -> int:
    """0 to 100: the share of cpu and memory that stays free with the pod on the node, on average.

    Source: kube-scheduler, framework/plugins/noderesources/least_allocated.go.
    """
    total = 0
    for name, assumed in _ASSUMED.items():
        capacity = info.allocatable.get(name, 0)
        used = info.requested.get(name, 0) + (demand.requests.get(name) or assumed)
        if capacity and used <= capacity:
            total += (capacity - used) * 100 // capacity
    return total // len(_ASSUMED)


def select_node(demand: Demand, fitting: Iterable[NodeInfo]) -> NodeInfo | None:
    """Return the node with the highest score; of equals the one with fewer pods, then by name."""
    return min(
        fitting,
        key=lambda info: (-least_allocated_score(demand, info), info.pod_count, info.name),
        default=None,
    )
