"""The replicas that the usage of a metric recommends.

Source: kube-controller-manager, podautoscaler/replica_calculator.go,
podautoscaler/metrics/utilization.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition, get_phase, is_condition_true
from pytest_kwait.apimachinery.quantities import parse_milli_value
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.objects import Obj, is_being_deleted, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Seconds in which a young pod's cpu does not count, and in which its readiness is not reliable.
# Source: `horizontal-pod-autoscaler-cpu-initialization-period`, `-initial-readiness-delay`.
_INITIALIZATION_PERIOD = 300.0
_READINESS_DELAY = 30.0


class MetricError(Exception):
    """A metric is unavailable; the text is the controller's."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The deviations from the target below which nothing is scaled.

    Args:
        down: below the target.
        up: above it.
    """

    down: float = 0.1
    up: float = 0.1

    def hold(self, ratio: float) -> bool:
        """Return whether the ratio of usage to target is within the tolerances."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class ReplicaCalculation:
    """The recommendation of a metric.

    Args:
        replicas: the number of replicas.
        average: thousandths per pod.
        utilization: percent of the requests; None for other targets.
    """

    replicas: int
    average: int
    utilization: int | None = None


def calculate_by_usage(
    current: int,
    pods: Sequence[Obj],
    usage: Mapping[str, int],
    tolerances: Tolerances,
    *,
    target: int,
    requests: Mapping[str, int] | None,
    young: float | None,
) -> ReplicaCalculation:
    """Return the recommendation by usage per pod.

    Args:
        current: the present number of replicas.
        pods: the target's pods.
        usage: thousandths by the pods' names.
        tolerances: the tolerated deviations.
        target: percent of `requests`, or thousandths per pod without them.
        requests: thousandths by the pods' names; None for a target per pod.
        young: now, if young pods do not count (cpu); None for other metrics.

    Raises:
        MetricError: there are no pods, or none has a measurement.

    Source: `GetResourceReplicas`, `calcPlainMetricReplicas`.
    """
    if not pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    ready, unready, missing = _group_pods(pods, usage, young)
    known = {name: usage[name] for name in ready}
    if not known:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, average, utilization = _ratio(known, target, requests)
    waits = bool(unready) and ratio > 1.0
    if not waits and not missing:
        if tolerances.hold(ratio):
            return ReplicaCalculation(current, average, utilization)
        return ReplicaCalculation(math.ceil(ratio * len(ready)), average, utilization)
    for name in missing if ratio != 1.0 else ():
        # Counted as full usage when scaling down, as none when scaling up.
        full = target if requests is None else requests[name] * max(100, target) // 100
        known[name] = full if ratio < 1.0 else 0
    for name in unready if waits else ():
        known[name] = 0
    again, _, _ = _ratio(known, target, requests)
    if tolerances.hold(again) or (ratio < 1.0 < again) or (again < 1.0 < ratio):
        return ReplicaCalculation(current, average, utilization)
    replicas = math.ceil(again * len(known))
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        replicas = current
    return ReplicaCalculation(replicas, average, utilization)


def _group_pods(
    pods: Sequence[Obj], usage: Mapping[str, int], young: float | None
) -> tuple[list[str], list[str], list[str]]:
    """Return the names of ready pods, unready pods, and pods without a measurement.

    Source: `groupPods`.
    """
    ready: list[str] = []
    unready: list[str] = []
    missing: list[str] = []
    for pod in pods:
        phase = (pod.get("status") or {}).get("phase")
        if is_being_deleted(pod) or phase in ("Failed", "Succeeded"):
            continue
        name = name_of(pod)
        if phase == "Pending":
            unready.append(name)
        elif name not in usage:
            missing.append(name)
        elif young is not None and _is_unready(pod, young):
            unready.append(name)
        else:
            ready.append(name)
    return ready, unready, missing


def _is_unready(pod: Obj, now: float) -> bool:
    condition, since = get_condition(pod, "Ready"), (pod.get("status") or {}).get("startTime")
    if condition is None or since is None:
        return True
    if condition["status"] == "True":
        # Annotations count as measured now.
        return False
    started = parse_time(since)
    if started + _INITIALIZATION_PERIOD > now:
        return True
    return started + _READINESS_DELAY > parse_time(condition["lastTransitionTime"])


def _ratio(
    usage: Mapping[str, int], target: int, requests: Mapping[str, int] | None
) -> tuple[float, int, int | None]:
    total = sum(usage.values())
    average = total // len(usage)
    if requests is None:
        return average / target, average, None
    requested = sum(requests[name] for name in usage)
    if not requested:
        raise MetricError("no metrics returned matched known pods")
    utilization = total * 100 // requested
    return utilization / target, average, utilization


def calculate_by_total(
    current: int, usage: int, tolerances: Tolerances, *, target: int, ready: int, spread: bool
) -> ReplicaCalculation:
    """Return the recommendation from one number for all replicas.

    Args:
        current: the present number of replicas.
        usage: the number, in thousandths.
        tolerances: the tolerated deviations.
        target: thousandths, for each replica if `spread`, else for all of them.
        ready: the number of ready replicas.
        spread: whether the number is an average per replica.

    Source: `GetObjectMetricReplicas`, `GetObjectPerPodMetricReplicas`.
    """
    if spread:
        ratio = usage / (target * current) if current else math.inf
        replicas = current if tolerances.hold(ratio) else math.ceil(usage / target)
        return ReplicaCalculation(replicas, math.ceil(usage / max(current, 1)))
    ratio = usage / target
    if current and tolerances.hold(ratio):
        return ReplicaCalculation(current, usage)
    return ReplicaCalculation(math.ceil(ratio * (ready if current else 1)), usage)


def get_pod_requests(pod: Obj, resource: str, container: str = "") -> int:
    """Return the requests of a pod or of one of its containers, in thousandths.

    Raises:
        MetricError: a container has no request.
    """
    total = 0
    for spec in pod["spec"]["containers"]:
        if container and spec["name"] != container:
            continue
        requested = ((spec.get("resources") or {}).get("requests") or {}).get(resource)
        if requested is None:
            raise MetricError(
                f"missing request for {resource} in container {spec['name']} of Pod {name_of(pod)}"
            )
        total += parse_milli_value(requested)
    return total


def is_pod_ready(pod: Obj) -> bool:
    """Return whether the pod is running and ready."""
    return get_phase(pod) == "Running" and is_condition_true(pod, "Ready")
