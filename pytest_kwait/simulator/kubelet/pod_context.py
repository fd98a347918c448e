"""Pods and nodes as the parts of a kubelet see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_kwait.simulator.kubelet.cri import PodHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.clock import SimClock
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.event_recorder import EventRecorder
    from pytest_kwait.simulator.kubelet.cri import Runtimes
    from pytest_kwait.simulator.kubelet.restart_policy import KeyedBackoff
    from pytest_kwait.simulator.objects import Obj

EVICTED = "Evicted"
"""The reason of evicted pods."""


class TerminationReason(NamedTuple):
    """Why a kubelet terminates a pod: `reason` and `message` of the pod's status.

    Args:
        disrupted: whether the pod gets the condition `DisruptionTarget`.
    """

    reason: str
    message: str
    disrupted: bool = False


class NodeContext(Protocol):
    """A node and its kubelet."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    def clock(self) -> SimClock:
        """The cluster's clock."""

    @property
    def name(self) -> str:
        """The name of the node."""

    @property
    def address(self) -> str:
        """The internal address of the node."""

    @property
    def network(self) -> Network:
        """The ports of the node."""

    @property
    def runtimes(self) -> Runtimes:
        """The container runtimes."""

    @property
    def backoff(self) -> KeyedBackoff:
        """The back-off of restarts and image pulls."""

    @property
    def recorder(self) -> EventRecorder:
        """The recorder of the kubelet's events."""

    @property
    def peers(self) -> Mapping[str, NodeContext]:
        """All nodes of the cluster by name."""

    @property
    def is_partitioned(self) -> bool:
        """Return whether the node cannot reach the API server."""

    @property
    def is_kubelet_stopped(self) -> bool:
        """Return whether the kubelet is stopped; containers keep running."""

    def has_image(self, name: str) -> bool:
        """Return whether an image, by its full name, was pulled."""

    def record_image(self, name: str) -> None:
        """Record that an image, by its full name, was pulled."""

    def find_network(self, address: str) -> Network | None:
        """Return the ports behind an address of a pod or node of the cluster."""

    def assign_address(self, pod: Obj) -> str:
        """Return a free address for a pod."""

    def release_pod(self, pod: Obj) -> None:
        """Free the address and resources of a pod whose containers have ended for good."""

    def relist(self, worker: PodContext) -> None:
        """Sync a pod, whose containers changed, with the next relist."""


class PodContext(PodHost, Protocol):
    """A pod on its node."""

    pod: Obj
    """The pod with its allocated resources."""
    evicted: TerminationReason | None

    @property
    def node(self) -> NodeContext:
        """The node."""

    @property
    def finished(self) -> bool:
        """Return whether the containers have ended for good."""

    @property
    def sandbox(self) -> bool:
        """Return whether the pod's sandbox is up."""

    def sync(self) -> None:
        """Schedule a sync."""

    def sync_in(self, seconds: float | None) -> None:
        """Replace the planned sync by one in real `seconds`; None: by none."""

    def get_container_spec(self, name: str) -> Obj:
        """Return a container's part of the spec."""

    def get_grace(self) -> float:
        """Return the grace period of the containers in seconds."""

    def record_resize_progress(self) -> None:
        """Publish that a resize of containers is in progress."""
