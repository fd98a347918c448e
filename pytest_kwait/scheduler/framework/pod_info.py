"""A pod as the algorithm reads it: once per pod, not once per node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.invalid_objects import (
    InvalidObject,
    InvalidPod,
    get_mapping,
    get_string,
)
from pytest_kwait.scheduler.framework.node_affinity import (
    NodeSelectorTerm,
    RequiredNodeAffinity,
    read_preferred_node_affinity,
)
from pytest_kwait.scheduler.framework.pod_affinity_terms import NO_POD_AFFINITY, PodAffinity
from pytest_kwait.scheduler.framework.resource_requests import (
    HostPort,
    PodRequests,
    ResourceAmounts,
    filter_tracked_resources,
    list_host_ports,
)
from pytest_kwait.scheduler.framework.spread_constraints import read_spread_constraints
from pytest_kwait.scheduler.framework.tolerations import read_tolerations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PodInfo"]

_NO_TERMS: Sequence[tuple[int, NodeSelectorTerm]] = ()


class PodInfo:
    """What of a pod decides where it goes.

    Args:
        pod: the Pod as the API has it.
        started: whether it is on a node already (see `PodRequests`).

    Raises:
        InvalidPod: it cannot be read.
    """

    __slots__ = (
        "affinity",
        "assumed",
        "assumed_before",
        "ending",
        "labels",
        "name",
        "namespace",
        "node_name",
        "pod",
        "ports",
        "preferred_nodes",
        "requests",
        "required_nodes",
        "spread",
        "tolerations",
        "uid",
    )

    def __init__(self, pod: Mapping[str, Any], *, started: bool = False) -> None:
        try:
            self._read(pod, started)
        except InvalidObject as error:
            raise _make_invalid_pod(pod, error) from None

    def _read(self, pod: Mapping[str, Any], started: bool) -> None:
        if not isinstance(pod, dict):
            raise InvalidObject("pod", pod, "a mapping is wanted")
        self.pod: dict[str, Any] = pod
        metadata, spec = get_mapping(pod, "metadata", ""), get_mapping(pod, "spec", "")
        self.name = get_string(metadata, "name", "metadata")
        self.namespace = get_string(metadata, "namespace", "metadata")
        self.uid = get_string(metadata, "uid", "metadata")
        self.ending = metadata.get("deletionTimestamp") is not None
        self.labels: Mapping[str, str] = get_mapping(metadata, "labels", "metadata")
        self.node_name = get_string(spec, "nodeName", "spec")
        requests = PodRequests(pod, started=started)
        #: What it requests.
        self.requests: ResourceAmounts = filter_tracked_resources(requests.total())
        #: What scores take it to need of cpu and memory while it is on a node.
        self.assumed: ResourceAmounts = requests.assumed()
        #: The same before it is on one: what is requested for the pod as a whole is left out then,
        #: as kube-scheduler 1.36 does.
        self.assumed_before: ResourceAmounts = requests.assumed(whole=False)
        self.ports: frozenset[HostPort] = frozenset(list_host_ports(pod))
        self.tolerations = read_tolerations(spec)
        self.required_nodes: RequiredNodeAffinity | None = None
        self.preferred_nodes = _NO_TERMS
        affinity = spec.get("affinity")
        if spec.get("nodeSelector") or affinity:
            self.required_nodes = RequiredNodeAffinity(spec) or None
        #: What it asks of other pods.
        self.affinity = NO_POD_AFFINITY
        if affinity:
            self.preferred_nodes = read_preferred_node_affinity(spec)
            self.affinity = PodAffinity(affinity, self.namespace, self.labels)
        #: How it is to be spread.
        self.spread = read_spread_constraints(spec, self.labels)

    def invalid(self, error: InvalidObject) -> InvalidPod:
        """Return `error` with the pod's name."""
        return _make_invalid_pod(self.pod, error)


def _make_invalid_pod(pod: object, error: InvalidObject) -> InvalidPod:
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    named = metadata if isinstance(metadata, dict) else {}
    who = f"pod {named.get('namespace') or 'default'}/{named.get('name') or ''}"
    return InvalidPod(error.what.lstrip("."), error.value, error.valid, who)
