"""What may change of a job, and what more of one that is suspended.

Source: pkg/apis/batch/validation/validation.go, ValidateJobSpecUpdate, validatePodTemplateUpdate;
pkg/registry/batch/job/strategy.go, validationOptionsForJob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.status_error import Rendered
from pytest_kwait.simulator.workload_rules.jobs import check_job, check_job_spec
from pytest_kwait.simulator.workload_rules.selectors import shown_selector

if TYPE_CHECKING:
    from typing import Any

    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_job_change"]

_FIXED = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_STRUCTS = {"podFailurePolicy": "batch.PodFailurePolicy", "successPolicy": "batch.SuccessPolicy"}
_IMMUTABLE = "field is immutable"
_PLACING = ("nodeSelector", "tolerations", "schedulingGates")


def check_job_change(new: Obj, old: Obj, found: Findings) -> None:
    """A change of a job's spec; what holds of any job goes on to hold, and is told twice."""
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return
    check_job(new, found)
    check_job_spec(spec, "spec", found)
    _check_completions(spec, before, found)
    if spec.get("selector") != before.get("selector"):
        found.invalid("spec.selector", shown_selector(spec.get("selector")), _IMMUTABLE)
    _check_template(spec, before, _is_waiting(old), found)
    for field in _FIXED:
        value = spec.get(field)
        if value != before.get(field):
            found.invalid(f"spec.{field}", _shown(field, value), _IMMUTABLE)


def _shown(field: str, value: Any) -> Any:
    if value is None:
        return Rendered("null")
    return internal_json(_STRUCTS[field], value) if field in _STRUCTS else value


def _check_completions(spec: Obj, before: Obj, found: Findings) -> None:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        shown = Rendered("null") if completions is None else completions
        found.invalid("spec.completions", shown, _IMMUTABLE)
    elif completions is not None and completions != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        found.invalid("spec.completions", completions, text)


def _is_waiting(job: Obj) -> bool:
    """Whether none of the job's pods run, and none will until it is resumed."""
    status = job.get("status", {})
    suspended = any(
        one.get("type") == "Suspended" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )
    started = "startTime" in status and not suspended
    return bool(job["spec"].get("suspend")) and not started and not status.get("active")


def _check_template(spec: Obj, before: Obj, waiting: bool, found: Findings) -> None:
    template, earlier = spec["template"], before["template"]
    if template == earlier:
        return
    if waiting:
        earlier = _placed(template, earlier)
    if not waiting:
        if template != earlier:
            shown = internal_json("core.PodTemplateSpec", template)
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
        found.invalid("spec.template.spec", internal_json("core.PodSpec", pod), _IMMUTABLE)


def _placed(template: Obj, earlier: Obj) -> Obj:
    """The earlier template, with the new one's say in where its pods go."""
    merged: Obj = clone(earlier)
    spec, was = template.get("spec", {}), merged.setdefault("spec", {})
    for field in _PLACING:
        _take(was, spec, field)
    affinity: Obj = dict(was.get("affinity", {}))
    _take(affinity, spec.get("affinity", {}), "nodeAffinity")
    if affinity or "affinity" in spec:
        was["affinity"] = affinity
    else:
        was.pop("affinity", None)
    return merged


def _take(holder: Obj, source: Obj, field: str) -> None:
    if field in source:
        holder[field] = source[field]
    else:
        holder.pop(field, None)
