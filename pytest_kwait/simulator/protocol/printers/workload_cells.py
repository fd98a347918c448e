"""Cells of pods, workloads and autoscalers, and the age of an object.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go (printPod, formatHPAMetrics);
k8s.io/apimachinery pkg/util/duration/duration.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.apimachinery.selectors import format_label_selector
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"

_JOB_CONDITION_TYPES = (
    "Complete",
    "Failed",
    "Terminating",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
)

_MAX_SHOWN_METRICS = 2
_METRIC_SOURCE_FIELDS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def human_duration(seconds: float) -> str:
    """Format a duration as coarsely as kubectl: `7s`, `2m5s`, `3h`, `12d`."""
    total = int(seconds)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{max(total, 0)}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    if years < 8 and rest:
        return f"{years}y{rest}d"
    return f"{years}y"


def elapsed_text(stamp: str | None, until: str | None = None) -> str:
    """Return the time from `stamp` to `until` or now; `<unknown>` without a stamp."""
    if not stamp:
        return UNKNOWN
    start = parse_time(stamp)
    end = parse_time(until) if until else SYSTEM_CLOCK.time()
    return human_duration(end - start)


def age_cell(obj: Obj) -> str:
    """Return the object's age."""
    return elapsed_text(obj["metadata"].get("creationTimestamp"))


def format_labels(labels: dict[str, str] | None) -> str:
    """Join labels in their order."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Obj | None) -> str:
    """Format a selector as a query parameter."""
    return (format_label_selector(selector) if selector else "") or NONE


def _container_cells(spec: Obj) -> list[str]:
    containers = spec.get("template", {}).get("spec", {}).get("containers", [])
    return [
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def deployment_cells(obj: Obj) -> list[Any]:
    """A deployment's row."""
    spec, status = obj["spec"], obj.get("status", {})
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_cell(obj),
        *_container_cells(spec),
        selector_cell(spec.get("selector")),
    ]


def replica_set_cells(obj: Obj) -> list[Any]:
    """A replica set's row."""
    spec, status = obj["spec"], obj.get("status", {})
    return [
        name_of(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_cell(obj),
        *_container_cells(spec),
        selector_cell(spec.get("selector")),
    ]


def controller_cells(obj: Obj) -> list[Any]:
    """A replication controller's row."""
    cells = replica_set_cells({**obj, "spec": {**obj["spec"], "selector": None}})
    return [*cells[:-1], format_labels(obj["spec"].get("selector"))]


def stateful_set_cells(obj: Obj) -> list[Any]:
    """A stateful set's row."""
    spec, status = obj["spec"], obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age_cell(obj), *_container_cells(spec)]


def daemon_set_cells(obj: Obj) -> list[Any]:
    """A daemon set's row."""
    spec, status = obj["spec"], obj.get("status", {})
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(status.get(count, 0) for count in counts),
        format_labels(spec.get("template", {}).get("spec", {}).get("nodeSelector")),
        age_cell(obj),
        *_container_cells(spec),
        selector_cell(spec.get("selector")),
    ]


def job_cells(obj: Obj) -> list[Any]:
    """A job's row."""
    spec, status = obj["spec"], obj.get("status", {})
    succeeded = status.get("succeeded", 0)
    if "completions" in spec:
        completions = f"{succeeded}/{spec['completions']}"
    elif spec.get("parallelism", 1) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    true = {
        condition["type"]
        for condition in status.get("conditions", ())
        if condition["status"] == "True"
    }
    state = "Running"
    if obj["metadata"].get("deletionTimestamp"):
        true.add("Terminating")
    for condition in _JOB_CONDITION_TYPES:
        if condition in true:
            state = condition
            break
    start = status.get("startTime")
    duration = elapsed_text(start, status.get("completionTime")) if start else ""
    return [
        name_of(obj),
        state,
        completions,
        duration,
        age_cell(obj),
        *_container_cells(spec),
        selector_cell(spec.get("selector")),
    ]


def cron_job_cells(obj: Obj) -> list[Any]:
    """A cron job's row."""
    spec, status = obj["spec"], obj.get("status", {})
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        elapsed_text(last) if last else NONE,
        age_cell(obj),
        *_container_cells(spec.get("jobTemplate", {}).get("spec", {})),
        NONE,
    ]


def pod_template_cells(obj: Obj) -> list[Any]:
    """A pod template's row."""
    labels = obj.get("template", {}).get("metadata", {}).get("labels")
    return [name_of(obj), *_container_cells(obj), format_labels(labels)]


def scale_cells(obj: Obj) -> list[Any]:
    """A scale's row."""
    scale_spec, scale_status = obj.get("spec", {}), obj.get("status", {})
    return [
        name_of(obj),
        scale_spec.get("replicas", 0),
        scale_status.get("replicas", 0),
        age_cell(obj),
    ]


def pod_cells(pod: Obj) -> list[Any]:
    """A pod's row, wide columns included."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    restarts, ready, last = 0, 0, ""
    reason = _init_container_reason(spec, status)
    initializing = reason is not None
    if reason is None:
        reason, running = status.get("reason") or status.get("phase", ""), False
        for state in reversed(status.get("containerStatuses", ())):
            restarts += state.get("restartCount", 0)
            ended = state.get("lastState", {}).get("terminated", {})
            last = max(last, ended.get("finishedAt") or "")
            waiting = state.get("state", {}).get("waiting")
            terminated = state.get("state", {}).get("terminated")
            if waiting and waiting.get("reason"):
                reason = waiting["reason"]
            elif terminated and terminated.get("reason"):
                reason = terminated["reason"]
            elif terminated:
                reason = _termination_reason(terminated)
            elif state.get("ready") and state.get("state", {}).get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed" and running:
            reason = "Running" if is_condition_true(pod, "Ready") else "NotReady"
    else:
        for state in status.get("initContainerStatuses", ()):
            restarts += state.get("restartCount", 0)
    if not initializing and status.get("phase") == "Pending" and reason == "Pending":
        scheduled = get_condition(pod, "PodScheduled") or {}
        reason = "SchedulingGated" if scheduled.get("reason") == "SchedulingGated" else reason
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Failed", "Succeeded"):
            reason = "Terminating"
    restarted = f"{restarts} ({elapsed_text(last)} ago)" if restarts and last else str(restarts)
    gates = spec.get("readinessGates", ())
    held = {
        condition["type"]
        for condition in status.get("conditions", ())
        if condition["status"] == "True"
    }
    met = sum(gate["conditionType"] in held for gate in gates)
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers', ()))}",
        reason,
        restarted,
        age_cell(pod),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{met}/{len(gates)}" if gates else NONE,
    ]


def _init_container_reason(spec: Obj, status: Obj) -> str | None:
    """Return the status of pending init containers; None when they are done."""
    total = len(spec.get("initContainers", ()))
    for index, state in enumerate(status.get("initContainerStatuses", ())):
        terminated = state.get("state", {}).get("terminated")
        waiting = state.get("state", {}).get("waiting")
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if state.get("started") and _is_sidecar(spec, index):
            continue
        if terminated:
            return f"Init:{terminated.get('reason') or _termination_reason(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def _is_sidecar(spec: Obj, index: int) -> bool:
    containers = spec.get("initContainers", ())
    return index < len(containers) and containers[index].get("restartPolicy") == "Always"


def _termination_reason(terminated: Obj) -> str:
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def autoscaler_cells(obj: Obj) -> list[Any]:
    """The row of an autoscaler of version 2."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    target = spec.get("scaleTargetRef", {})
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics_cell(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", UNSET)),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age_cell(obj),
    ]


def _metrics_cell(metrics: Any, measured: Any) -> str:
    texts = []
    for index, metric in enumerate(metrics):
        source = _METRIC_SOURCE_FIELDS.get(metric.get("type", ""))
        if source is None:
            texts.append("<unknown type>")
            continue
        measurement = measured[index] if index < len(measured) else {}
        metric_status = measurement.get(source)
        current = None if metric_status is None else metric_status.get("current", {})
        texts.append(_metric_text(source, metric.get(source, {}), current))
    text = ", ".join(texts[:_MAX_SHOWN_METRICS])
    if len(texts) > _MAX_SHOWN_METRICS:
        text += f" + {len(texts) - _MAX_SHOWN_METRICS} more..."
    return text or NONE


def _metric_text(source: str, metric_spec: Obj, current: Obj | None) -> str:
    """Format one metric; `current` is None if it is unmeasured."""
    target = metric_spec.get("target", {})
    average = target.get("averageValue")
    measured = UNKNOWN
    if source in ("resource", "containerResource"):
        if average is not None:
            if current is not None:
                measured = current.get("averageValue", "0")
            return f"{metric_spec.get('name', '')}: {measured}/{average}"
        if current is not None and current.get("averageUtilization") is not None:
            measured = f"{current['averageUtilization']}%"
        aim = target.get("averageUtilization")
        return f"{metric_spec.get('name', '')}: {measured}/{'<auto>' if aim is None else f'{aim}%'}"
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
