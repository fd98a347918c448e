"""Making room: pods that leave their node because a more important one fits nowhere else.

Source: kube-scheduler, framework/preemption/preemption.go, executor.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.cycle import Rejection
from pytest_kwait.scheduler.algorithm.fit_errors import fit_error
from pytest_kwait.scheduler.algorithm.preemption import (
    NO_VICTIMS,
    Candidate,
    Stand,
    best_candidate,
    copy_of,
    priority_of,
    victims_on,
)
from pytest_kwait.simulator.conditions import condition_of, is_being_deleted
from pytest_kwait.simulator.events import NORMAL
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of, uid_of
from pytest_kwait.simulator.status_error import StatusError

if TYPE_CHECKING:
    from pytest_kwait.scheduler.algorithm.cycle import NodeLister
    from pytest_kwait.scheduler.algorithm.fit_errors import FitError
    from pytest_kwait.scheduler.algorithm.generic import Algorithm
    from pytest_kwait.scheduler.algorithm.node_info import NodeInfo
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.events import SchedulingRecorder

__all__ = ["TERMINATING", "is_preempted", "make_room", "preempt"]

TERMINATING = "not eligible due to a terminating pod on the nominated node."
_BUDGETS = "poddisruptionbudgets.policy"
_REASON = "PreemptionByScheduler"
_NOT_HELPFUL = Rejection(("Preemption is not helpful for scheduling",))
# Nodes that are tried at most: a tenth of them, at least so many.
_LEAST_TRIED = 100


def is_preempted(pod: Obj) -> bool:
    """Whether the pod is going because the scheduler wants its place."""
    target = condition_of(pod, "DisruptionTarget")
    return is_being_deleted(pod) and target is not None and target.get("reason") == _REASON


def make_room(
    api: ClusterApi, algorithm: Algorithm, lister: NodeLister, pod: Obj, error: FitError
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
    if nominated is not None and _waits_for(nominated, pod):
        return None, fit_error([*error.rejections.values()], preemption=TERMINATING)
    budgets = api.list(_BUDGETS)
    told: list[Rejection] = []
    candidates: list[Candidate] = []
    most = max(len(nodes) // 10, _LEAST_TRIED)
    for name, rejection in error.rejections.items():
        found: Candidate | Rejection = _NOT_HELPFUL
        if rejection.resolvable and len(candidates) < most:
            found = _try(algorithm, lister, nodes[name], pod, budgets)
        if isinstance(found, Rejection):
            told.append(found)
        else:
            candidates.append(found)
    if candidates:
        return best_candidate(candidates), fit_error([*error.rejections.values()], preemption="")
    return None, fit_error([*error.rejections.values()], tried=told)


def _waits_for(info: NodeInfo, pod: Obj) -> bool:
    """Whether somebody is leaving the node for it already."""
    own = priority_of(pod)
    return any(priority_of(one.pod) < own and is_preempted(one.pod) for one in info.pods)


def _try(
    algorithm: Algorithm, lister: NodeLister, info: NodeInfo, pod: Obj, budgets: list[Obj]
) -> Candidate | Rejection:
    own = priority_of(pod)
    if not any(priority_of(one.pod) < own for one in info.pods):
        return NO_VICTIMS
    copy = copy_of(info)
    stand = Stand(lister, {info.name: copy})
    return victims_on(copy, pod, budgets, lambda node: algorithm.rejection(pod, stand, node))


def preempt(api: ClusterApi, recorder: SchedulingRecorder, pod: Obj, candidate: Candidate) -> None:
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
            _mark(api, victim)
            api.delete("pods", name_of(victim), namespace_of(victim), uid=uid_of(victim))
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            continue
        message = f"Preempted by pod {uid_of(pod)} on node {candidate.node}"
        recorder.event(victim, NORMAL, "Preempted", "Preempting", message)


def _mark(api: ClusterApi, victim: Obj) -> None:
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
