"""The rows of kinds that have a pod template.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import age_cell, elapsed_text
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.selectors import format_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "NONE",
    "controller_cells",
    "cron_job_cells",
    "daemon_set_cells",
    "deployment_cells",
    "format_labels",
    "job_cells",
    "pod_template_cells",
    "replica_set_cells",
    "scale_cells",
    "selector_cell",
    "stateful_set_cells",
]

NONE = "<none>"
_JOB_CONDITION_TYPES = (
    "Complete",
    "Failed",
    "Terminating",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
)


def format_labels(labels: dict[str, str] | None) -> str:
    """Labels in their order, joined."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Obj | None) -> str:
    """A selector object in the query parameter's grammar."""
    return (format_selector(selector) if selector else "") or NONE


def _container_cells(spec: Obj) -> list[str]:
    containers = spec.get("template", {}).get("spec", {}).get("containers", [])
    return [
        ",".join(one["name"] for one in containers),
        ",".join(one.get("image", "") for one in containers),
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
    true = {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}
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
    """The row of a scale."""
    wanted, present = obj.get("spec", {}), obj.get("status", {})
    return [name_of(obj), wanted.get("replicas", 0), present.get("replicas", 0), age_cell(obj)]
