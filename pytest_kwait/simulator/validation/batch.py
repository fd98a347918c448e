"""What may be said of a job: numbers that fit each other, and conclusions that stay.

Source: pkg/apis/batch/validation/validation.go, validateJobStatus, ValidateJobStatusUpdate;
pkg/registry/batch/job/strategy.go, getStatusValidationOptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.validation.success_policies import count_indexes, find_common_index

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_job_status_update"]

_CONDITIONS_PATH = "status.conditions"
_TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget")
_IMMUTABLE = "field is immutable"


def _get_true_conditions(status: Obj) -> set[str]:
    """The types of the conditions that hold."""
    return {
        one.get("type", "") for one in status.get("conditions") or () if one.get("status") == "True"
    }


def validate_job_status_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """A job's status, beside what it was."""
    spec, status, before = new["spec"], new.get("status") or {}, old.get("status") or {}
    if status == before:
        return
    found.not_negative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    _validate_uncounted_pods(status.get("uncountedTerminatedPods") or {}, found)
    holds, held = _get_true_conditions(status), _get_true_conditions(before)
    changed = {
        field for field in status.keys() | before.keys() if status.get(field) != before.get(field)
    }
    _validate_conclusions(status, holds, held, changed, found)
    _validate_terminal_conditions(spec, status, holds, held, changed, found)
    _validate_status_indexes(spec, status, changed, found)
    ended = _is_finished(holds) and ("terminating" in changed or not _is_finished(held))
    if ended and status.get("terminating", 0) > 0:
        text = "terminating>0 is invalid for finished job"
        found.invalid("status.terminating", status["terminating"], text)
    ready = status.get("ready") if {"ready", "active"} & changed else None
    if ready is not None and ready > status.get("active", 0):
        text = "cannot set more ready pods than active"
        found.invalid("status.ready", ready, text)
    if "SuccessCriteriaMet" in holds:
        for other, shown in (("Failed", "Failed"), ("FailureTarget", "FailureTarget")):
            if other in holds:
                text = f"cannot set SuccessCriteriaMet=True and {shown}=true conditions"
                found.invalid_whole(_CONDITIONS_PATH, text)
    elif "successPolicy" in spec and "Complete" in holds:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        found.invalid_whole(_CONDITIONS_PATH, text)
    _validate_status_transition(new, status, before, found)


def _validate_uncounted_pods(pods: Obj, found: ErrorList) -> None:
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(field) or ()):
            here = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                found.invalid(here, uid, "must not be empty")
            elif uid in seen:
                found.duplicate(here, uid)
            seen.add(uid)


def _is_finished(holds: set[str]) -> bool:
    return bool({"Complete", "Failed"} & holds)


def _validate_conclusions(
    status: Obj, holds: set[str], held: set[str], changed: set[str], found: ErrorList
) -> None:
    complete = "Complete" in holds
    moved = holds ^ held
    if {"Complete", "Failed"} & moved and complete and "Failed" in holds:
        found.invalid_whole(_CONDITIONS_PATH, "cannot set Complete=True and Failed=true conditions")
    if {"Complete", "FailureTarget"} & moved and complete and "FailureTarget" in holds:
        found.invalid_whole(
            _CONDITIONS_PATH, "cannot set Complete=True and FailureTarget=true conditions"
        )
    start, end = status.get("startTime"), status.get("completionTime")
    if "Complete" in moved or "completionTime" in changed:
        if end is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            found.invalid("status.completionTime", end, text)
        if end is None and complete:
            text = "completionTime is required for Complete jobs"
            found.required("status.completionTime", text)
    if {"startTime", "completionTime"} & changed and start and end and end < start:
        found.invalid("status.completionTime", end, "must be equal to or after `startTime`")
    failed = "Failed" in holds and ("Failed" in moved or "failedIndexes" in changed)
    if failed and "FailureTarget" not in holds:
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        found.invalid_whole(_CONDITIONS_PATH, text)
    concluded = complete and bool({"Complete", "SuccessCriteriaMet"} & moved)
    if concluded and "SuccessCriteriaMet" not in holds:
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        found.invalid_whole(_CONDITIONS_PATH, text)


def _validate_terminal_conditions(
    spec: Obj, status: Obj, holds: set[str], held: set[str], changed: set[str], found: ErrorList
) -> None:
    finished = _is_finished(holds)
    if not finished:
        return
    ended = not _is_finished(held)
    if (ended or "active" in changed) and status.get("active", 0) > 0:
        found.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    none = spec.get("suspend") is True and spec.get("completions") == 0
    if (ended or "startTime" in changed) and not none and "startTime" not in status:
        found.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (ended or "uncountedTerminatedPods" in changed) and any(uncounted.values()):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        found.invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _validate_status_indexes(spec: Obj, status: Obj, changed: set[str], found: ErrorList) -> None:
    completions = spec.get("completions")
    complete, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    for field, text in (("completedIndexes", complete), ("failedIndexes", failed)):
        known = field == "completedIndexes" or "backoffLimitPerIndex" in spec
        if field in changed and completions is not None and text and known:
            try:
                count_indexes(text, completions)
            except ValueError as error:
                found.invalid(f"status.{field}", text, f"error parsing {field}: {error}")
    if "completedIndexes" in changed and complete and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.invalid("status.completedIndexes", complete, text)
    if "failedIndexes" in changed and failed is not None and "backoffLimitPerIndex" not in spec:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.invalid("status.failedIndexes", failed, text)
    if {"completedIndexes", "failedIndexes"} & changed and completions is not None and failed:
        both = find_common_index(complete, failed, completions)
        if both is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {both}"
            found.invalid("status.failedIndexes", failed, text)


def _validate_status_transition(new: Obj, status: Obj, before: Obj, found: ErrorList) -> None:
    spec, holds, held = new["spec"], _get_true_conditions(status), _get_true_conditions(before)
    for kind in _TERMINAL_CONDITIONS:
        if kind in held and kind not in holds:
            found.invalid_whole(
                _CONDITIONS_PATH, f"cannot disable the terminal {kind}=True condition"
            )
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    for field in ("failed", "succeeded"):
        if field == "succeeded" and elastic:
            continue
        if status.get(field, 0) < before.get(field, 0):
            found.invalid(
                f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter"
            )
    for field, text in (
        ("completionTime", _IMMUTABLE),
        ("startTime", "field is immutable for unsuspended job once set"),
    ):
        earlier, value = before.get(field), status.get(field)
        if earlier is None or earlier == value:
            continue
        if field == "startTime" and (spec.get("suspend") or _is_resumed(status, before)):
            continue
        if value is not None or field == "startTime":
            found.invalid(f"status.{field}", Rendered("null") if value is None else value, text)
    if "SuccessCriteriaMet" in held and "SuccessCriteriaMet" not in holds:
        found.invalid_whole(
            _CONDITIONS_PATH, "cannot disable the SuccessCriteriaMet=True condition"
        )
    if "Complete" in held and "SuccessCriteriaMet" not in held and "SuccessCriteriaMet" in holds:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.invalid_whole(_CONDITIONS_PATH, text)


def _is_resumed(status: Obj, before: Obj) -> bool:
    off = any(
        one.get("type") == "Suspended" and one.get("status") == "False"
        for one in status.get("conditions") or ()
    )
    return off and "Suspended" in _get_true_conditions(before)
