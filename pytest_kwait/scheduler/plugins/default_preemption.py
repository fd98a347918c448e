"""The decisions of the DefaultPreemption plugin: victims on a node, and the best node.

Source: kube-scheduler, framework/plugins/defaultpreemption/default_preemption.go,
framework/preemption/preemption.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.cycle_state import Rejection
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.framework.object_fields import read_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister

Pod = dict[str, Any]

NO_VICTIMS = Rejection(("No preemption victims found for incoming pod",))
_PRIORITY_OFFSET = 1 << 31


def get_pod_priority(pod: Mapping[str, Any]) -> int:
    """Return the pod's priority; 0 if unset."""
    return int((pod.get("spec") or {}).get("priority") or 0)


def _start_time(pod: Pod) -> str:
    """Return its start time; a pod without one is the youngest."""
    return str((pod.get("status") or {}).get("startTime") or "~")


def _importance_key(pod: Pod) -> tuple[int, str]:
    return -get_pod_priority(pod), _start_time(pod)


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node and the pods to preempt there.

    Args:
        node: its name.
        victims: the pods, the most important one first; at least one.
        violations: the number of victims that violate a disruption budget.
    """

    node: str
    victims: Sequence[Pod]
    violations: int


def clone_node_info(info: NodeInfo) -> NodeInfo:
    """Return a copy of the node with its pods, to simulate changes on."""
    copy = NodeInfo(info.node)
    for pod in info.pods:
        copy.add(pod.pod)
    return copy


class OverlayNodeLister:
    """A lister with simulated states of some nodes.

    Args:
        lister: the current nodes.
        changed: the simulated nodes, by name.
    """

    def __init__(self, lister: NodeLister, changed: Mapping[str, NodeInfo]) -> None:
        self._lister = lister
        self._changed = changed

    def list(self) -> Sequence[NodeInfo]:
        """Return all nodes."""
        return [self._changed.get(info.name, info) for info in self._lister.list()]

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""
        get = getattr(self._lister, "namespace_labels", None)
        labels: Mapping[str, str] | None = {} if get is None else get(name)
        return labels

    def spread_selectors(self, pod: Pod) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the pod's services and controller."""
        get = getattr(self._lister, "spread_selectors", None)
        selectors: Sequence[Mapping[str, Any]] = () if get is None else get(pod)
        return selectors


def select_victims_on_node(
    info: NodeInfo,
    pod: Pod,
    budgets: Sequence[Mapping[str, Any]],
    fits: Callable[[NodeInfo], Rejection | None],
) -> PreemptionCandidate | Rejection:
    """Return the victims whose removal makes `pod` fit, or why preemption does not help.

    Args:
        info: a copy of the node; it is changed.
        pod: the pod to schedule.
        budgets: all disruption budgets.
        fits: returns the rejection of the pod by the node in its current state; None if it fits.

    Source: `SelectVictimsOnNode`.
    """
    pod_priority = get_pod_priority(pod)
    lower = [
        pod_info.pod for pod_info in info.pods if get_pod_priority(pod_info.pod) < pod_priority
    ]
    if not lower:
        return NO_VICTIMS
    for victim in lower:
        info.remove(victim)
    why = fits(info)
    if why is not None:
        return why
    guarded, free = _filter_budget_violations(sorted(lower, key=_importance_key), budgets)
    victims: list[Pod] = []
    violations = 0
    for group, counts in ((guarded, True), (free, False)):
        for victim in group:
            # Reprieve the victims that fit beside the pod.
            info.add(victim)
            if fits(info) is None:
                continue
            info.remove(victim)
            victims.append(victim)
            violations += counts
    return PreemptionCandidate(info.name, sorted(victims, key=_importance_key), violations)


def _filter_budget_violations(
    pods: Iterable[Pod], budgets: Sequence[Mapping[str, Any]]
) -> tuple[list[Pod], list[Pod]]:
    """Return the pods whose eviction violates a budget, and the others.

    Source: `filterPodsWithPDBViolation`.
    """
    allowed = [
        int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in budgets
    ]
    guarded: list[Pod] = []
    free: list[Pod] = []
    for pod in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if not _is_covered_by_budget(budget, pod):
                continue
            allowed[index] -= 1
            violated = violated or allowed[index] < 0
        (guarded if violated else free).append(pod)
    return guarded, free


def _is_covered_by_budget(budget: Mapping[str, Any], pod: Pod) -> bool:
    metadata, selector = pod["metadata"], (budget.get("spec") or {}).get("selector")
    disrupted = (budget.get("status") or {}).get("disruptedPods") or ()
    return bool(
        metadata.get("labels")
        and budget["metadata"]["namespace"] == metadata["namespace"]
        and selector
        and (selector.get("matchLabels") or selector.get("matchExpressions"))
        and metadata["name"] not in disrupted
        and read_label_selector(selector).matches(metadata["labels"])
    )


def pick_one_candidate(candidates: Sequence[PreemptionCandidate]) -> PreemptionCandidate:
    """Return the candidate with the least important victims; the first of equal ones.

    Source: `pickOneNodeForPreemption`.
    """
    best = min(candidates, key=_preference_key)
    equals = [
        candidate for candidate in candidates if _preference_key(candidate) == _preference_key(best)
    ]
    return max(equals, key=_earliest_start)


def _preference_key(candidate: PreemptionCandidate) -> tuple[int, int, int, int]:
    priorities = [get_pod_priority(pod) for pod in candidate.victims]
    return (
        candidate.violations,
        max(priorities),
        sum(priority + _PRIORITY_OFFSET for priority in priorities),
        len(priorities),
    )


def _earliest_start(candidate: PreemptionCandidate) -> str:
    most = max(get_pod_priority(pod) for pod in candidate.victims)
    return min(_start_time(pod) for pod in candidate.victims if get_pod_priority(pod) == most)
