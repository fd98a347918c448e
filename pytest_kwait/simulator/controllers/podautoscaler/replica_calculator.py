"""The replica calculator: the replicas that each metric of an autoscaler recommends.

Source: kube-controller-manager, podautoscaler/replica_calculator.go, metrics/utilization.go,
podautoscaler/horizontal.go (`computeReplicasForMetric`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition, get_phase, is_condition_true
from pytest_kwait.apimachinery.quantities import canonicalize_quantity, parse_milli_value
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.fake_metrics import read_container_usage, read_metric_value
from pytest_kwait.simulator.objects import Obj, is_being_deleted, name_of, namespace_of
from pytest_kwait.simulator.selectors import format_go_selector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = [
    "MetricError",
    "MetricReading",
    "ReplicaCalculation",
    "Tolerances",
    "calculate_by_total",
    "calculate_by_usage",
    "get_pod_requests",
    "read_metric",
    "read_tolerances",
]

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
    wanted = math.ceil(again * len(known))
    if (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current):
        wanted = current
    return ReplicaCalculation(wanted, average, utilization)


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
        wanted = current if tolerances.hold(ratio) else math.ceil(usage / target)
        return ReplicaCalculation(wanted, math.ceil(usage / max(current, 1)))
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
    for one in pod["spec"]["containers"]:
        if container and one["name"] != container:
            continue
        requested = ((one.get("resources") or {}).get("requests") or {}).get(resource)
        if requested is None:
            raise MetricError(
                f"missing request for {resource} in container {one['name']} of Pod {name_of(pod)}"
            )
        total += parse_milli_value(requested)
    return total


@dataclass(frozen=True, slots=True)
class MetricReading:
    """The reading of one metric.

    Args:
        replicas: the recommended number.
        name: the metric's name in conditions and events.
        status: the metric in the autoscaler's status.
    """

    replicas: int
    name: str
    status: Obj


def read_tolerances(behavior: Obj) -> Tolerances:
    """Return the tolerances by the rules for each direction."""
    down, up = (
        parse_milli_value((behavior.get(rules) or {}).get("tolerance") or "0.1") / 1000
        for rules in ("scaleDown", "scaleUp")
    )
    return Tolerances(down, up)


def read_metric(
    api: Cluster, obj: Obj, metric: Obj, pods: Sequence[Obj], current: int
) -> MetricReading | None:
    """Read a metric of the autoscaler `obj`; None if no server provides it.

    Raises:
        MetricError: it is provided, but has no value.
    """
    tolerances = read_tolerances(obj["spec"].get("behavior") or {})
    kind = metric["type"]
    source = metric[kind[0].lower() + kind[1:]]
    match kind:
        case "Resource" | "ContainerResource":
            return _resource(api, kind, source, pods, current, tolerances)
        case "Pods":
            name = source["metric"]["name"]
            usage = _values(pods, name)
            if not usage:
                return None
            target = parse_milli_value(source["target"]["averageValue"])
            count = calculate_by_usage(
                current, pods, usage, tolerances, target=target, requests=None, young=None
            )
            shown = {
                "metric": source["metric"],
                "current": {"averageValue": _format_milli(count.average)},
            }
            return MetricReading(
                count.replicas, f"pods metric {name}", {"type": kind, "pods": shown}
            )
        case "Object":
            about = source["describedObject"]
            described = _find_described_object(api, about, namespace_of(obj))
            name = f"{about['kind']} metric {source['metric']['name']}"
            return _total(kind, source, described, name, pods, current, tolerances)
    identifier = source["metric"]
    name = f"external metric {identifier['name']}({format_go_selector(identifier.get('selector'))})"
    return _total(kind, source, obj, name, pods, current, tolerances)


def _resource(
    api: Cluster,
    kind: str,
    source: Obj,
    pods: Sequence[Obj],
    current: int,
    tolerances: Tolerances,
) -> MetricReading | None:
    name, container, target = source["name"], source.get("container", ""), source["target"]
    usage: dict[str, int] = {}
    for pod in pods:
        used = read_container_usage(pod)
        chosen = [used.get(container, {})] if container else [*used.values()]
        amounts = [one[name] for one in chosen if name in one]
        if amounts:
            usage[name_of(pod)] = sum(amounts)
    if not usage:
        return None
    percent = target.get("averageUtilization")
    requests = None
    if percent is not None:
        requests = {name_of(pod): get_pod_requests(pod, name, container) for pod in pods}
    count = calculate_by_usage(
        current,
        pods,
        usage,
        tolerances,
        target=percent if percent is not None else parse_milli_value(target["averageValue"]),
        requests=requests,
        young=api.clock.time() if name == "cpu" else None,
    )
    shown: Obj = {"averageValue": _format_milli(count.average)}
    if count.utilization is not None:
        shown["averageUtilization"] = count.utilization
    what = f"{name} container resource" if container else f"{name} resource"
    if percent is not None:
        what += " utilization (percentage of request)"
    status: Obj = {"name": name, "current": shown}
    if container:
        status["container"] = container
    field = "containerResource" if kind == "ContainerResource" else "resource"
    return MetricReading(count.replicas, what, {"type": kind, field: status})


def _total(
    kind: str,
    source: Obj,
    holder: Obj | None,
    name: str,
    pods: Sequence[Obj],
    current: int,
    tolerances: Tolerances,
) -> MetricReading | None:
    value = None if holder is None else read_metric_value(holder, source["metric"]["name"])
    if value is None:
        return None
    target, spread = source["target"], "averageValue" in source["target"]
    count: ReplicaCalculation = calculate_by_total(
        current,
        value,
        tolerances,
        target=parse_milli_value(target["averageValue" if spread else "value"]),
        ready=sum(1 for pod in pods if _is_ready(pod)),
        spread=spread,
    )
    field = "averageValue" if spread else "value"
    shown = {"metric": source["metric"], "current": {field: _format_milli(count.average)}}
    if kind == "Object":
        shown["describedObject"] = source["describedObject"]
    return MetricReading(count.replicas, name, {"type": kind, kind.lower(): shown})


def _values(pods: Sequence[Obj], metric: str) -> dict[str, int]:
    found = {name_of(pod): read_metric_value(pod, metric) for pod in pods}
    return {name: value for name, value in found.items() if value is not None}


def _find_described_object(api: Cluster, reference: Obj, namespace: str) -> Obj | None:
    kind = api.kinds.of_kind(reference.get("apiVersion") or "v1", reference["kind"])
    if kind is None:
        return None
    return api.find(kind.bucket, reference["name"], namespace)


def _is_ready(pod: Obj) -> bool:
    return get_phase(pod) == "Running" and is_condition_true(pod, "Ready")


def _format_milli(milli: int) -> str:
    return canonicalize_quantity(f"{milli}m")
