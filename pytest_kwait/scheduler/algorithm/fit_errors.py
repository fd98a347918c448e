"""How kube-scheduler says that a pod fits nowhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.scheduler.algorithm.predicates import Rejection

__all__ = ["NO_NODES", "fit_error", "gates_message"]

NO_NODES = "no nodes available to schedule pods"


def gates_message(gates: Sequence[str]) -> str:
    """Say why a pod with scheduling gates is not looked at; only the log has it upstream."""
    return f"waiting for scheduling gates: [{' '.join(gates)}]"


def _histogram(reasons: Counter[str], nodes: int) -> str:
    # Sorted as text, count included: "10 x" comes before "2 y".
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:{f' {told}.' if told else ''}"


def fit_error(rejections: Sequence[Rejection], *, may_preempt: bool = True) -> str:
    """Return the text of the PodScheduled condition and of the FailedScheduling event.

    Args:
        rejections: one per node; none means that the cluster has no node.
        may_preempt: False for pods whose `preemptionPolicy` is Never.

    Source: kube-scheduler, framework/types.go `FitError.Error`; framework/preemption/preemption.go.
    """
    if not rejections:
        return NO_NODES
    nodes = len(rejections)
    text = _histogram(Counter(why for one in rejections for why in one.reasons), nodes)
    # What two plugins say that looked for a way out, one for resource claims, one for preemption.
    text += " no new claims to deallocate,"
    if not may_preempt:
        return f"{text} preemption: not eligible due to preemptionPolicy=Never."
    preemption: Counter[str] = Counter()
    for rejection in rejections:
        if rejection.resolvable:
            preemption["No preemption victims found for incoming pod"] += 1
        else:
            preemption["Preemption is not helpful for scheduling"] += 1
    return f"{text} preemption: {_histogram(preemption, nodes)}"
