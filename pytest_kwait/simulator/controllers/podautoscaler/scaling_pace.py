"""How fast an autoscaler may follow what its metrics ask for.

Source: kube-controller-manager, podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = ["ScalingHistory", "Step", "limit_scaling_rate", "stabilize_recommendation"]

_WINDOW_DOWN = 300.0
_POLICIES_UP: tuple[Obj, ...] = (
    {"type": "Percent", "value": 100, "periodSeconds": 15},
    {"type": "Pods", "value": 4, "periodSeconds": 15},
)
_POLICIES_DOWN: tuple[Obj, ...] = ({"type": "Percent", "value": 100, "periodSeconds": 15},)

Step = tuple[int, str, str]
"""A number of replicas, and reason and message of why it is that."""


@dataclass(slots=True)
class ScalingHistory:
    """What an autoscaler was told and did: moments and numbers."""

    wishes: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    downs: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now: float, change: int) -> None:
        """Remember that so many replicas came or went."""
        (self.ups if change > 0 else self.downs).append((now, abs(change)))


def _stabilization_window(rules: Obj, default: float) -> float:
    found = rules.get("stabilizationWindowSeconds")
    return default if found is None else float(found)


def stabilize_recommendation(
    memory: ScalingHistory, behavior: Obj, now: float, current: int, wish: int, scale: float
) -> Step:
    """Return what the wishes of late agree on.

    Args:
        memory: the autoscaler's.
        behavior: what its spec says of it.
        now: seconds.
        current: how many replicas there are to be.
        wish: what the metrics ask for now.
        scale: what a second of the controller's own constants takes.

    Source: `stabilizeRecommendation`, `stabilizeRecommendationWithBehaviors`.
    """
    window_up = _stabilization_window(behavior.get("scaleUp") or {}, 0.0)
    window_down = _stabilization_window(behavior.get("scaleDown") or {}, _WINDOW_DOWN * scale)
    keep = now - max(window_up, window_down)
    least = min([one for at, one in memory.wishes if at > now - window_up], default=wish)
    most = max([one for at, one in memory.wishes if at > now - window_down], default=wish)
    memory.wishes = [one for one in memory.wishes if one[0] > keep]
    memory.wishes.append((now, wish))
    found = max(current, min(least, wish))
    found = min(found, max(most, wish))
    if found == wish:
        return found, "ReadyForNewScale", "recommended size matches current size"
    if wish >= current:
        text = "recent recommendations were lower than current one, applying the lowest recent"
        return found, "ScaleUpStabilized", f"{text} recommendation"
    text = "recent recommendations were higher than current one, applying the highest recent"
    return found, "ScaleDownStabilized", f"{text} recommendation"


def limit_scaling_rate(
    memory: ScalingHistory,
    behavior: Obj,
    now: float,
    current: int,
    wish: int,
    bounds: tuple[int, int],
) -> Step:
    """Return how far it may go at once.

    Args:
        memory: the autoscaler's.
        behavior: what its spec says of it; empty for nothing.
        now: seconds.
        current: how many replicas there are to be.
        wish: how many are wanted.
        bounds: least and most.

    Source: `convertDesiredReplicasWithRules`, `convertDesiredReplicasWithBehaviorRate`.
    """
    least, most = bounds
    if wish > current or not behavior:
        limit = _up_limit(memory, behavior, now, current)
        if wish > min(limit, most):
            if limit < most:
                text = "the desired replica count is increasing faster than the maximum scale rate"
                return limit, "ScaleUpLimit", text
            text = "the desired replica count is more than the maximum replica count"
            return most, "TooManyReplicas", text
    if behavior and wish < current:
        limit = _down_limit(memory, behavior, now, current)
        if wish < limit and limit > least:
            text = "the desired replica count is decreasing faster than the maximum scale rate"
            return limit, "ScaleDownLimit", text
    if wish < least:
        text = "the desired replica count is less than the minimum replica count"
        return least, "TooFewReplicas", text
    return wish, "DesiredWithinRange", "the desired count is within the acceptable range"


def _up_limit(memory: ScalingHistory, behavior: Obj, now: float, current: int) -> int:
    if not behavior:
        return max(2 * current, 4)
    rules = behavior.get("scaleUp") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or _POLICIES_UP:
        start = _replicas_at_period_start(memory, policy, now, current)
        if policy["type"] == "Pods":
            proposals.append(start + policy["value"])
        else:
            proposals.append(math.ceil(start * (100 + policy["value"]) / 100))
    chosen = min(proposals) if rules.get("selectPolicy") == "Min" else max(proposals)
    return max(chosen, current)


def _down_limit(memory: ScalingHistory, behavior: Obj, now: float, current: int) -> int:
    rules = behavior.get("scaleDown") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or _POLICIES_DOWN:
        start = _replicas_at_period_start(memory, policy, now, current)
        if policy["type"] == "Pods":
            proposals.append(start - policy["value"])
        else:
            proposals.append(start * (100 - policy["value"]) // 100)
    chosen = max(proposals) if rules.get("selectPolicy") == "Min" else min(proposals)
    return min(chosen, current)


def _replicas_at_period_start(memory: ScalingHistory, policy: Obj, now: float, current: int) -> int:
    """How many there were when a policy's period began."""
    since = now - policy["periodSeconds"]
    return current - _changes_since(memory.ups, since) + _changes_since(memory.downs, since)


def _changes_since(changes: Sequence[tuple[float, int]], since: float) -> int:
    return sum(count for at, count in changes if at > since)
