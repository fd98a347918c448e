"""What the metrics of an autoscaler say, where somebody has said what is used.

Source: kube-controller-manager, podautoscaler/horizontal.go, `computeReplicasForMetric`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_milli_value
from pytest_kwait.simulator.codec.go_text import canonicalize_quantity
from pytest_kwait.simulator.controllers.podautoscaler.fake_metrics import (
    read_container_usage,
    read_metric_value,
)
from pytest_kwait.simulator.controllers.podautoscaler.replica_calculator import (
    ReplicaCalculation,
    Tolerances,
    calculate_by_total,
    calculate_by_usage,
    get_pod_requests,
)
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["MetricReading", "read_metric", "read_tolerances"]


@dataclass(frozen=True, slots=True)
class MetricReading:
    """What one metric says.

    Args:
        replicas: how many it asks for.
        name: the metric as conditions and events name it.
        status: what the autoscaler's status shows of it.
    """

    replicas: int
    name: str
    status: Obj


def read_tolerances(behavior: Obj) -> Tolerances:
    """How far metrics may be off, by the rules for each direction."""
    down, up = (
        parse_milli_value((behavior.get(rules) or {}).get("tolerance") or "0.1") / 1000
        for rules in ("scaleDown", "scaleUp")
    )
    return Tolerances(down, up)


def read_metric(
    api: SimulatedCluster, obj: Obj, metric: Obj, pods: Sequence[Obj], current: int
) -> MetricReading | None:
    """Return what a metric of the autoscaler `obj` asks for; None where nobody measures it.

    Raises:
        MetricError: it is measured, but says nothing.
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
    name = f"external metric {source['metric']['name']}({_format_selector(source['metric'])})"
    return _total(kind, source, obj, name, pods, current, tolerances)


def _resource(
    api: SimulatedCluster,
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


def _find_described_object(api: SimulatedCluster, reference: Obj, namespace: str) -> Obj | None:
    kind = api.kinds.of_kind(reference.get("apiVersion") or "v1", reference["kind"])
    if kind is None:
        return None
    return api.find(kind.bucket, reference["name"], namespace)


def _is_ready(pod: Obj) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == "Running" and any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()
    )


def _format_selector(metric: Obj) -> str:
    """A selector as Go prints the pointer to one; hardly anybody has one."""
    return "nil" if metric.get("selector") is None else str(metric["selector"])


def _format_milli(milli: int) -> str:
    return canonicalize_quantity(f"{milli}m")
