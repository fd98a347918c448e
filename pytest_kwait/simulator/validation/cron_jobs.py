"""Cron jobs.

Source: pkg/apis/batch/validation/validation.go, ValidateCronJobCreate, validateCronJobSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.cron import find_schedule_problem, find_time_zone_problem
from pytest_kwait.simulator.validation.jobs import validate_job_spec_without_selector
from pytest_kwait.simulator.validation.selectors import render_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_cron_job_name", "validate_cron_job_spec"]

_CONCURRENCY = ("Allow", "Forbid", "Replace")
_MAX_NAME_LENGTH = 52


def validate_cron_job_spec(spec: Obj, before: Obj | None, found: ErrorList) -> None:
    """A cron job's spec, beside what it was."""
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        found.required("spec.schedule")
    else:
        _validate_schedule(schedule, zone, before, found)
    found.not_negative(spec, "spec", "startingDeadlineSeconds")
    if zone is not None and (before is None or zone != before.get("timeZone")):
        found.texts("spec.timeZone", zone, find_time_zone_problem(zone))
    policy = spec.get("concurrencyPolicy", "")
    found.one_of("spec.concurrencyPolicy", policy, _CONCURRENCY)
    at, job = "spec.jobTemplate.spec", spec.get("jobTemplate", {}).get("spec", {})
    validate_job_spec_without_selector(job, at, found)
    if "selector" in job:
        shown = render_selector(job["selector"])
        found.invalid(f"{at}.selector", shown, "`selector` will be auto-generated")
    if job.get("manualSelector"):
        found.unsupported(f"{at}.manualSelector", True, ("nil", "false"))
    found.not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _validate_schedule(
    schedule: str, zone: str | None, before: Obj | None, found: ErrorList
) -> None:
    problem = find_schedule_problem(schedule)
    if problem:
        found.invalid("spec.schedule", schedule, problem)
    if "TZ" not in schedule:
        return
    if before is None or "TZ" not in before.get("schedule", ""):
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.invalid("spec.schedule", schedule, text)
    elif zone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        found.invalid("spec.schedule", schedule, text)


def validate_cron_job_name(metadata: Obj, found: ErrorList) -> None:
    """There is room for what is added to the names of jobs."""
    name = metadata.get("name", "")
    if len(name) > _MAX_NAME_LENGTH:
        found.invalid("metadata.name", name, f"must be no more than {_MAX_NAME_LENGTH} characters")
