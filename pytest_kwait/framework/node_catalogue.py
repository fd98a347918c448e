"""The waits on nodes, as rows of the catalogue: data alone.

A row is name, arguments after client (and namespace, for those on pods of one), summary, module,
limit. The condition is made by the function of the same module that has the wait's name without
`wait_for_`.
"""

from __future__ import annotations

__all__ = ["NODE_POD_WAITS", "NODE_WAITS"]

NODE_WAITS = (
    (
        "wait_for_node_ready",
        "node",
        "a node that is ready",
        "nodes",
        "restart_node_ready_again",
    ),
    (
        "wait_for_node_not_ready",
        "node",
        "a node that is not ready",
        "nodes",
        "node_not_ready",
    ),
    (
        "wait_for_node_condition",
        "node, condition, wanted=True",
        "a node of which a condition is True, or is not",
        "nodes",
        "node_not_ready",
    ),
    (
        "wait_for_node_schedulable",
        "node, want_schedulable=True",
        "a node that takes pods, or takes none",
        "nodes",
        "node_schedulable",
    ),
    (
        "wait_for_node_heartbeat_after",
        "node, after",
        "a node whose last heartbeat is later",
        "nodes",
        "nodes_ready",
    ),
    (
        "wait_for_all_nodes_schedulable",
        "allowed_not_ready=0, non_blocking_taints=('node-role.kubernetes.io/control-plane',)",
        "nodes that take pods, all but a few",
        "node_sets",
        "node_schedulable",
    ),
    (
        "wait_for_nodes_ready",
        "count",
        "an exact number of uncordoned nodes, all ready",
        "node_sets",
        "nodes_ready",
    ),
    (
        "wait_for_total_healthy",
        "required_pods=(), system_namespace='kube-system'",
        "nodes that are all ready and run what they must",
        "node_sets",
        "nodes_ready",
    ),
)
"""Rows of the catalogue."""

NODE_POD_WAITS = (
    (
        "wait_for_pods_running_on_nodes",
        "nodes, count, prefix=''",
        "an exact number of pods that kubelets say they run",
        "node_agents",
        "pod_start",
    ),
)
"""Rows of the catalogue."""
