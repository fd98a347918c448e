"""Has the connections of programs follow network policies, with each change of what they depend on.

Source: sigs.k8s.io/kube-network-policies pkg/dataplane/controller.go, `NewController`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.network_policies import (
    NETWORK_POLICIES,
    get_network_policies,
)
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from pytest_kwait.simulator.objects import labels_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_RESOURCES = (NETWORK_POLICIES, "namespaces", "services", "endpointslices.discovery.k8s.io")


class NetworkPolicyController:
    """Updates the filter of connections; interpreted pods ask for the policies themselves."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_scheduled = False
        for resource in _RESOURCES:
            cluster.subscribe(resource, self._on_change)
        cluster.subscribe("pods", self._on_pod)

    def _on_pod(self, change: str, new: Obj, old: Obj | None) -> None:
        if change != "MODIFIED" or old is None or _describe(new) != _describe(old):
            self._on_change(change, new, old)

    def _on_change(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            get_network_policies(self._cluster).forget(new)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._cluster.clock.call_later(0, self._sync)

    def _sync(self) -> None:
        self._is_scheduled = False
        network = get_pod_networks(self._cluster).current
        if network is not None:
            network.update_filter()


def _describe(pod: Obj) -> tuple[object, ...]:
    """Return what policies depend on, of all that changes while a pod runs."""
    status = pod.get("status") or {}
    return labels_of(pod), status.get("podIP"), status.get("hostIP"), status.get("phase")
