"""The waits on Jobs and what is left of them, as rows of the catalogue: data alone.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["JOB_WAITS"]

JOB_WAITS = (
    (
        "wait_for_job_ready",
        "job, ready",
        "a job that counts an exact number of ready pods",
        "job_statuses",
        "job",
    ),
    ("wait_for_job_suspend", "job", "a job that is suspended", "job_statuses", "job"),
    (
        "wait_for_job_condition",
        "job, condition, reason=None",
        "a job of which a condition is True",
        "job_statuses",
        "job",
    ),
    (
        "wait_for_job_state",
        "job, state",
        "a job that a callable says is as awaited",
        "job_statuses",
        "job",
    ),
    ("wait_for_job_gone", "job, uid=None", "a job that is gone, by its UID", "job_removals", "job"),
    (
        "wait_for_all_job_pods_gone",
        "job, uid=None",
        "a job of which no pod is left",
        "job_removals",
        "job",
    ),
)
"""Rows of the catalogue."""
