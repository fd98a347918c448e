"""An autoscaler's row: what it measures against what it aims at.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, formatHPAMetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import UNKNOWN, age_cell
from pytest_kwait.simulator.apiserver.printers.workload_cells import NONE
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["autoscaler_cells"]

_MAX_SHOWN_METRICS = 2
_METRIC_SOURCE_FIELDS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def autoscaler_cells(obj: Obj) -> list[Any]:
    """The row of an autoscaler of version 2."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    target = spec.get("scaleTargetRef", {})
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics_cell(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age_cell(obj),
    ]


def _metrics_cell(wanted: Any, measured: Any) -> str:
    shown = []
    for index, metric in enumerate(wanted):
        source = _METRIC_SOURCE_FIELDS.get(metric.get("type", ""))
        if source is None:
            shown.append("<unknown type>")
            continue
        found = measured[index] if index < len(measured) else {}
        present = found.get(source)
        current = None if present is None else present.get("current", {})
        shown.append(_metric_text(source, metric.get(source, {}), current))
    text = ", ".join(shown[:_MAX_SHOWN_METRICS])
    if len(shown) > _MAX_SHOWN_METRICS:
        text += f" + {len(shown) - _MAX_SHOWN_METRICS} more..."
    return text or NONE


def _metric_text(source: str, wanted: Obj, current: Obj | None) -> str:
    """One metric; `current` is None where it has not been measured."""
    target = wanted.get("target", {})
    average = target.get("averageValue")
    measured = UNKNOWN
    if source in ("resource", "containerResource"):
        if average is not None:
            if current is not None:
                measured = current.get("averageValue", "0")
            return f"{wanted.get('name', '')}: {measured}/{average}"
        if current is not None and current.get("averageUtilization") is not None:
            measured = f"{current['averageUtilization']}%"
        aim = target.get("averageUtilization")
        return f"{wanted.get('name', '')}: {measured}/{'<auto>' if aim is None else f'{aim}%'}"
    if source == "pods":
        if current is not None:
            measured = current.get("averageValue", "0")
        return f"{measured}/{average or '0'}"
    if average is not None:
        if current is not None and current.get("averageValue") is not None:
            measured = current["averageValue"]
        return f"{measured}/{average} (avg)"
    if current is not None:
        measured = current.get("value", "0")
    return f"{measured}/{target.get('value', '0')}"
