"""What may change of a job, and what more of one that is suspended.

Source: pkg/apis/batch/validation/validation.go, ValidateJobSpecUpdate, validatePodTemplateUpdate;
pkg/registry/batch/job/strategy.go, validationOptionsForJob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.jobs import validate_job, validate_job_spec
from pytest_kwait.simulator.validation.selectors import render_selector

if TYPE_CHECKING:
    from typing import Any

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_job_update"]

_IMMUTABLE_FIELDS = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_STRUCTS = {"podFailurePolicy": "batch.PodFailurePolicy", "successPolicy": "batch.SuccessPolicy"}
_IMMUTABLE = "field is immutable"
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


def validate_job_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """A change of a job's spec; what holds of any job goes on to hold, and is told twice."""
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return
    validate_job(new, found)
    validate_job_spec(spec, "spec", found)
    _validate_completions_update(spec, before, found)
    if spec.get("selector") != before.get("selector"):
        found.invalid("spec.selector", render_selector(spec.get("selector")), _IMMUTABLE)
    _validate_pod_template_update(spec, before, _is_suspended_without_pods(old), found)
    for field in _IMMUTABLE_FIELDS:
        value = spec.get(field)
        if value != before.get(field):
            found.invalid(f"spec.{field}", _render_field(field, value), _IMMUTABLE)


def _render_field(field: str, value: Any) -> Any:
    if value is None:
        return Rendered("null")
    return format_internal(_STRUCTS[field], value) if field in _STRUCTS else value


def _validate_completions_update(spec: Obj, before: Obj, found: ErrorList) -> None:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        shown = Rendered("null") if completions is None else completions
        found.invalid("spec.completions", shown, _IMMUTABLE)
    elif completions is not None and completions != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        found.invalid("spec.completions", completions, text)


def _is_suspended_without_pods(job: Obj) -> bool:
    """Whether none of the job's pods run, and none will until it is resumed."""
    status = job.get("status", {})
    suspended = any(
        one.get("type") == "Suspended" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )
    started = "startTime" in status and not suspended
    return bool(job["spec"].get("suspend")) and not started and not status.get("active")


def _validate_pod_template_update(spec: Obj, before: Obj, waiting: bool, found: ErrorList) -> None:
    template, earlier = spec["template"], before["template"]
    if template == earlier:
        return
    if waiting:
        earlier = _copy_scheduling_directives(template, earlier)
    if not waiting:
        if template != earlier:
            shown = format_internal("core.PodTemplateSpec", template)
            found.invalid("spec.template", shown, _IMMUTABLE)
        return
    pod, was = template.get("spec", {}), earlier.get("spec", {})
    for field in ("containers", "initContainers"):
        if len(pod.get(field, ())) != len(was.get(field, ())):
            continue
        for container, other in zip(pod.get(field, ()), was.get(field, ()), strict=True):
            if container.get("name") == other.get("name"):
                other["resources"] = container.get("resources", {})
    if pod != was:
        found.invalid("spec.template.spec", format_internal("core.PodSpec", pod), _IMMUTABLE)


def _copy_scheduling_directives(template: Obj, earlier: Obj) -> Obj:
    """The earlier template, with the new one's say in where its pods go."""
    merged: Obj = clone(earlier)
    spec, was = template.get("spec", {}), merged.setdefault("spec", {})
    for field in _SCHEDULING_FIELDS:
        _copy_field(was, spec, field)
    affinity: Obj = dict(was.get("affinity", {}))
    _copy_field(affinity, spec.get("affinity", {}), "nodeAffinity")
    if affinity or "affinity" in spec:
        was["affinity"] = affinity
    else:
        was.pop("affinity", None)
    return merged


def _copy_field(holder: Obj, source: Obj, field: str) -> None:
    if field in source:
        holder[field] = source[field]
    else:
        holder.pop(field, None)
