"""The interface through which a scheduler reports its metrics."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

AttemptResult: TypeAlias = Literal["scheduled", "unschedulable", "error"]
"""The result of an attempt."""

QueueName: TypeAlias = Literal["active", "backoff", "unschedulable", "gated"]
"""The name of a queue."""


class SchedulerMetrics(Protocol):
    """Receives the measurements of a scheduler, from several threads; must return at once.

    Source: kube-scheduler, metrics/metrics.go.
    """

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Count an attempt.

        Args:
            profile: the scheduler name of the pod.
            seconds: its duration, the binding included.
        """
        ...

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """Count a bound pod.

        Args:
            attempts: the number of its attempts.
            seconds: since the pod was first ready to be scheduled.
        """
        ...

    def queue_length(self, queue: QueueName, length: int) -> None:
        """Set the number of pods in a queue."""
        ...


class NoMetrics:
    """Metrics that are dropped."""

    def attempt(self, profile: str, result: AttemptResult, seconds: float) -> None:
        """Do nothing."""

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """Do nothing."""

    def queue_length(self, queue: QueueName, length: int) -> None:
        """Do nothing."""
