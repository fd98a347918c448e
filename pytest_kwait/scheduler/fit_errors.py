"""How kube-scheduler says that a pod fits nowhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.scheduler.framework.cycle_state import Rejection

__all__ = ["NO_NODES", "FitError", "format_fit_error", "format_gates_message"]

NO_NODES = "no nodes available to schedule pods"


class FitError(KwaitError):
    """A pod fits no node; the text is that of the event and of the PodScheduled condition.

    Args:
        rejections: why each node was refused, by the node's name.
        predicates: the names of the predicates that refused one.
        reason: why no node was looked at; empty where they were.
        may_preempt: False for pods whose `preemptionPolicy` is Never.
    """

    def __init__(
        self,
        rejections: Mapping[str, Rejection],
        predicates: frozenset[str] = frozenset(),
        *,
        reason: str = "",
        may_preempt: bool = True,
    ) -> None:
        super().__init__(rejections, predicates)
        self.rejections = rejections
        self.predicates = predicates
        self.reason = reason
        self.may_preempt = may_preempt

    @property
    def nodes(self) -> int:
        """How many nodes there were."""
        return len(self.rejections)

    def __str__(self) -> str:
        return format_fit_error(
            list(self.rejections.values()), reason=self.reason, may_preempt=self.may_preempt
        )


def format_gates_message(gates: Sequence[str]) -> str:
    """Say why a pod with scheduling gates is not looked at; only the log has it upstream."""
    return f"waiting for scheduling gates: [{' '.join(gates)}]"


def _histogram(reasons: Counter[str], nodes: int) -> str:
    # Sorted as text, count included: "10 x" comes before "2 y".
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:{f' {told}.' if told else ''}"


def format_fit_error(
    rejections: Sequence[Rejection],
    *,
    reason: str = "",
    may_preempt: bool = True,
    preemption: str | None = None,
    tried: Sequence[Rejection] | None = None,
) -> str:
    """Return the text of the PodScheduled condition and of the FailedScheduling event.

    Args:
        rejections: one per node; none means that the cluster has no node.
        reason: why no node was looked at; empty where they were.
        may_preempt: False for pods whose `preemptionPolicy` is Never.
        preemption: why others are not made to leave; empty where they are; None where that was
            not looked at.
        tried: why it would not help that others left, one per node, where that was looked at.

    Source: kube-scheduler, framework/types.go `FitError.Error`; framework/preemption/preemption.go.
    """
    if not rejections:
        return NO_NODES
    nodes = len(rejections)
    if reason:
        # "not found" is the plugin's for resource claims, which had no look at the pod either;
        # preemption is not asked after that.
        return f"0/{nodes} nodes are available: {reason}. not found"
    text = _histogram(Counter(why for one in rejections for why in one.reasons), nodes)
    if preemption == "":
        return text
    # What two plugins say that looked for a way out, one for resource claims, one for preemption.
    text += " no new claims to deallocate,"
    if not may_preempt:
        return f"{text} preemption: not eligible due to preemptionPolicy=Never."
    if preemption is not None:
        return f"{text} preemption: {preemption}"
    useless: Counter[str] = Counter()
    if tried is not None:
        useless.update(why for one in tried for why in one.reasons)
        return f"{text} preemption: {_histogram(useless, nodes)}"
    for rejection in rejections:
        if rejection.resolvable:
            useless["No preemption victims found for incoming pod"] += 1
        else:
            useless["Preemption is not helpful for scheduling"] += 1
    return f"{text} preemption: {_histogram(useless, nodes)}"
