"""Whether a pod fits a node: one function per question, asked in kube-scheduler's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.node_selectors import node_matches_pod_affinity
from pytest_kwait.scheduler.algorithm.requests import (
    Amounts,
    HostPort,
    host_ports,
    ports_conflict,
    resource_requests,
)
from pytest_kwait.scheduler.algorithm.tolerations import tolerates, untolerated_taint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.scheduler.algorithm.node_info import NodeInfo

__all__ = ["PREDICATES", "Demand", "Rejection", "find_rejection", "waiting_gates"]

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod may not go to a node.

    Args:
        reasons: the reasons in kube-scheduler's words.
        resolvable: whether pods that leave the node could change it.
    """

    reasons: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod and what is summed up of it once, before it is held against many nodes."""

    pod: dict[str, Any]
    requests: Amounts
    ports: frozenset[HostPort]

    @classmethod
    def of(cls, pod: dict[str, Any]) -> Demand:
        """Return the demand of `pod`."""
        return cls(pod, resource_requests(pod), frozenset(host_ports(pod)))


def waiting_gates(pod: dict[str, Any]) -> list[str]:
    """Return the scheduling gates that keep `pod` from being looked at at all, by name."""
    return [gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def _tolerations(demand: Demand) -> list[dict[str, Any]]:
    return demand.pod["spec"].get("tolerations") or []


def node_is_schedulable(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Cordoned nodes take only pods that tolerate it."""
    if not (info.node.get("spec") or {}).get("unschedulable"):
        return None
    if any(tolerates(one, _UNSCHEDULABLE_TAINT) for one in _tolerations(demand)):
        return None
    return Rejection(("node(s) were unschedulable",), resolvable=False)


def node_has_requested_name(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Hold a pod that names its node to that node."""
    wanted = demand.pod["spec"].get("nodeName")
    if not wanted or wanted == info.name:
        return None
    return Rejection(("node(s) didn't match the requested node name",), resolvable=False)


def taints_are_tolerated(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Taints with NoSchedule or NoExecute need a toleration."""
    taints = (info.node.get("spec") or {}).get("taints") or ()
    if untolerated_taint(taints, _tolerations(demand)) is None:
        return None
    return Rejection(("node(s) had untolerated taint(s)",), resolvable=False)


def node_is_selected(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Ask for the labels of `nodeSelector` and for what node affinity requires."""
    if node_matches_pod_affinity(demand.pod, info.node):
        return None
    return Rejection(("node(s) didn't match Pod's node affinity/selector",), resolvable=False)


def host_ports_are_free(demand: Demand, info: NodeInfo) -> Rejection | None:
    """No other pod of the node takes the same host port."""
    if not demand.ports or not ports_conflict(set(demand.ports), info.used_ports):
        return None
    reason = "node(s) didn't have free ports for the requested pod ports"
    return Rejection((reason,), resolvable=True)


def resources_suffice(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Room for one more pod and for everything it requests.

    Source: kube-scheduler, framework/plugins/noderesources/fit.go, `fitsRequest`.
    """
    reasons = []
    resolvable = True
    if info.pod_count + 1 > info.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name in sorted(demand.requests, key=_resource_order):
        wanted = demand.requests[name]
        capacity = info.allocatable.get(name, 0)
        if wanted > 0 and wanted > capacity - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and wanted <= capacity
    return Rejection(tuple(reasons), resolvable) if reasons else None


def _resource_order(name: str) -> tuple[int, str]:
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(name), "") if name in first else (len(first), name)


PREDICATES: tuple[Callable[[Demand, NodeInfo], Rejection | None], ...] = (
    node_is_schedulable,
    node_has_requested_name,
    taints_are_tolerated,
    node_is_selected,
    host_ports_are_free,
    resources_suffice,
)


def find_rejection(demand: Demand, info: NodeInfo) -> Rejection | None:
    """Return the first predicate's rejection; None where the pod fits."""
    for predicate in PREDICATES:
        rejection = predicate(demand, info)
        if rejection is not None:
            return rejection
    return None
