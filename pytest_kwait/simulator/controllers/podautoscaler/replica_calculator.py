"""How many replicas a metric asks for.

Source: kube-controller-manager, podautoscaler/replica_calculator.go, metrics/utilization.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_milli_value
from pytest_kwait.simulator.conditions import get_condition, is_being_deleted, parse_timestamp
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "MetricError",
    "ReplicaCalculation",
    "Tolerances",
    "calculate_by_total",
    "calculate_by_usage",
    "get_pod_requests",
]

# Seconds: how long a young pod's cpu does not count, and until its readiness is believed.
# Source: `horizontal-pod-autoscaler-cpu-initialization-period`, `-initial-readiness-delay`.
_INITIALIZATION_PERIOD = 300.0
_READINESS_DELAY = 30.0


class MetricError(Exception):
    """A metric cannot be had; the text is the controller's."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far usage may be off before something is done.

    Args:
        down: below the target.
        up: above it.
    """

    down: float = 0.1
    up: float = 0.1

    def hold(self, ratio: float) -> bool:
        """Whether the ratio of usage to target is near enough to one."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class ReplicaCalculation:
    """What a metric asks for.

    Args:
        replicas: how many.
        average: thousandths per pod.
        utilization: percent of what is requested; None where that is not asked.
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
    """Return what usage per pod asks for.

    Args:
        current: how many replicas there are to be.
        pods: what the target selects.
        usage: thousandths by the pods' names.
        tolerances: how far it may be off.
        target: percent of `requests`, or thousandths per pod without them.
        requests: thousandths by the pods' names; None for a target per pod.
        young: now, where young pods do not count (cpu); None for other metrics.

    Raises:
        MetricError: there are no pods, or none that is measured.

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
        # As if they used all that they may where it would shrink, nothing where it would grow.
        full = target if requests is None else requests[name] * max(100, target) // 100
        known[name] = full if ratio < 1.0 else 0
    for name in unready if waits else ():
        known[name] = 0
    again, _, _ = _ratio(known, target, requests)
    if tolerances.hold(again) or (ratio < 1.0 < again) or (again < 1.0 < ratio):
        return ReplicaCalculation(current, average, utilization)
    wanted = math.ceil(again * len(known))
    if (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current):
        wanted = current
    return ReplicaCalculation(wanted, average, utilization)


def _group_pods(
    pods: Sequence[Obj], usage: Mapping[str, int], young: float | None
) -> tuple[list[str], list[str], list[str]]:
    """Return the names of pods that count, that are not ready, and that nobody measured.

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
        # What is written down is measured at this moment.
        return False
    started = parse_timestamp(since)
    if started + _INITIALIZATION_PERIOD > now:
        return True
    return started + _READINESS_DELAY > parse_timestamp(condition["lastTransitionTime"])


def _ratio(
    usage: Mapping[str, int], target: int, requests: Mapping[str, int] | None
) -> tuple[float, int, int | None]:
    total = sum(usage.values())
    average = total // len(usage)
    if requests is None:
        return average / target, average, None
    asked = sum(requests[name] for name in usage)
    if not asked:
        raise MetricError("no metrics returned matched known pods")
    utilization = total * 100 // asked
    return utilization / target, average, utilization


def calculate_by_total(
    current: int, usage: int, tolerances: Tolerances, *, target: int, ready: int, spread: bool
) -> ReplicaCalculation:
    """Return what one number for all replicas asks for.

    Args:
        current: how many replicas there are to be.
        usage: the number, in thousandths.
        tolerances: how far it may be off.
        target: thousandths, for each replica if `spread`, else for all of them.
        ready: how many replicas are ready.
        spread: whether the number is shared by the replicas.

    Source: `GetObjectMetricReplicas`, `GetObjectPerPodMetricReplicas`.
    """
    if spread:
        ratio = usage / (target * current) if current else math.inf
        wanted = current if tolerances.hold(ratio) else math.ceil(usage / target)
        return ReplicaCalculation(wanted, math.ceil(usage / max(current, 1)))
    ratio = usage / target
    if current and tolerances.hold(ratio):
        return ReplicaCalculation(current, usage)
    return ReplicaCalculation(math.ceil(ratio * (ready if current else 1)), usage)


def get_pod_requests(pod: Obj, resource: str, container: str = "") -> int:
    """What a pod, or one of its containers, requests in thousandths.

    Raises:
        MetricError: a container requests none.
    """
    total = 0
    for one in pod["spec"]["containers"]:
        if container and one["name"] != container:
            continue
        asked = ((one.get("resources") or {}).get("requests") or {}).get(resource)
        if asked is None:
            raise MetricError(
                f"missing request for {resource} in container {one['name']} of Pod {name_of(pod)}"
            )
        total += parse_milli_value(asked)
    return total
