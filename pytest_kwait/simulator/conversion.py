"""Convert objects between the versions of their kind.

HorizontalPodAutoscalers are stored as autoscaling/v2; what v1 has no field for is kept in
annotations, which v2 does not show. Events rename fields between v1 and events.k8s.io/v1.
Source: k8s.io/kubernetes pkg/apis/autoscaling/v1/conversion.go, pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITION_FIELDS = ("type", "status", "lastTransitionTime", "reason", "message")
"""The fields of a condition, in the order of v1 in its annotation."""
_CONVERSION_ANNOTATIONS = frozenset({_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR})
_DEFAULT_UTILIZATION = 80
_SPEC = ("scaleTargetRef", "minReplicas", "maxReplicas")
_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_SOURCES = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def hpa_to_v1(obj: Obj) -> Obj:
    """Convert autoscaling/v2 to v1."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    new_spec = {name: spec[name] for name in _SPEC if name in spec}
    annotations = _drop_conversion_annotations(obj)
    other_metrics = []
    for metric in spec.get("metrics") or ():
        utilization = _utilization(metric, "target")
        if utilization is None:
            other_metrics.append(_metric_to_v1(metric, "target", "target"))
        else:
            new_spec.setdefault("targetCPUUtilizationPercentage", utilization)
    if other_metrics:
        annotations[_METRICS] = _encode_annotation(other_metrics)
    if current := status.get("currentMetrics"):
        annotations[_CURRENT] = _encode_annotation(
            [_metric_to_v1(metric, "current", "current") for metric in current]
        )
    if behavior := spec.get("behavior"):
        annotations[_BEHAVIOR] = _encode_annotation(
            {
                "ScaleUp": _capitalize_rules(behavior.get("scaleUp")),
                "ScaleDown": _capitalize_rules(behavior.get("scaleDown")),
            }
        )
    if conditions := status.get("conditions"):
        annotations[_CONDITIONS] = _encode_annotation(
            [
                {field: condition[field] for field in _CONDITION_FIELDS if field in condition}
                for condition in conditions
            ]
        )
    new_status = {"currentReplicas": 0} | {name: status[name] for name in _STATUS if name in status}
    for metric in status.get("currentMetrics") or ():
        utilization = _utilization(metric, "current")
        if utilization is not None:
            new_status["currentCPUUtilizationPercentage"] = utilization
    version_one = {**obj, "apiVersion": "autoscaling/v1", "spec": new_spec}
    if "status" in obj:
        version_one["status"] = new_status
    return _set_annotations(version_one, annotations)


def hpa_to_v2(obj: Obj) -> Obj:
    """Convert autoscaling/v1 to v2."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    annotations = obj["metadata"].get("annotations") or {}
    converted: Obj = {name: spec[name] for name in _SPEC if name in spec}
    metrics = [
        _metric_to_v2(metric, "target", "target")
        for metric in _decode_annotation(annotations.get(_METRICS)) or ()
    ]
    utilization = spec.get("targetCPUUtilizationPercentage")
    if utilization is None and not metrics:
        utilization = _DEFAULT_UTILIZATION
    if utilization is not None:
        metrics.append(
            _cpu_metric("target", {"type": "Utilization", "averageUtilization": utilization})
        )
    converted["metrics"] = metrics
    behavior = _decode_annotation(annotations.get(_BEHAVIOR))
    if behavior:
        rules = {"scaleUp": behavior.get("ScaleUp"), "scaleDown": behavior.get("ScaleDown")}
        converted["behavior"] = {
            name: _uncapitalize_rules(rule) for name, rule in rules.items() if rule
        }
    new_status: Obj = {name: status[name] for name in _STATUS if name in status}
    if (usage := status.get("currentCPUUtilizationPercentage")) is not None:
        new_status["currentMetrics"] = [_cpu_metric("current", {"averageUtilization": usage})]
    if current := _decode_annotation(annotations.get(_CURRENT)):
        new_status["currentMetrics"] = [
            _metric_to_v2(metric, "current", "current") for metric in current
        ]
    if conditions := _decode_annotation(annotations.get(_CONDITIONS)):
        new_status["conditions"] = conditions
    version_two = {**obj, "apiVersion": "autoscaling/v2", "spec": converted}
    if "status" in obj:
        version_two["status"] = new_status
    return _set_annotations(version_two, _drop_conversion_annotations(obj))


def _cpu_metric(place: str, value: Obj) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", place: value}}


def _utilization(metric: Obj, place: str) -> int | None:
    """Return the CPU utilization, which v1 has a field for; None for other metrics."""
    source = metric.get("resource")
    if metric.get("type") != "Resource" or not source or source.get("name") != "cpu":
        return None
    average_utilization: int | None = source.get(place, {}).get("averageUtilization")
    return average_utilization


def _metric_to_v1(metric: Obj, place: str, prefix: str) -> Obj:
    """Convert a metric or its status to the form of v1, with its order of fields."""
    field = _SOURCES.get(metric["type"], "")
    source = metric.get(field)
    if source is None:
        return {"type": metric["type"]}
    value, about = source.get(place, {}), source.get("metric", {})
    v1_metric: Obj
    if field == "object":
        v1_metric = {
            "target": source.get("describedObject"),
            "metricName": about.get("name"),
            f"{prefix}Value": value.get("value", "0"),
            "selector": about.get("selector"),
            "averageValue": value.get("averageValue"),
        }
    elif field == "pods":
        v1_metric = {
            "metricName": about.get("name"),
            f"{prefix}AverageValue": value.get("averageValue", "0"),
            "selector": about.get("selector"),
        }
    elif field == "external":
        v1_metric = {
            "metricName": about.get("name"),
            "metricSelector": about.get("selector"),
            f"{prefix}Value": value.get("value", "0" if place == "current" else None),
            f"{prefix}AverageValue": value.get("averageValue"),
        }
    else:
        v1_metric = {
            "name": source.get("name"),
            f"{prefix}AverageUtilization": value.get("averageUtilization"),
            f"{prefix}AverageValue": value.get("averageValue", "0" if place == "current" else None),
            "container": source.get("container"),
        }
    return {"type": metric["type"], field: _drop_none(v1_metric)}


def _metric_to_v2(metric: Obj, place: str, prefix: str) -> Obj:
    field = _SOURCES.get(metric.get("type", ""), "")
    source = metric.get(field)
    if source is None:
        return {"type": metric.get("type", "")}
    about: Obj = {"name": source.get("metricName")}
    value: Obj = {
        "averageValue": source.get(f"{prefix}AverageValue"),
        "averageUtilization": source.get(f"{prefix}AverageUtilization"),
        "value": source.get(f"{prefix}Value"),
    }
    converted: Obj = {}
    if field == "object":
        value["averageValue"] = source.get("averageValue")
        if value["averageValue"] is not None and value["value"] == "0":
            value["value"] = None
        converted["describedObject"] = source.get("target")
    if field in ("object", "pods", "external"):
        about["selector"] = source.get("metricSelector" if field == "external" else "selector")
        converted["metric"] = _drop_none(about)
    else:
        converted |= _drop_none({"name": source.get("name"), "container": source.get("container")})
    if place == "target":
        value["type"] = _target_type(field, value)
    converted[place] = _drop_none(value)
    return {"type": metric["type"], field: converted}


def _target_type(field: str, value: Obj) -> str:
    if field in ("resource", "containerResource") and value["averageUtilization"] is not None:
        return "Utilization"
    if field == "object" and value["averageValue"] is None:
        return "Value"
    return "Value" if field == "external" and value["value"] is not None else "AverageValue"


def _capitalize_rules(rule: Obj | None) -> Obj | None:
    """Write a rule as Go does a struct without JSON tags."""
    if rule is None:
        return None
    policies = [
        {
            "Type": policy.get("type"),
            "Value": policy.get("value"),
            "PeriodSeconds": policy.get("periodSeconds"),
        }
        for policy in rule.get("policies") or ()
    ]
    go_rule: Obj = {name[0].upper() + name[1:]: rule.get(name) for name in _RULES}
    go_rule["Policies"] = policies or None
    return go_rule


def _uncapitalize_rules(rule: Obj) -> Obj:
    converted = {name: rule.get(name[0].upper() + name[1:]) for name in _RULES}
    converted["policies"] = [
        {
            "type": policy.get("Type"),
            "value": policy.get("Value"),
            "periodSeconds": policy.get("PeriodSeconds"),
        }
        for policy in converted["policies"] or ()
    ]
    return _drop_none(converted)


def _drop_none(fields: Obj) -> Obj:
    return {name: value for name, value in fields.items() if value is not None}


def _encode_annotation(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decode_annotation(text: str | None) -> Any:
    """Decode an annotation; None if it is invalid, as upstream."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _drop_conversion_annotations(obj: Obj) -> dict[str, str]:
    annotations = obj["metadata"].get("annotations") or {}
    return {name: text for name, text in annotations.items() if name not in _CONVERSION_ANNOTATIONS}


def _set_annotations(obj: Obj, annotations: dict[str, str]) -> Obj:
    metadata = {**obj["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**obj, "metadata": metadata}


def to_version_without_webhook(kind: Kind, obj: Obj) -> Obj:
    """Convert a stored object to the version `kind`, without a webhook."""
    if obj.get("apiVersion") == kind.api_version:
        return obj
    if kind.structure is not None:
        return {**kind.structure.prune_converted(obj), "apiVersion": kind.api_version}
    if kind.converted:
        return hpa_to_v1(obj)
    if kind.bucket == "events":
        obj = {_NEW_NAMES.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": kind.api_version}


def to_version(kind: Kind, obj: Obj) -> Obj:
    """Convert an object to the version `kind`, by the kind's webhook if it has one.

    Raises:
        StatusError: 500, the webhook fails.
    """
    structure = kind.structure
    if structure is None or structure.conversion is None:
        return to_version_without_webhook(kind, obj)
    if obj.get("apiVersion") == kind.api_version:
        return obj
    return structure.conversion.convert(obj, kind)


def to_storage_version(kind: Kind, obj: Obj) -> Obj:
    """Convert an object of the version `kind` to the storage version."""
    if kind.stored:
        return obj
    if kind.converted:
        return hpa_to_v2(obj)
    return {_OLD_NAMES.get(key, key): value for key, value in obj.items()}
