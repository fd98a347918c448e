"""The interface through which a scheduler reports its metrics."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

__all__ = ["AttemptResult", "NoMetrics", "QueueName", "SchedulerMetrics"]

AttemptResult: TypeAlias = Literal["scheduled", "unschedulable", "error"]
"""How an attempt ended."""

QueueName: TypeAlias = Literal["active", "backoff", "unschedulable", "gated"]
"""Where pods wait."""


class SchedulerMetrics(Protocol):
    """Is told of what a scheduler does, from several threads; must return at once.

    Source: kube-scheduler, metrics/metrics.go.
    """

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Count an attempt.

        Args:
            profile: the scheduler name of the pod.
            result: how it ended.
            seconds: how long it took, the binding included.
        """
        ...

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """Count a pod that was bound.

        Args:
            attempts: how many it took.
            seconds: since the pod was first ready to be tried.
        """
        ...

    def queue_length(self, queue: QueueName, length: int) -> None:
        """Note how many pods wait in a queue now."""
        ...


class NoMetrics:
    """Counts nothing."""

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Do nothing."""

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """Do nothing."""

    def queue_length(self, queue: QueueName, length: int) -> None:
        """Do nothing."""
