"""Making room: pods that leave their node because a more important one fits nowhere else.

Source: kube-scheduler, framework/preemption/preemption.go, executor.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.fit_errors import format_fit_error
from pytest_kwait.scheduler.framework.cycle_state import Rejection
from pytest_kwait.scheduler.plugins.default_preemption import (
    NO_VICTIMS,
    Candidate,
    OverlayNodeLister,
    clone_node_info,
    get_pod_priority,
    pick_one_candidate,
    select_victims_on_node,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import get_condition, is_being_deleted
from pytest_kwait.simulator.event_recorder import NORMAL
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.scheduler.algorithm import Algorithm
    from pytest_kwait.scheduler.fit_errors import FitError
    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.event_recorder import SchedulingRecorder

__all__ = ["TERMINATING", "evict_victims", "find_candidate", "is_preemption_victim"]

TERMINATING = "not eligible due to a terminating pod on the nominated node."
_BUDGETS = "poddisruptionbudgets.policy"
_REASON = "PreemptionByScheduler"
_NOT_HELPFUL = Rejection(("Preemption is not helpful for scheduling",))
# Nodes that are tried at most: a tenth of them, at least so many.
_MIN_CANDIDATES = 100


def is_preemption_victim(pod: Obj) -> bool:
    """Whether the pod is going because the scheduler wants its place."""
    target = get_condition(pod, "DisruptionTarget")
    return is_being_deleted(pod) and target is not None and target.get("reason") == _REASON


def find_candidate(
    api: SimulatedCluster, algorithm: Algorithm, lister: NodeLister, pod: Obj, error: FitError
) -> tuple[Candidate | None, str]:
    """Return where `pod` could go if others left, None for nowhere, and what is said of it.

    Args:
        api: the cluster.
        algorithm: decides whether it fits.
        lister: the nodes.
        pod: a pod that fits nowhere.
        error: why.
    """
    if error.reason or not error.may_preempt:
        return None, str(error)
    nodes = {info.name: info for info in lister.list()}
    nominated = nodes.get((pod.get("status") or {}).get("nominatedNodeName") or "")
    if nominated is not None and _has_terminating_victims(nominated, pod):
        return None, format_fit_error([*error.rejections.values()], preemption=TERMINATING)
    budgets = api.list(_BUDGETS)
    told: list[Rejection] = []
    candidates: list[Candidate] = []
    most = max(len(nodes) // 10, _MIN_CANDIDATES)
    for name, rejection in error.rejections.items():
        found: Candidate | Rejection = _NOT_HELPFUL
        if rejection.resolvable and len(candidates) < most:
            found = _try_preemption(algorithm, lister, nodes[name], pod, budgets)
        if isinstance(found, Rejection):
            told.append(found)
        else:
            candidates.append(found)
    if candidates:
        return pick_one_candidate(candidates), format_fit_error(
            [*error.rejections.values()], preemption=""
        )
    return None, format_fit_error([*error.rejections.values()], tried=told)


def _has_terminating_victims(info: NodeInfo, pod: Obj) -> bool:
    """Whether somebody is leaving the node for it already."""
    own = get_pod_priority(pod)
    return any(
        get_pod_priority(one.pod) < own and is_preemption_victim(one.pod) for one in info.pods
    )


def _try_preemption(
    algorithm: Algorithm, lister: NodeLister, info: NodeInfo, pod: Obj, budgets: list[Obj]
) -> Candidate | Rejection:
    own = get_pod_priority(pod)
    if not any(get_pod_priority(one.pod) < own for one in info.pods):
        return NO_VICTIMS
    copy = clone_node_info(info)
    stand = OverlayNodeLister(lister, {info.name: copy})
    return select_victims_on_node(
        copy, pod, budgets, lambda node: algorithm.rejection(pod, stand, node)
    )


def evict_victims(
    api: SimulatedCluster, recorder: SchedulingRecorder, pod: Obj, candidate: Candidate
) -> None:
    """Have the victims leave, and say of each why.

    Who was promised a place on the node and is less important is promised none any more.

    Args:
        api: the cluster.
        recorder: tells of it.
        pod: who comes.
        candidate: where, and instead of whom.
    """
    for victim in candidate.victims:
        if is_being_deleted(victim):
            continue
        try:
            _add_disruption_condition(api, victim)
            api.delete("pods", name_of(victim), namespace_of(victim), uid=uid_of(victim))
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            continue
        message = f"Preempted by pod {uid_of(pod)} on node {candidate.node}"
        recorder.event(victim, NORMAL, "Preempted", "Preempting", message)


def _add_disruption_condition(api: SimulatedCluster, victim: Obj) -> None:
    changed = clone(api.get("pods", name_of(victim), namespace_of(victim)))
    conditions = changed.setdefault("status", {}).setdefault("conditions", [])
    scheduler = victim["spec"].get("schedulerName", "default-scheduler")
    target: Obj = {
        "type": "DisruptionTarget",
        "observedGeneration": victim["metadata"].get("generation", 1),
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": api.clock.stamp(),
        "reason": _REASON,
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
    }
    conditions[:] = [one for one in conditions if one["type"] != "DisruptionTarget"]
    conditions.append(target)
    api.update_status("pods", changed)
