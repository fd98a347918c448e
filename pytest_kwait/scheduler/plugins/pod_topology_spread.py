"""The PodTopologySpread plugin: even distribution of pods over topology domains.

Source: kube-scheduler, framework/plugins/podtopologyspread, framework/plugins/helper/spread.go.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors import LabelSelector
from pytest_kwait.scheduler.framework.cycle_state import CycleState, NodeCheck, Rejection
from pytest_kwait.scheduler.framework.object_fields import read_label_selector
from pytest_kwait.scheduler.framework.pod_info import (
    TopologySpreadConstraint,
    find_untolerated_taint,
)
from pytest_kwait.scheduler.plugins.priorities import MAX_NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import PodInfo

_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_SPREADING_OWNERS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}

_SKEW_EXCEEDED = Rejection(
    ("node(s) didn't match pod topology spread constraints",), resolvable=True
)
_TOPOLOGY_LABEL_MISSING = Rejection(
    ("node(s) didn't match pod topology spread constraints (missing required label)",)
)


def pods_are_spread(cycle: CycleState) -> NodeCheck | None:
    """Require that no domain exceeds the emptiest one by more than the allowed skew.

    Source: kube-scheduler, framework/plugins/podtopologyspread/filtering.go.
    """
    pod = cycle.pod
    constraints = [constraint for constraint in pod.spread if constraint.must]
    if not constraints:
        return None
    counts = _count_by_domain(cycle, constraints)
    # (label, pods by its value, the maximum of a domain before the pod is added)
    rules: list[tuple[str, Counter[str], int]] = []
    for constraint, places in zip(constraints, counts, strict=True):
        enough = places and len(places) >= constraint.min_domains
        fewest = min(places.values()) if enough else 0
        itself = constraint.selector.matches(pod.labels)
        rules.append((constraint.topology_key, places, constraint.max_skew + fewest - itself))

    def check(info: NodeInfo) -> Rejection | None:
        for key, places, allowed in rules:
            value = info.labels.get(key)
            if value is None:
                return _TOPOLOGY_LABEL_MISSING
            if places[value] > allowed:
                return _SKEW_EXCEEDED
        return None

    return check


def _count_by_domain(
    cycle: CycleState, constraints: Sequence[TopologySpreadConstraint]
) -> list[Counter[str]]:
    counts: list[Counter[str]] = [Counter() for _ in constraints]
    for info in cycle.nodes:
        values = [info.labels.get(constraint.topology_key) for constraint in constraints]
        if None in values:
            continue
        for constraint, value, places in zip(constraints, values, counts, strict=True):
            if value is not None and _is_node_included(constraint, cycle.pod, info):
                places[value] += _count_matching_pods(constraint, cycle.pod, info)
    return counts


def _is_node_included(constraint: TopologySpreadConstraint, pod: PodInfo, info: NodeInfo) -> bool:
    """Return whether the pods of a node count, by the constraint's policies.

    Source: kube-scheduler, framework/plugins/podtopologyspread/common.go,
    `matchNodeInclusionPolicies`.
    """
    required = pod.required_nodes if constraint.honor_affinity else None
    if required is not None and not required.matches(info.name, info.labels):
        return False
    return not constraint.honor_taints or (
        find_untolerated_taint(info.repelling, pod.tolerations) is None
    )


def _count_matching_pods(constraint: TopologySpreadConstraint, pod: PodInfo, info: NodeInfo) -> int:
    """Return the number of matching pods on the node; a selector of everything matches none.

    Source: kube-scheduler, framework/plugins/podtopologyspread/common.go, `countPodsMatchSelector`.
    """
    selector = constraint.selector
    if selector.everything or selector.nothing or not info.pod_count:
        return 0
    return info.selected(pod.namespace, selector)


def score_pod_topology_spread(
    cycle: CycleState, fitting: Sequence[NodeInfo]
) -> Sequence[int] | None:
    """Score domains with fewer matching pods higher.

    Pods without constraints are spread by node and zone with the selectors of their services and
    controllers.

    Source: kube-scheduler, framework/plugins/podtopologyspread/scoring.go.
    """
    pod = cycle.pod
    own = bool(pod.spread)
    constraints = (
        [constraint for constraint in pod.spread if not constraint.must]
        if own
        else build_default_constraints(cycle.spread_selectors())
    )
    if not constraints:
        return None
    # Default constraints apply only with labels that the nodes have.
    left_out = {
        info.name
        for info in fitting
        if own and any(constraint.topology_key not in info.labels for constraint in constraints)
    }
    scored = [info for info in fitting if info.name not in left_out]
    rated = [0.0] * len(scored)
    for constraint in constraints:
        rating = _DomainScores(cycle, constraint, constraints, scored, own=own)
        rated = [score + more for score, more in zip(rated, rating.of(scored), strict=True)]
    # Halves are rounded up, as upstream.
    sums = [math.floor(score + 0.5) for score in rated]
    most, least = max(sums, default=0), min(sums, default=0)
    scores = {
        info.name: MAX_NODE_SCORE * (most + least - score) // most if most else MAX_NODE_SCORE
        for info, score in zip(scored, sums, strict=True)
    }
    return [scores.get(info.name, 0) for info in fitting]


class _DomainScores:
    """The number of matching pods by domain, weighted against other constraints."""

    def __init__(
        self,
        cycle: CycleState,
        constraint: TopologySpreadConstraint,
        constraints: Sequence[TopologySpreadConstraint],
        scored: Sequence[NodeInfo],
        *,
        own: bool,
    ) -> None:
        self._pod = cycle.pod
        self._constraint = constraint
        key = constraint.topology_key
        self._places: dict[str, int] = {}
        size = len(scored)
        if key != _HOSTNAME:
            self._places = {info.labels.get(key, ""): 0 for info in scored}
            size = len(self._places)
            # If no node has the label, there is no domain.
            for info in cycle.nodes if any(key in info.labels for info in scored) else ():
                value = info.labels.get(key, "")
                if value not in self._places or not _is_node_included(constraint, cycle.pod, info):
                    continue
                if not own or all(
                    spread_constraint.topology_key in info.labels
                    for spread_constraint in constraints
                ):
                    self._places[value] += _count_matching_pods(constraint, cycle.pod, info)
        self._weight = math.log(size + 2)

    def of(self, scored: Sequence[NodeInfo]) -> list[float]:
        """Return the scores to add to nodes; 0 for a node without a domain."""
        constraint, pod, places, weight = self._constraint, self._pod, self._places, self._weight
        key, more = constraint.topology_key, constraint.max_skew - 1
        if key == _HOSTNAME:
            return [
                _count_matching_pods(constraint, pod, info) * weight + more
                if key in info.labels
                else 0.0
                for info in scored
            ]
        return [
            places[info.labels[key]] * weight + more if key in info.labels else 0.0
            for info in scored
        ]


def build_default_constraints(
    selectors: Sequence[Mapping[str, Any]],
) -> tuple[TopologySpreadConstraint, ...]:
    """Return the default constraints of pods without their own: soft, by node and zone.

    Args:
        selectors: the label selectors of the pod's services and controller; none means no
            spreading.

    Source: kube-scheduler, framework/plugins/podtopologyspread/plugin.go,
    `systemDefaultConstraints`; common.go, `buildDefaultConstraints`.
    """
    requirements = [
        requirement
        for selector in selectors
        for requirement in read_label_selector(selector).requirements
    ]
    if not requirements:
        return ()
    selector = LabelSelector(requirements)
    return (
        TopologySpreadConstraint(_HOSTNAME, 3, False, selector),
        TopologySpreadConstraint(_ZONE, 5, False, selector),
    )


def find_spreading_controller(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return kind and name of the controller whose selector spreads `pod`; None for none.

    Only replication controllers, replica sets and stateful sets spread their pods.
    """
    for owner in (pod.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            kind = owner.get("kind")
            if kind in _SPREADING_OWNERS and owner.get("apiVersion") == _SPREADING_OWNERS[kind]:
                return kind, owner.get("name") or ""
            return None
    return None


def collect_spread_selectors(
    pod: Mapping[str, Any],
    services: Iterable[Mapping[str, Any]],
    controller: Mapping[str, Any] | None,
) -> list[Mapping[str, Any]]:
    """Return the label selectors of the pod's services and controller.

    Used by `NodeLister.spread_selectors`.

    Args:
        pod: the Pod as the API has it.
        services: the services of its namespace.
        controller: the object from `find_spreading_controller`; None without one.

    Source: kube-scheduler, framework/plugins/helper/spread.go, `DefaultSelector`.
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    spread_selectors: list[Mapping[str, Any]] = []
    for service in services:
        service_selector = (service.get("spec") or {}).get("selector")
        if service_selector and all(
            labels.get(key) == value for key, value in service_selector.items()
        ):
            spread_selectors.append({"matchLabels": service_selector})
    selector = (controller.get("spec") or {}).get("selector") if controller else None
    if selector:
        # A replication controller's selector is a plain mapping of labels.
        plain = all(isinstance(value, str) for value in selector.values())
        spread_selectors.append({"matchLabels": selector} if plain else selector)
    return spread_selectors
