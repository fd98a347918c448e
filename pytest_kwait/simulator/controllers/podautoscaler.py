"""The HorizontalPodAutoscaler controller.

Replicas outside the bounds are corrected at once; otherwise metrics decide, limited by the scaling
behavior.

Source: kube-controller-manager, podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import canonicalize_quantity, parse_milli_value
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.replica_calculator import (
    MetricError,
    ReplicaCalculation,
    Tolerances,
    calculate_by_total,
    calculate_by_usage,
    get_pod_requests,
    is_pod_ready,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.fake_metrics import read_container_usage, read_metric_value
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_kwait.simulator.registry.subresources import read_scale
from pytest_kwait.simulator.selectors import format_go_selector, parse_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.scheme import Kind

Step = tuple[int, str, str]
"""A number of replicas with its reason and message."""
_WINDOW_DOWN = 300.0
_POLICIES_UP: tuple[Obj, ...] = (
    {"type": "Percent", "value": 100, "periodSeconds": 15},
    {"type": "Pods", "value": 4, "periodSeconds": 15},
)
_POLICIES_DOWN: tuple[Obj, ...] = ({"type": "Percent", "value": 100, "periodSeconds": 15},)

_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_KIND = ("autoscaling/v2", "HorizontalPodAutoscaler")
_CURRENT = "Current number of replicas"
# Seconds between two syncs; upstream, `horizontal-pod-autoscaler-sync-period`.
_RESYNC_PERIOD = 15.0
_NO_METRICS = (
    "unable to fetch metrics from resource metrics API: the server could not find the requested"
    " resource (get pods.metrics.k8s.io)"
)


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
    cluster: Cluster, obj: Obj, metric: Obj, pods: Sequence[Obj], current: int
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
            return _resource(cluster, kind, source, pods, current, tolerances)
        case "Pods":
            name = source["metric"]["name"]
            usage = _values(pods, name)
            if not usage:
                return None
            target = parse_milli_value(source["target"]["averageValue"])
            count = calculate_by_usage(
                current, pods, usage, tolerances, target=target, requests=None, young=None
            )
            metric_status = {
                "metric": source["metric"],
                "current": {"averageValue": _format_milli(count.average)},
            }
            return MetricReading(
                count.replicas, f"pods metric {name}", {"type": kind, "pods": metric_status}
            )
        case "Object":
            about = source["describedObject"]
            described = _find_described_object(cluster, about, namespace_of(obj))
            name = f"{about['kind']} metric {source['metric']['name']}"
            return _total(kind, source, described, name, pods, current, tolerances)
    identifier = source["metric"]
    name = f"external metric {identifier['name']}({format_go_selector(identifier.get('selector'))})"
    return _total(kind, source, obj, name, pods, current, tolerances)


def _resource(
    cluster: Cluster,
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
        amounts = [usage[name] for usage in chosen if name in usage]
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
        young=cluster.clock.time() if name == "cpu" else None,
    )
    current_value: Obj = {"averageValue": _format_milli(count.average)}
    if count.utilization is not None:
        current_value["averageUtilization"] = count.utilization
    metric_name = f"{name} container resource" if container else f"{name} resource"
    if percent is not None:
        metric_name += " utilization (percentage of request)"
    status: Obj = {"name": name, "current": current_value}
    if container:
        status["container"] = container
    field = "containerResource" if kind == "ContainerResource" else "resource"
    return MetricReading(count.replicas, metric_name, {"type": kind, field: status})


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
        ready=sum(1 for pod in pods if is_pod_ready(pod)),
        spread=spread,
    )
    field = "averageValue" if spread else "value"
    metric_status = {"metric": source["metric"], "current": {field: _format_milli(count.average)}}
    if kind == "Object":
        metric_status["describedObject"] = source["describedObject"]
    return MetricReading(count.replicas, name, {"type": kind, kind.lower(): metric_status})


def _values(pods: Sequence[Obj], metric: str) -> dict[str, int]:
    values = {name_of(pod): read_metric_value(pod, metric) for pod in pods}
    return {name: value for name, value in values.items() if value is not None}


def _find_described_object(cluster: Cluster, reference: Obj, namespace: str) -> Obj | None:
    kind = cluster.kinds.of_kind(reference.get("apiVersion") or "v1", reference["kind"])
    if kind is None:
        return None
    return cluster.find(kind.bucket, reference["name"], namespace)


def _format_milli(milli: int) -> str:
    return canonicalize_quantity(f"{milli}m")


@dataclass(slots=True)
class ScalingHistory:
    """The recommendations and scale events of an autoscaler, with their times."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    downs: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now: float, change: int) -> None:
        """Record a scaling by this number of replicas."""
        (self.ups if change > 0 else self.downs).append((now, abs(change)))


def _stabilization_window(rules: Obj, default: float) -> float:
    stabilization_window_seconds = rules.get("stabilizationWindowSeconds")
    return default if stabilization_window_seconds is None else float(stabilization_window_seconds)


def stabilize_recommendation(
    history: ScalingHistory,
    behavior: Obj,
    now: float,
    current: int,
    recommendation: int,
    scale: float,
) -> Step:
    """Return the stabilized recommendation.

    Args:
        history: the autoscaler's history.
        behavior: the spec's behavior.
        now: seconds.
        current: the present number of replicas.
        recommendation: the recommendation of the metrics.
        scale: the length of a second of the controller's own constants.

    Source: `stabilizeRecommendation`, `stabilizeRecommendationWithBehaviors`.
    """
    window_up = _stabilization_window(behavior.get("scaleUp") or {}, 0.0)
    window_down = _stabilization_window(behavior.get("scaleDown") or {}, _WINDOW_DOWN * scale)
    keep = now - max(window_up, window_down)
    least = min(
        [value for at, value in history.recommendations if at > now - window_up],
        default=recommendation,
    )
    most = max(
        [value for at, value in history.recommendations if at > now - window_down],
        default=recommendation,
    )
    history.recommendations = [entry for entry in history.recommendations if entry[0] > keep]
    history.recommendations.append((now, recommendation))
    replicas = max(current, min(least, recommendation))
    replicas = min(replicas, max(most, recommendation))
    if replicas == recommendation:
        return replicas, "ReadyForNewScale", "recommended size matches current size"
    if recommendation >= current:
        text = "recent recommendations were lower than current one, applying the lowest recent"
        return replicas, "ScaleUpStabilized", f"{text} recommendation"
    text = "recent recommendations were higher than current one, applying the highest recent"
    return replicas, "ScaleDownStabilized", f"{text} recommendation"


def limit_scaling_rate(
    history: ScalingHistory,
    behavior: Obj,
    now: float,
    current: int,
    recommendation: int,
    bounds: tuple[int, int],
) -> Step:
    """Return the recommendation limited by the scaling policies.

    Args:
        history: the autoscaler's history.
        behavior: the spec's behavior; may be empty.
        now: seconds.
        current: the present number of replicas.
        recommendation: the stabilized recommendation.
        bounds: the minimum and maximum of the spec.

    Source: `convertDesiredReplicasWithRules`, `convertDesiredReplicasWithBehaviorRate`.
    """
    least, most = bounds
    if recommendation > current or not behavior:
        limit = _up_limit(history, behavior, now, current)
        if recommendation > min(limit, most):
            if limit < most:
                text = "the desired replica count is increasing faster than the maximum scale rate"
                return limit, "ScaleUpLimit", text
            text = "the desired replica count is more than the maximum replica count"
            return most, "TooManyReplicas", text
    if behavior and recommendation < current:
        limit = _down_limit(history, behavior, now, current)
        if recommendation < limit and limit > least:
            text = "the desired replica count is decreasing faster than the maximum scale rate"
            return limit, "ScaleDownLimit", text
    if recommendation < least:
        text = "the desired replica count is less than the minimum replica count"
        return least, "TooFewReplicas", text
    return recommendation, "DesiredWithinRange", "the desired count is within the acceptable range"


def _up_limit(history: ScalingHistory, behavior: Obj, now: float, current: int) -> int:
    if not behavior:
        return max(2 * current, 4)
    rules = behavior.get("scaleUp") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or _POLICIES_UP:
        start = _replicas_at_period_start(history, policy, now, current)
        if policy["type"] == "Pods":
            proposals.append(start + policy["value"])
        else:
            proposals.append(math.ceil(start * (100 + policy["value"]) / 100))
    chosen = min(proposals) if rules.get("selectPolicy") == "Min" else max(proposals)
    return max(chosen, current)


def _down_limit(history: ScalingHistory, behavior: Obj, now: float, current: int) -> int:
    rules = behavior.get("scaleDown") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or _POLICIES_DOWN:
        start = _replicas_at_period_start(history, policy, now, current)
        if policy["type"] == "Pods":
            proposals.append(start - policy["value"])
        else:
            proposals.append(start * (100 - policy["value"]) // 100)
    chosen = max(proposals) if rules.get("selectPolicy") == "Min" else min(proposals)
    return min(chosen, current)


def _replicas_at_period_start(
    history: ScalingHistory, policy: Obj, now: float, current: int
) -> int:
    """Return the number of replicas at the start of a policy's period."""
    since = now - policy["periodSeconds"]
    return current - _changes_since(history.ups, since) + _changes_since(history.downs, since)


def _changes_since(changes: Sequence[tuple[float, int]], since: float) -> int:
    return sum(count for at, count in changes if at > since)


def format_metric_failure(metric: Obj, fault: str = "") -> tuple[str, str, str]:
    """Return reason, text and summary of a metric that could not be read.

    Args:
        fault: the error; empty if no server provides it.
    """
    kind = metric["type"]
    if kind in ("Resource", "ContainerResource"):
        source = metric["resource" if kind == "Resource" else "containerResource"]
        name = source["name"]
        quantity_kind = "utilization" if "averageUtilization" in source["target"] else "usage"
        fault = fault or f"unable to get metrics for resource {name}: {_NO_METRICS}"
        why = f"failed to get {name} {quantity_kind}: {fault}"
        metric_kind = "resource" if kind == "Resource" else "container resource"
        return (
            f"FailedGet{kind}Metric",
            why,
            f"failed to get {name} {metric_kind} metric value: {why}",
        )
    name = (metric.get(kind[0].lower() + kind[1:]) or {}).get("metric", {}).get("name", "")
    api = "external" if kind == "External" else "custom"
    fault = (
        fault or f"unable to fetch metrics from {api} metrics API: no {api} metrics API registered"
    )
    why = f"unable to get metric {name}: {fault}"
    return f"FailedGet{kind}Metric", why, f"failed to get {kind.lower()} metric value: {why}"


class HorizontalController:
    """Scales the targets of autoscalers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "horizontal-pod-autoscaler")
        self._histories: dict[str, ScalingHistory] = {}
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "horizontal-pod-autoscaler-controller"
        )
        cluster.subscribe(_AUTOSCALERS, self._changed)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        if change == "DELETED":
            self._queue.forget(key_of(new))
            self._histories.pop(uid_of(new), None)
        elif old is None:
            self._queue.add_after(key_of(new), _RESYNC_PERIOD)

    def _record_event(self, obj: Obj, severity: str, reason: str, message: str) -> None:
        self._recorder.event(obj, _KIND, severity, reason, message)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        autoscaler = self._cluster.find(_AUTOSCALERS, name, namespace)
        if autoscaler is None:
            return
        self._queue.add_after(key, _RESYNC_PERIOD)
        if is_being_deleted(autoscaler):
            return
        obj = clone(autoscaler)
        self._reconcile(obj)
        if obj["status"] != autoscaler.get("status"):
            self._cluster.update_status(_AUTOSCALERS, obj)

    def _reconcile(self, obj: Obj) -> None:
        status = obj.setdefault("status", {})
        status.setdefault("desiredReplicas", 0)
        try:
            kind, target = self._target(obj)
        except StatusError as error:
            self._record_event(obj, WARNING, "FailedGetScale", error.message)
            text = "the HPA controller was unable to get the target's current scale: "
            self._set_condition(obj, "AbleToScale", "False", "FailedGetScale", text + error.message)
            return
        text = "the HPA controller was able to get the target's current scale"
        self._set_condition(obj, "AbleToScale", "True", "SucceededGetScale", text)
        current = read_scale(kind, target)["spec"].get("replicas", 0)
        spec = obj["spec"]
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set_condition(obj, "ScalingActive", "False", "ScalingDisabled", text)
            status.update(currentReplicas=0, desiredReplicas=0)
        elif current > most:
            self._scale(obj, kind, target, current, most, f"{_CURRENT} above Spec.MaxReplicas")
        elif current < least:
            self._scale(obj, kind, target, current, least, f"{_CURRENT} below Spec.MinReplicas")
        elif spec.get("metrics"):
            status["currentReplicas"] = current
            self._scale_by_metrics(obj, kind, target, current)

    def _scale_by_metrics(self, obj: Obj, kind: Kind, target: Obj, current: int) -> None:
        """Scale the target by its metrics.

        Source: horizontal.go, `reconcileAutoscaler`, `computeReplicasForMetrics`.
        """
        proposal = self._compute_replicas(obj, self._pods(kind, target), current)
        if proposal is None:
            return

        recommendation, metric = proposal
        spec, now = obj["spec"], self._cluster.clock.time()
        history = self._histories.setdefault(uid_of(obj), ScalingHistory())
        behavior, bounds = (
            spec.get("behavior") or {},
            (spec.get("minReplicas", 1), spec["maxReplicas"]),
        )
        why = f"{metric} above target" if recommendation > current else "All metrics below target"
        scale = self._cluster.clock.scale
        agreed, reason, text = stabilize_recommendation(
            history, behavior, now, current, recommendation, scale
        )
        self._set_condition(obj, "AbleToScale", "True", reason, text)
        replicas, reason, text = limit_scaling_rate(history, behavior, now, current, agreed, bounds)
        limited = "False" if reason == "DesiredWithinRange" else "True"
        self._set_condition(obj, "ScalingLimited", limited, reason, text)
        obj["status"]["desiredReplicas"] = replicas
        if replicas != current and self._scale(obj, kind, target, current, replicas, why):
            history.note(now, replicas - current)

    def _pods(self, kind: Kind, target: Obj) -> list[Obj]:
        text = read_scale(kind, target)["status"].get("selector", "")
        selector = parse_labels(text)
        return [
            pod
            for pod in self._cluster.list("pods", namespace_of(target))
            if selector.matches(pod["metadata"].get("labels") or {})
        ]

    def _target(self, obj: Obj) -> tuple[Kind, Obj]:
        reference = obj["spec"]["scaleTargetRef"]
        version, name = reference.get("apiVersion", ""), reference["kind"]
        kind = self._cluster.kinds.of_kind(version, name)
        if kind is None or "scale" not in kind.subresources:
            text = f'no matches for kind "{name}" in group "{version.rpartition("/")[0]}"'
            raise StatusError(404, "NotFound", text)
        return kind, self._cluster.get(kind.bucket, reference["name"], namespace_of(obj))

    def _scale(
        self, obj: Obj, kind: Kind, target: Obj, current: int, replicas: int, reason: str
    ) -> bool:
        """Scale the target; return whether it succeeded."""
        status = obj["status"]

        try:
            self._cluster.scale(kind, name_of(target), namespace_of(target), replicas)
        except StatusError as error:
            text = f"New size: {replicas}; reason: {reason}; error: {error.message}"
            self._record_event(obj, WARNING, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error.message}"
            self._set_condition(obj, "AbleToScale", "False", "FailedUpdateScale", text)
            status["currentReplicas"] = current
            return False
        text = f"the HPA controller was able to update the target scale to {replicas}"
        self._set_condition(obj, "AbleToScale", "True", "SucceededRescale", text)
        message = f"New size: {replicas}; reason: {reason}"
        self._record_event(obj, NORMAL, "SuccessfulRescale", message)
        status.update(currentReplicas=current, desiredReplicas=replicas)
        status["lastScaleTime"] = self._cluster.clock.stamp()
        return True

    def _compute_replicas(self, obj: Obj, pods: list[Obj], current: int) -> tuple[int, str] | None:
        """Return the replicas recommended by the metrics, and the metric; None without any."""
        metrics = obj["spec"]["metrics"]
        first: tuple[str, str, str] | None = None
        most: tuple[int, str] | None = None
        failed = 0
        statuses: list[Obj] = []
        for metric in metrics:
            reading, refusal = self._read_metric(obj, metric, pods, current)
            if reading is None:
                failed += 1
                first = first or refusal
                self._record_event(obj, WARNING, *refusal[:2])
                statuses.append({"type": ""})
                continue
            statuses.append(reading.status)
            if most is None or reading.replicas > most[0]:
                most = (reading.replicas, reading.name)
        obj["status"]["currentMetrics"] = statuses
        if first is not None and (most is None or most[0] < current):
            reason, why, summary = first
            text = f"the HPA was unable to compute the replica count: {why}"
            self._set_condition(obj, "ScalingActive", "False", reason, text)
            count = f"{failed} invalid out of {len(metrics)}"
            text = f"invalid metrics ({count}), first error is: {summary}"
            self._record_event(obj, WARNING, "FailedComputeMetricsReplicas", text)
            return None
        if most is not None:
            text = "the HPA was able to successfully calculate a replica count from "
            self._set_condition(obj, "ScalingActive", "True", "ValidMetricFound", text + most[1])
        return most

    def _read_metric(
        self, obj: Obj, metric: Obj, pods: list[Obj], current: int
    ) -> tuple[MetricReading | None, tuple[str, str, str]]:
        """Return the reading of a metric, or reason, text and summary of its failure."""
        try:
            reading = read_metric(self._cluster, obj, metric, pods, current)
        except MetricError as error:
            return None, format_metric_failure(metric, str(error))
        return reading, format_metric_failure(metric)

    def _set_condition(self, obj: Obj, kind: str, value: str, reason: str, message: str) -> None:
        conditions = obj["status"].setdefault("conditions", [])
        condition = next((condition for condition in conditions if condition["type"] == kind), None)
        if condition is None:
            condition = {"type": kind}
            conditions.append(condition)
        if condition.get("status") != value:
            condition["lastTransitionTime"] = self._cluster.clock.stamp()
        condition.update(status=value, reason=reason, message=message)
