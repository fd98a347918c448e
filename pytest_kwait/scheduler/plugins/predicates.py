"""Predicates, one function per plugin, check whether a pod fits a node.

Each takes the `CycleState` and returns the check to run on every node, or None if no check is
needed, as upstream's PreFilter and Filter do together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.cycle_state import (
    CycleState,
    NodeCheck,
    NoNodeError,
    PreFilterResult,
    Rejection,
)
from pytest_kwait.scheduler.framework.pod_info import (
    NATIVE_RESOURCES,
    find_untolerated_taint,
    has_port_conflict,
    tolerates,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import PodInfo, ResourceAmounts

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

_UNSCHEDULABLE = Rejection(("node(s) were unschedulable",))
_OTHER_NAME = Rejection(("node(s) didn't match the requested node name",))
_TAINTED = Rejection(("node(s) had untolerated taint(s)",))
_NOT_SELECTED = Rejection(("node(s) didn't match Pod's node affinity/selector",))
_PORTS_TAKEN = Rejection(
    ("node(s) didn't have free ports for the requested pod ports",), resolvable=True
)


def list_scheduling_gates(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the scheduling gates that hold `pod`."""
    return [gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def node_is_schedulable(cycle: CycleState) -> NodeCheck | None:
    """Reject cordoned nodes unless the pod tolerates them.

    Source: kube-scheduler, framework/plugins/nodeunschedulable/node_unschedulable.go.
    """
    if not any([info.unschedulable for info in cycle.nodes]):  # noqa: C419 - twice as fast
        return None
    if any(tolerates(toleration, _UNSCHEDULABLE_TAINT) for toleration in cycle.pod.tolerations):
        return None
    return lambda info: _UNSCHEDULABLE if info.unschedulable else None


def node_has_requested_name(cycle: CycleState) -> NodeCheck | None:
    """Require the node that is named in the pod's spec.

    Source: kube-scheduler, framework/plugins/nodename/node_name.go.
    """
    node_name = cycle.pod.node_name
    if not node_name:
        return None
    return lambda info: None if info.name == node_name else _OTHER_NAME


def taints_are_tolerated(cycle: CycleState) -> NodeCheck | None:
    """Require tolerations of taints with NoSchedule or NoExecute.

    Source: kube-scheduler, framework/plugins/tainttoleration/taint_toleration.go.
    """
    if not any([info.repelling for info in cycle.nodes]):  # noqa: C419 - twice as fast
        return None
    tolerations = cycle.pod.tolerations

    def check(info: NodeInfo) -> Rejection | None:
        if not info.repelling or find_untolerated_taint(info.repelling, tolerations) is None:
            return None
        return _TAINTED

    return check


def node_is_selected(cycle: CycleState) -> NodeCheck | PreFilterResult | None:
    """Require the labels of `nodeSelector` and of the required node affinity.

    Source: kube-scheduler, framework/plugins/nodeaffinity/node_affinity.go.
    """
    required = cycle.pod.required_nodes
    if required is None:
        return None
    matches, names = required.matches, required.names
    if names is not None and not names:
        raise NoNodeError("pod affinity terms conflict")

    def check(info: NodeInfo) -> Rejection | None:
        return None if matches(info.name, info.labels) else _NOT_SELECTED

    return check if names is None else PreFilterResult(names, check)


def host_ports_are_free(cycle: CycleState) -> NodeCheck | None:
    """Require that no pod of the node uses the same host port.

    Source: kube-scheduler, framework/plugins/nodeports/node_ports.go.
    """
    ports = cycle.pod.ports
    if not ports:
        return None
    return lambda info: _PORTS_TAKEN if has_port_conflict(ports, info.used_ports) else None


def resources_suffice(cycle: CycleState) -> NodeCheck | None:
    """Require room for one more pod and for its requests.

    Source: kube-scheduler, framework/plugins/noderesources/fit.go, `fitsRequest`.
    """
    amounts = tuple((name, amount) for name, amount in cycle.pod.requests.items() if amount > 0)

    def check(info: NodeInfo) -> Rejection | None:
        allocatable, requested = info.allocatable, info.requested
        if info.pod_count < info.pods_allowed:
            for name, amount in amounts:
                if amount > allocatable.get(name, 0) - requested.get(name, 0):
                    break
            else:
                return None
        return _missing_resources(cycle.pod.requests, info)

    return check


def _missing_resources(requests: ResourceAmounts, info: NodeInfo) -> Rejection:
    reasons = ["Too many pods"] if info.pod_count >= info.pods_allowed else []
    resolvable = True
    for name in sorted(requests, key=_resource_order):
        amount, capacity = requests[name], info.allocatable.get(name, 0)
        if amount > 0 and amount > capacity - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= capacity
    return Rejection(tuple(reasons), resolvable)


def _resource_order(name: str) -> tuple[int, str]:
    known = name in NATIVE_RESOURCES
    return (NATIVE_RESOURCES.index(name), "") if known else (len(NATIVE_RESOURCES), name)


_ADMISSION = (resources_suffice, node_is_selected, node_has_requested_name, host_ports_are_free)


def find_rejection(pod: PodInfo, info: NodeInfo) -> Rejection | None:
    """Return why a bound pod may not run on its node; None if it may.

    This is a kubelet's admission check, without taints and without pods of other nodes.

    Source: kube-scheduler, scheduler.go, `AdmissionCheck`.
    """
    cycle = CycleState(pod, (info,))
    for predicate in _ADMISSION:
        try:
            check = predicate(cycle)
        except NoNodeError:
            return _NOT_SELECTED
        if isinstance(check, PreFilterResult):
            check = check.check
        rejection = check(info) if check is not None else None
        if rejection is not None:
            return rejection
    return None
