"""Prometheus metrics under the names of kube-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.scheduler.command.feature_gates import FeatureGates

_QUEUES = ("active", "backoff", "unschedulable", "gated")


def _exponential_buckets(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**index for index in range(count))


class PrometheusMetrics:
    """The metrics of one program, in a registry of their own.

    Source: pkg/scheduler/metrics/metrics.go, component-base
    metrics/prometheus/clientgo/leaderelection/metrics.go, metrics/prometheus/feature/metrics.go.
    """

    def __init__(self) -> None:
        # The creation time of a series: useless for rates, and absent in Kubernetes.
        disable_created_metrics()  # type: ignore[no-untyped-call] # its author gave it no types
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods by their result: scheduled, unschedulable or error",
            ("result", "profile"),
            registry=self.registry,
        )
        self._attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds that an attempt took, from choosing the node to binding the pod",
            ("result", "profile"),
            buckets=_exponential_buckets(0.001, 15),
            registry=self.registry,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod needed to be scheduled",
            buckets=_exponential_buckets(1, 5),
            registry=self.registry,
        )
        self._pod_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from when a pod was queued until it was scheduled",
            ("attempts",),
            buckets=_exponential_buckets(0.01, 20),
            registry=self.registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Pods that wait, by their queue: active, backoff, unschedulable or gated",
            ("queue",),
            registry=self.registry,
        )
        for queue in _QUEUES:
            self._pending.labels(queue).set(0)
        self._leader = Gauge(
            "leader_election_master_status",
            "Whether this program holds the lease of this name",
            ("name",),
            registry=self.registry,
        )
        self._features = Gauge(
            "kubernetes_feature_enabled",
            "Whether a feature is enabled",
            ("name", "stage"),
            registry=self.registry,
        )

    def attempt(self, profile: str, result: str, seconds: float) -> None:
        """Count an attempt to schedule a pod."""
        self._attempts.labels(result, profile).inc()
        self._attempt_seconds.labels(result, profile).observe(seconds)

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """Count a pod that was scheduled, `seconds` after it was first queued."""
        self._pod_attempts.observe(attempts)
        label = str(attempts) if attempts < 15 else "15+"
        self._pod_seconds.labels(label).observe(seconds)

    def queue_length(self, queue: str, length: int) -> None:
        """Set the number of pods in a queue."""
        self._pending.labels(queue).set(length)

    def leading(self, name: str, leads: Callable[[], bool]) -> None:
        """Export whether this program holds the lease of this name, evaluated at each scrape."""
        self._leader.labels(name).set_function(lambda: 1 if leads() else 0)

    def features(self, gates: FeatureGates) -> None:
        """Export the enabled features."""
        for name, stage, on in gates.states():
            self._features.labels(name, stage).set(1 if on else 0)

    def expose(self, accept: str) -> tuple[str, bytes]:
        """Return the best accepted content type, and all metrics in it."""
        encoder, content_type = choose_encoder(accept)
        return content_type, encoder(self.registry)
