"""Reports that network policies are not enforced, by an event on each of them.

A cluster whose network plugin has no policies says nothing; here a test would wait in vain for a
connection to be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_NETWORK_POLICIES = "networkpolicies.networking.k8s.io"
_MESSAGE = "the embedded cluster does not enforce network policies: all traffic of pods is allowed"


class NetworkPolicyReporter:
    """Records the event `NotEnforced` once for each network policy."""

    def __init__(self, cluster: Cluster) -> None:
        self._recorder = EventRecorder(cluster, "kwait-network")
        cluster.subscribe(_NETWORK_POLICIES, self._on_change)

    def _on_change(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "ADDED":
            kind = ("networking.k8s.io/v1", "NetworkPolicy")
            self._recorder.event(new, kind, WARNING, "NotEnforced", _MESSAGE)
