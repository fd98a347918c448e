"""Cron jobs.

Source: pkg/apis/batch/validation/validation.go, ValidateCronJobCreate, validateCronJobSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.schedules import schedule_problem, time_zone_texts
from pytest_kwait.simulator.workload_rules.jobs import check_job_body
from pytest_kwait.simulator.workload_rules.selectors import shown_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_cron_job", "check_cron_job_name"]

_CONCURRENCY = ("Allow", "Forbid", "Replace")
_NAME_MOST = 52


def check_cron_job(spec: Obj, before: Obj | None, found: Findings) -> None:
    """A cron job's spec, beside what it was."""
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        found.required("spec.schedule")
    else:
        _check_schedule(schedule, zone, before, found)
    found.not_negative(spec, "spec", "startingDeadlineSeconds")
    if zone is not None and (before is None or zone != before.get("timeZone")):
        found.texts("spec.timeZone", zone, time_zone_texts(zone))
    policy = spec.get("concurrencyPolicy", "")
    found.one_of("spec.concurrencyPolicy", policy, _CONCURRENCY)
    at, job = "spec.jobTemplate.spec", spec.get("jobTemplate", {}).get("spec", {})
    check_job_body(job, at, found)
    if "selector" in job:
        shown = shown_selector(job["selector"])
        found.invalid(f"{at}.selector", shown, "`selector` will be auto-generated")
    if job.get("manualSelector"):
        found.unsupported(f"{at}.manualSelector", True, ("nil", "false"))
    found.not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _check_schedule(schedule: str, zone: str | None, before: Obj | None, found: Findings) -> None:
    problem = schedule_problem(schedule)
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


def check_cron_job_name(metadata: Obj, found: Findings) -> None:
    """There is room for what is added to the names of jobs."""
    name = metadata.get("name", "")
    if len(name) > _NAME_MOST:
        found.invalid("metadata.name", name, f"must be no more than {_NAME_MOST} characters")
