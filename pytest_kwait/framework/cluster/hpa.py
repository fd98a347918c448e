"""Wait for a HorizontalPodAutoscaler: current and desired replicas lie in a range.

Source: kubernetes/test/e2e/framework/autoscaling/autoscaling_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import HORIZONTAL_POD_AUTOSCALERS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import WaitOptions, check_count
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf

_TERMINAL_REASONS = {
    "AbleToScale": {"FailedGetScale"},
    "ScalingActive": {"ScalingDisabled", "InvalidSelector", "AmbiguousSelector"},
}
"""Reasons that stop the autoscaler until it or its target is changed. Unavailable metrics are not
among them: metrics of young pods take minutes to arrive.
"""


class ScaledReplicas(ObjectCondition):
    """The current and desired replicas of an autoscaler lie in a range.

    Args:
        hpa: its name.
        least: the minimum.
        most: the maximum.
    """

    def __init__(self, namespace: str, hpa: str, least: int, most: int) -> None:
        super().__init__(HORIZONTAL_POD_AUTOSCALERS, namespace, check_name("hpa", hpa))
        self._least, self._most = least, most

    @property
    def goal(self) -> str:
        """The range."""
        if self._least == self._most:
            return f"have {self._least} replica{'' if self._least == 1 else 's'}"
        return f"have {self._least} to {self._most} replicas"

    def verdict(self) -> Verdict:
        """Decide by its replica counts, then by the conditions that keep it from scaling."""
        hpa = self.object
        absent = hpa.missing_verdict() or hpa.ending()
        if absent is not None:
            return absent
        generation = (hpa.current or {})["metadata"].get("generation") or 0
        observed = hpa.status.get("observedGeneration")
        if isinstance(observed, int) and observed < generation:
            return Pending(f"its status is of generation {observed}, not yet of {generation}")
        current, desired = self._counts()
        if current is not None and all(
            self._least <= count <= self._most for count in (current, desired)
        ):
            return Met()
        return self._detect_failure() or Pending(self._missing(current, desired))

    def _counts(self) -> tuple[int | None, int]:
        """Return the current replicas, None before the first count, and the desired ones."""
        status = self.object.status
        # A count of 0 is omitted; before the first sync there are no conditions either.
        if not status.get("conditions") and status.get("currentReplicas") is None:
            return None, 0
        return status.get("currentReplicas") or 0, status.get("desiredReplicas") or 0

    def _missing(self, current: int | None, desired: int) -> str:
        if current is None:
            return "it has not looked at its target yet"
        text = f"it counts {current} and wants {desired}"
        for kind in ("AbleToScale", "ScalingActive"):
            condition = self.object.condition(kind)
            if condition is not None and condition.get("status") == "False":
                return f"{text}; {kind} is False: {_describe_condition(condition)}"
        return text

    def _detect_failure(self) -> Failed | None:
        for kind, reasons in _TERMINAL_REASONS.items():
            condition = self.object.condition(kind)
            if (
                condition is not None
                and condition.get("status") == "False"
                and condition.get("reason") in reasons
            ):
                return Failed(f"{kind} is False: {_describe_condition(condition)}", Grace.LONG)
        # The API defaults a missing minimum to one, or to zero where scaling to zero is enabled.
        least = self.object.spec.get("minReplicas")
        most = self.object.spec.get("maxReplicas")
        least = 1 if least is None else least
        if most is not None and (self._least > most or (self._most < least and self._most > 0)):
            return Failed(f"it keeps {least} to {most} replicas", Grace.LONG)
        return None

    def summarize(self) -> str:
        """Return a summary of current and desired replicas."""
        current, desired = self._counts()
        return "" if current is None else f"{current} replicas, {desired} wanted"


def _describe_condition(condition: dict[str, Any]) -> str:
    parts = (condition.get("reason"), condition.get("message"))
    return ": ".join(" ".join(part.split()) for part in parts if part) or "no reason is given"


@wait(
    limit="autoscaling",
    kind=HORIZONTAL_POD_AUTOSCALERS,
    summary="an autoscaler whose replicas lie in a range",
)
def wait_for_hpa_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    min_replicas: int,
    max_replicas: int | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a HorizontalPodAutoscaler once its current and desired replicas are in range.

    Use `stable_for` to require that they stay in range. Unavailable metrics are named in the
    message but never fail the wait. Upstream counts the ready replicas of the target; for those,
    wait for the target.

    Args:
        min_replicas: the minimum; 0 or more.
        max_replicas: the maximum; `min_replicas` by default.

    Raises:
        WaitFailed: the autoscaler was deleted, is disabled, cannot find its target, or has limits
            outside the range.

    Source: autoscaling/autoscaling_utils.go WaitForReplicas, EnsureDesiredReplicasInRange.
    """
    least = check_count("min_replicas", min_replicas)
    most = least if max_replicas is None else check_count("max_replicas", max_replicas)
    if most < least:
        raise InvalidArgument("max_replicas", most, f"use min_replicas={least} or more")
    return ScaledReplicas(namespace, name, least, most)
