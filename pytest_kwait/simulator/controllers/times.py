"""When a CronJob was to run last, and when it is to be looked at again.

Source: kube-controller-manager, cronjob/utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import parse_timestamp

if TYPE_CHECKING:
    from pytest_kwait.simulator.cron import ConstantDelaySchedule, SpecSchedule
    from pytest_kwait.simulator.objects import Obj

__all__ = ["find_due_time", "seconds_until_next"]

_MAX_MISSED = 100
_NEXT_SCHEDULE_DELTA = 0.1


def _find_recent_times(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule, *, deadline: bool
) -> tuple[float, float | None, int]:
    """Return since when, the last time until now, and how many there were about."""
    since = parse_timestamp(cron_job["metadata"]["creationTimestamp"])
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    if last:
        since = parse_timestamp(last)
    seconds = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline and seconds is not None:
        since = max(since, now - seconds)
    first = schedule.after(since)
    if first is None:
        raise ValueError("time difference between two schedules is less than 1 second")
    second = schedule.after(first)
    if now < first:
        return since, None, 0
    if second is None or now < second:
        return since, first, 0
    count = int((now - first) // (second - first)) + 1
    found, latest = schedule.after(first + (count - 2) * (second - first)), None
    while found is not None and found <= now:
        latest, found = found, schedule.after(found)
    return since, latest, count


def find_due_time(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule
) -> tuple[float | None, bool]:
    """Return the time that is due, and whether very many were missed.

    Raises:
        ValueError: the schedule never comes.
    """
    _, latest, count = _find_recent_times(cron_job, now, schedule, deadline=True)
    return latest, latest is not None and count > _MAX_MISSED


def seconds_until_next(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule
) -> float | None:
    """Return the seconds until the next look; None where no time ever comes."""
    try:
        since, latest, count = _find_recent_times(cron_job, now, schedule, deadline=False)
    except ValueError:
        return None
    if latest is None:
        latest = now if count else since
    following = schedule.after(latest)
    return None if following is None else following + _NEXT_SCHEDULE_DELTA - now
