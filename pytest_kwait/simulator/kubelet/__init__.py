"""The kubelets of the embedded cluster: one per node, running the pods bound to it.

Contents: the parts of a kubelet, named as in upstream's `pkg/kubelet`. They see each other
through the protocols of `pod_context`. Shell, programs and processes of a container are in
`busybox`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.kubelet import Kubelet
from pytest_kwait.simulator.kubelet.server import KubeletServer

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["Kubelet", "make_node_name", "start_kubelets"]


def make_node_name(number: int) -> str:
    """Return the name of a node by its number, from 1."""
    return f"kwait-node-{number}"


def start_kubelets(api: Cluster, nodes: int) -> dict[str, Kubelet]:
    """Start `nodes` kubelets; their Nodes are Ready when this returns.

    One subscription serves them all, so a pod's change costs the same with any number of nodes.
    """
    kubelets = {
        make_node_name(number): Kubelet(api, make_node_name(number), number)
        for number in range(1, nodes + 1)
    }
    for kubelet in kubelets.values():
        kubelet.peers = kubelets
        kubelet.register()
        api.kubelets[kubelet.name] = KubeletServer(kubelet)
        api.faults.nodes[kubelet.name] = kubelet.node_faults

    def pod_changed(change: str, new: Obj, _: Obj | None) -> None:
        kubelet = kubelets.get(new["spec"].get("nodeName") or "")
        if kubelet is not None:
            kubelet.on_pod_changed(change, new)

    api.subscribe("pods", pod_changed)
    return kubelets
