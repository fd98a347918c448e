"""Whether a pod may be evicted, by the disruption budgets that guard it.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, forbidden, too_many_requests
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = ["EVICTION_SUCCESS", "can_ignore_budgets", "decrement_budget", "find_disruption_budget"]

EVICTION_SUCCESS = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
"""The condition of a pod that is evicted, without its times."""

_BUDGET_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED_PODS = 2000
_RETRY_SECONDS = 10


def can_ignore_budgets(pod: Obj) -> bool:
    """Whether no budget counts the pod: it has not begun, has ended or is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def find_disruption_budget(pod: Obj, budgets: Sequence[Obj]) -> Obj | None:
    """The budget that the eviction is taken from; None where it costs nothing.

    Args:
        pod: a pod that is guarded.
        budgets: those that select it.

    Raises:
        StatusError: 429 where the budget allows none, 500 where there is more than one.
    """
    if len(budgets) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise StatusError(500, "", text)
    for budget in budgets:
        if not _is_ready(pod) and _always_allows_unready(budget):
            return None
        _check_budget(budget)
        return budget
    return None


def decrement_budget(budget: Obj, pod: str, stamp: str) -> Obj:
    """The budget's status after one more disruption, by the pod of that name."""
    status = {**budget["status"]}
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: stamp}
    if status["disruptionsAllowed"] == 0:
        others = [
            one for one in status.get("conditions") or () if one["type"] != "DisruptionAllowed"
        ]
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": stamp,
            "reason": "InsufficientPods",
            "message": "",
        }
        status["conditions"] = [*others, condition]
    return status


def _is_ready(pod: Obj) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod.get("status", {}).get("conditions") or ()
    )


def _always_allows_unready(budget: Obj) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(0 < desired <= status.get("currentHealthy", 0))


def _check_budget(budget: Obj) -> None:
    name, status = name_of(budget), budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many_requests(text, _RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    for wrong, why in (
        (allowed < 0, "pdb disruptions allowed is negative"),
        (
            len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ):
        if wrong:
            raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _too_many_requests(_not_ready_message(name, status))


def _not_ready_message(name: str, status: Obj) -> str:
    condition = next(
        (
            one
            for one in status.get("conditions") or ()
            if one["type"] == "DisruptionAllowed" and one["status"] == "False" and one["message"]
        ),
        None,
    )
    start = f"The disruption budget {name} does not allow evicting pods currently"
    if condition is not None and condition["reason"] == "SyncFailed":
        return f"{start} because it failed sync: {condition['message']}"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    if condition is not None:
        return f"{start} ({condition['reason']}): {condition['message']}"
    return start


def _too_many_requests(text: str, seconds: int = 0) -> StatusError:
    error = too_many_requests(_BUDGET_VIOLATED, [{"reason": "DisruptionBudget", "message": text}])
    if seconds:
        error.details = {**(error.details or {}), "retryAfterSeconds": seconds}
        error.headers = {"Retry-After": str(seconds)}
    return error
