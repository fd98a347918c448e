"""Places that are promised: pods for whom others are leaving count as if they were there.

Source: kube-scheduler, framework/runtime/framework.go, `addGENominatedPods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.plugins.default_preemption import (
    OverlayNodeLister,
    clone_node_info,
    get_pod_priority,
)
from pytest_kwait.simulator.objects import Obj, uid_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.scheduler.framework.node_info import NodeInfo

__all__ = ["add_nominated_pods"]


def add_nominated_pods(
    lister: NodeLister,
    nodes: Mapping[str, NodeInfo],
    promised: Mapping[str, Mapping[str, Obj]],
    pod: Obj,
) -> NodeLister:
    """Return the nodes as `pod` has to take them: with those who go there and matter as much.

    Unlike upstream a pod is not held against the nodes without them as well, which matters for
    one that wants to be beside a pod that only has a promise.

    Args:
        lister: the nodes as they are.
        nodes: the same by name.
        promised: by node, the pods that are promised a place there.
        pod: who looks for a node.
    """
    changed: dict[str, NodeInfo] = {}
    own = get_pod_priority(pod)
    for name, pods in promised.items():
        guests = [
            one
            for one in pods.values()
            if get_pod_priority(one) >= own and uid_of(one) != uid_of(pod)
        ]
        if guests and name in nodes:
            changed[name] = clone_node_info(nodes[name])
            for one in guests:
                changed[name].add(one)
    return OverlayNodeLister(lister, changed) if changed else lister
