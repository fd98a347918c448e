"""Validation of horizontal pod autoscalers.

Source: k8s.io/kubernetes pkg/apis/autoscaling/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import NEGATIVE, ErrorList
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_label_texts, path_segment_texts
from pytest_kwait.simulator.validation.core.resources import validate_container_resource_name

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_SOURCES = {
    # In kube-apiserver's order.
    "object": "Object",
    "external": "External",
    "pods": "Pods",
    "resource": "Resource",
    "containerResource": "ContainerResource",
}
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECTIONS = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_MAX_STABILIZATION_WINDOW, _MAX_PERIOD = 3600, 1800
_NO_GROUP = "apiVersion must specify API group"


def validate_horizontal_pod_autoscaler_spec(spec: Obj, before: Obj | None) -> ErrorList:
    """Validate an autoscaler's spec; the stored one, if any, relaxes the checks."""
    errors = ErrorList()
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    from_zero = before is not None and before.get("minReplicas") == 0
    lowest = 0 if from_zero else 1
    if least is not None and least < lowest:
        text = f"must be greater than or equal to {lowest}"
        errors.invalid("spec.minReplicas", least, text)
    if most == 0:
        errors.required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        errors.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        errors.invalid("spec.maxReplicas", most, text)
    target = spec.get("scaleTargetRef", {})
    is_unchanged = before is not None and all(
        target.get(field) == before.get("scaleTargetRef", {}).get(field)
        for field in ("apiVersion", "kind")
    )
    groupless = is_unchanged or target.get("kind") == "ReplicationController"
    errors += _validate_cross_version_reference(
        target, "spec.scaleTargetRef", groupless=groupless, is_unchanged=is_unchanged
    )
    metrics = spec.get("metrics", [])
    for index, metric in enumerate(metrics):
        errors += _validate_metric(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        errors.forbidden("spec.metrics", text)
    for field in ("scaleUp", "scaleDown"):
        rules = spec.get("behavior", {}).get(field)
        if rules is not None:
            errors += _validate_scaling_rules(rules, f"spec.behavior.{field}")
    return errors


def _validate_cross_version_reference(
    ref: Obj, at: str, *, groupless: bool, is_unchanged: bool = False
) -> ErrorList:
    errors = ErrorList()
    for field in ("kind", "name"):
        value = ref.get(field, "")
        errors.require_valid(f"{at}.{field}", value, path_segment_texts)
    version = ref.get("apiVersion", "")
    if is_unchanged:
        return errors
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.invalid(f"{at}.apiVersion", version, text)
    elif not groupless and "/" not in version.removeprefix("/"):
        errors.invalid(f"{at}.apiVersion", version, _NO_GROUP)
    return errors


def _validate_metric(metric: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{at}.type", "must specify a metric source type")
    if kind not in _TYPES:
        errors.not_supported(f"{at}.type", kind, _TYPES)
    sources = [source for source in _SOURCES if source in metric]
    if sources:
        errors += _validate_metric_source(metric[sources[0]], sources[0], f"{at}.{sources[0]}")
    expected = next((source for source, name in _SOURCES.items() if name == kind), None)
    if expected is None:
        errors.not_supported(f"{at}.type", kind, _TYPES)
    elif expected not in metric:
        text = "must populate information for the given metric source"
        errors.required(f"{at}.{expected}", text)
    if len(sources) != 1:
        for source in sorted(sources):
            if source != expected:
                text = "must populate the given metric source only"
                errors.forbidden(f"{at}.{source}", text)
    return errors


def _validate_metric_source(source: Obj, kind: str, at: str) -> ErrorList:
    errors = ErrorList()
    target = source.get("target", {})
    if kind == "object":
        described = source.get("describedObject", {})
        errors += _validate_cross_version_reference(
            described, f"{at}.describedObject", groupless=True
        )
    if kind in ("object", "external", "pods"):
        name = source.get("metric", {}).get("name", "")
        errors.require_valid(
            f"{at}.metric.name", name, path_segment_texts, "must specify a metric name"
        )
    else:
        errors += _validate_resource_metric(source, kind, at)
    errors += _validate_metric_target(target, f"{at}.target")
    value, average = "value" in target, "averageValue" in target
    utilization = "averageUtilization" in target
    at = f"{at}.target"
    if kind == "object" and not value and not average:
        errors.required(f"{at}.averageValue", "must set either a target value or averageValue")
    elif kind == "external":
        if not value and not average:
            text = "must set either a target value for metric or a per-pod target"
            errors.required(f"{at}.averageValue", text)
        if value and average:
            text = "may not set both a target value for metric and a per-pod target"
            errors.forbidden(f"{at}.value", text)
    elif kind == "pods" and not average:
        errors.required(f"{at}.averageValue", "must specify a positive target averageValue")
    elif kind in ("resource", "containerResource"):
        if not utilization and not average:
            text = "must set either a target raw value or a target utilization"
            errors.required(f"{at}.averageUtilization", text)
        if utilization and average:
            text = "may not set both a target raw value and a target utilization"
            errors.forbidden(f"{at}.averageValue", text)
    return errors


def _validate_resource_metric(source: Obj, kind: str, at: str) -> ErrorList:
    errors = ErrorList()
    name = source.get("name", "")
    if not name:
        errors.required(f"{at}.name", "must specify a resource name")
    elif kind == "containerResource":
        errors += validate_container_resource_name(name, f"{at}.name")
    if kind != "containerResource":
        return errors
    container = source.get("container", "")
    errors.require_valid(f"{at}.container", container, dns_label_texts, "must specify a container")
    return errors


def _validate_metric_target(target: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    kind = target.get("type", "")
    if not kind:
        errors.required(f"{at}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        text = "must be either Utilization, Value, or AverageValue"
        errors.invalid(f"{at}.type", kind, text)
    for field in ("value", "averageValue"):
        if field in target and parse_quantity(target[field]).amount <= 0:
            errors.invalid(f"{at}.{field}", target[field], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.invalid(f"{at}.averageUtilization", utilization, "must be greater than 0")
    return errors


def _validate_scaling_rules(rules: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    window, selection = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    here = f"{at}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.invalid(here, window, "must be greater than or equal to zero")
    if window is not None and window > _MAX_STABILIZATION_WINDOW:
        errors.invalid(here, window, f"must be less than or equal to {_MAX_STABILIZATION_WINDOW}")
    errors.require_supported(f"{at}.selectPolicy", selection, _SELECTIONS)
    policies = rules.get("policies") or []
    if not policies:
        errors.required(f"{at}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        here = f"{at}.policies[{index}]"
        if policy.get("type", "") not in _POLICIES:
            errors.not_supported(f"{here}.type", policy.get("type", ""), _POLICIES)
        for field in ("value", "periodSeconds"):
            if policy.get(field, 0) <= 0:
                errors.invalid(f"{here}.{field}", policy.get(field, 0), "must be greater than zero")
        if policy.get("periodSeconds", 0) > _MAX_PERIOD:
            text = f"must be less than or equal to {_MAX_PERIOD}"
            errors.invalid(f"{here}.periodSeconds", policy["periodSeconds"], text)
    if "tolerance" in rules and parse_quantity(rules["tolerance"]).amount < 0:
        errors.invalid(f"{at}.tolerance", rules["tolerance"], NEGATIVE)
    return errors
