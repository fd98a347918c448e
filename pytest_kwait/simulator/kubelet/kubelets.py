"""The kubelets of a cluster's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.kubelet import Kubelet
from pytest_kwait.simulator.kubelet.server import KubeletServer
from pytest_kwait.simulator.protocol.nodes import list_nodes
from pytest_kwait.simulator.runtimes.table import ClusterRuntimes

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.nodes import Nodes


def start_kubelets(cluster: Cluster, nodes: Nodes) -> None:
    """Start the kubelets; their Nodes are Ready when this returns.

    One subscription serves them all, so a pod's change costs the same with any number of nodes.
    """
    kubelets: dict[str, Kubelet] = {}
    runtimes = ClusterRuntimes(cluster)
    for number, node in enumerate(list_nodes(nodes), start=1):
        kubelets[node.name] = Kubelet(cluster, node, number, runtimes)
    for kubelet in kubelets.values():
        kubelet.peers = kubelets
        kubelet.register()
        cluster.kubelets[kubelet.name] = KubeletServer(kubelet)
        cluster.faults.nodes[kubelet.name] = kubelet.node_faults

    def pod_changed(change: str, new: Obj, _: Obj | None) -> None:
        kubelet = kubelets.get(new["spec"].get("nodeName") or "")
        if kubelet is not None:
            kubelet.on_pod_changed(change, new)

    cluster.subscribe("pods", pod_changed)
