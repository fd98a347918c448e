"""The InterPodAffinity plugin: affinity and anti-affinity to other pods.

Source: kube-scheduler, framework/plugins/interpodaffinity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_kwait.scheduler.framework.cycle_state import CycleState, NodeCheck, Rejection
from pytest_kwait.scheduler.plugins.priorities import MAX_NODE_SCORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import AffinityTerm, PodInfo

_AFFINITY_UNMET = Rejection(("node(s) didn't match pod affinity rules",))
_ANTI_AFFINITY_UNMET = Rejection(("node(s) didn't match pod anti-affinity rules",), resolvable=True)
_EXISTING_ANTI_AFFINITY_UNMET = Rejection(
    ("node(s) didn't satisfy existing pods anti-affinity rules",), True
)

# The number of pods by topology domain: a node label and its value.
_TopologyCounts = Counter[tuple[str, str]]


def pod_affinity_holds(cycle: CycleState) -> NodeCheck | None:
    """Require the pods of affinity terms in the node's domain, and none of anti-affinity terms.

    Source: kube-scheduler, framework/plugins/interpodaffinity/filtering.go.
    """
    own = cycle.pod.affinity
    repelled = _count_existing_anti_affinity(cycle)
    if not (repelled or own.required or own.required_apart):
        return None
    affinity_counts, unwanted = _count_incoming_terms(cycle)
    # The first pod of a group with affinity to itself has no other pod yet.
    first = not affinity_counts and _matches_itself(cycle)

    def check(info: NodeInfo) -> Rejection | None:
        labels = info.labels
        has_match = True
        for term in own.required:
            value = labels.get(term.topology_key)
            if value is None:
                return _AFFINITY_UNMET
            has_match = has_match and affinity_counts[term.topology_key, value] > 0
        if not has_match and not first:
            return _AFFINITY_UNMET
        if unwanted:
            for term in own.required_apart:
                value = labels.get(term.topology_key)
                if value is not None and unwanted[term.topology_key, value] > 0:
                    return _ANTI_AFFINITY_UNMET
        if repelled and any(place in repelled for place in labels.items()):
            return _EXISTING_ANTI_AFFINITY_UNMET
        return None

    return check


def _count_existing_anti_affinity(cycle: CycleState) -> _TopologyCounts:
    """Return the domains of existing pods with anti-affinity to the new one."""
    places: _TopologyCounts = Counter()
    for info in cycle.nodes:
        if info.required_anti_affinity:
            for term, number in info.required_anti_affinity.items():
                if _existing_term_matches(cycle, term):
                    _add_topology_count(places, term, info, number)
    return places


def _count_incoming_terms(cycle: CycleState) -> tuple[_TopologyCounts, _TopologyCounts]:
    """Return the domains of pods that the new one has affinity and anti-affinity to."""
    affinity_counts: _TopologyCounts = Counter()
    unwanted: _TopologyCounts = Counter()
    own = cycle.pod.affinity
    together = _TermCounter(cycle, own.required) if own.required else None
    apart = [(term, _TermCounter(cycle, (term,))) for term in own.required_apart]
    if together or apart:
        for info in cycle.nodes:
            number = together.count(info) if together else 0
            if number:
                for term in own.required:
                    _add_topology_count(affinity_counts, term, info, number)
            for term, question in apart:
                _add_topology_count(unwanted, term, info, question.count(info))
    return affinity_counts, unwanted


def _add_topology_count(
    places: _TopologyCounts, term: AffinityTerm, info: NodeInfo, number: int
) -> None:
    value = info.labels.get(term.topology_key)
    if value is not None and number:
        places[term.topology_key, value] += number


class _TermCounter:
    """Counts a node's pods that match all of some terms of the incoming pod."""

    def __init__(self, cycle: CycleState, terms: Sequence[AffinityTerm]) -> None:
        self._terms = terms
        self._labels_of = cycle.namespace_labels
        lasting = all(term.is_memoizable for term in terms)
        self._key = " and ".join(term.key for term in terms) if lasting else ""

    def matches_pod(self, pod: PodInfo) -> bool:
        return all(
            term.matches_pod(pod.namespace, pod.labels, self._labels_of, of_incoming=True)
            for term in self._terms
        )

    def count(self, info: NodeInfo) -> int:
        """Return the number of matching pods on a node."""
        return info.count(self._key, self.matches_pod)


def _existing_term_matches(cycle: CycleState, term: AffinityTerm) -> bool:
    pod = cycle.pod
    return term.matches_pod(pod.namespace, pod.labels, cycle.namespace_labels, of_incoming=False)


def _matches_itself(cycle: CycleState) -> bool:
    required = cycle.pod.affinity.required
    return bool(required) and _TermCounter(cycle, required).matches_pod(cycle.pod)


def score_inter_pod_affinity(
    cycle: CycleState, fitting: Sequence[NodeInfo], hard_weight: int = 1
) -> Sequence[int] | None:
    """Score by preferred affinity terms, the pod's own and those of existing pods.

    Args:
        cycle: the pod and all nodes.
        fitting: the nodes to score.
        hard_weight: the weight of a required term of an existing pod.

    Source: kube-scheduler, framework/plugins/interpodaffinity/scoring.go.
    """
    places: dict[str, Counter[str]] = defaultdict(Counter)
    own = cycle.pod.affinity
    terms = [(weight, term, _TermCounter(cycle, (term,))) for weight, term in own.preferred]
    terms += [(-weight, term, _TermCounter(cycle, (term,))) for weight, term in own.preferred_apart]
    matching: dict[AffinityTerm, bool] = {}
    for info in cycle.nodes:
        labels = info.labels
        for weight, term, question in terms:
            value = labels.get(term.topology_key)
            if value is not None:
                number = question.count(info)
                if number and weight:
                    places[term.topology_key][value] += weight * number
        if not info.weighted_terms:
            continue
        for (term_weight, term), number in info.weighted_terms.items():
            value = labels.get(term.topology_key)
            weight = hard_weight if term_weight is None else term_weight
            if value is None or not weight:
                continue
            matches = matching.get(term)
            if matches is None:
                matches = matching[term] = _existing_term_matches(cycle, term)
            if matches:
                places[term.topology_key][value] += weight * number
    if not places:
        return None
    sums = [
        sum(values[info.labels[key]] for key, values in places.items() if key in info.labels)
        for info in fitting
    ]
    least, most = min(sums), max(sums)
    if least == most:
        return None
    return [int(MAX_NODE_SCORE * ((total - least) / (most - least))) for total in sums]
