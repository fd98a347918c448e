"""The CronJob controller: creates Jobs on schedule and deletes old ones.

It never touches pods.

Source: kube-controller-manager, cronjob/cronjob_controllerv2.go, cronjob/utils.go.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_time, parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.cron import ConstantDelaySchedule, SpecSchedule, parse_schedule
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

_MAX_MISSED = 100
_NEXT_SCHEDULE_DELTA = 0.1
_CRON_JOBS = "cronjobs.batch"
_JOBS = "jobs.batch"
_KIND = ("batch/v1", "CronJob")
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def _find_recent_times(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule, *, deadline: bool
) -> tuple[float, float | None, int]:
    """Return the earliest possible time, the most recent time, and roughly the number missed."""
    since = parse_time(cron_job["metadata"]["creationTimestamp"])
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    if last:
        since = parse_time(last)
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
    next_time, latest = schedule.after(first + (count - 2) * (second - first)), None
    while next_time is not None and next_time <= now:
        latest, next_time = next_time, schedule.after(next_time)
    return since, latest, count


def find_due_time(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule
) -> tuple[float | None, bool]:
    """Return the time that is due, and whether too many were missed.

    Raises:
        ValueError: the schedule has no times.
    """
    _, latest, count = _find_recent_times(cron_job, now, schedule, deadline=True)
    return latest, latest is not None and count > _MAX_MISSED


def seconds_until_next(
    cron_job: Obj, now: float, schedule: SpecSchedule | ConstantDelaySchedule
) -> float | None:
    """Return the seconds until the next sync; None if the schedule has no further time."""
    try:
        since, latest, count = _find_recent_times(cron_job, now, schedule, deadline=False)
    except ValueError:
        return None
    if latest is None:
        latest = now if count else since
    following = schedule.after(latest)
    return None if following is None else following + _NEXT_SCHEDULE_DELTA - now


def _finished_type(job: Obj) -> str | None:
    """Return `Complete` or `Failed` for a Job that has ended."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


def _parse_spec_schedule(spec: Obj) -> tuple[str, str | None]:
    return spec["schedule"], spec.get("timeZone")


class CronJobController:
    """Creates Jobs on schedule.

    Args:
        jobs: its Jobs by owner.

    Source: kube-controller-manager, cronjob/cronjob_controllerv2.go.
    """

    def __init__(self, cluster: Cluster, jobs: ControllerRefManager) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._recorder = EventRecorder(cluster, "cronjob-controller")
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "cronjob-controller")
        self._by_uid: dict[str, str] = {}
        cluster.subscribe(_CRON_JOBS, self._changed)
        jobs.listen(self._job_changed)

    def _changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key = key_of(new)
        if change == "DELETED":
            self._by_uid.pop(uid_of(new), None)
            self._queue.forget(key)
            return
        self._by_uid[uid_of(new)] = key
        if old is not None and _parse_spec_schedule(old["spec"]) != _parse_spec_schedule(
            new["spec"]
        ):
            self._wait(key, new)
        else:
            self._queue.add(key)

    def _wait(self, key: str, cron_job: Obj) -> None:
        """Sync again at the schedule's next time; times missed by then also wait.

        Source: kube-controller-manager, cronjob/cronjob_controllerv2.go, updateCronJob.
        """
        schedule_and_zone = self._schedule(cron_job)
        if schedule_and_zone is None:
            return
        try:
            now = self._cluster.clock.time()
            wait = seconds_until_next(cron_job, now, schedule_and_zone[0])
        except ValueError:
            return
        if wait is not None:
            self._queue.add_at(key, now + wait)

    def _job_changed(self, _: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        for uid in dict.fromkeys((owner_uid, previous_uid)):
            if uid is not None and uid in self._by_uid:
                self._queue.add(self._by_uid[uid])

    def _record_event(self, cron_job: Obj, severity: str, reason: str, message: str) -> None:
        self._recorder.event(cron_job, _KIND, severity, reason, message)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        job = self._cluster.find(_CRON_JOBS, name, namespace)
        if job is None:
            return
        cron_job, jobs = clone(job), self._jobs.of(uid_of(job))
        status = cron_job.setdefault("status", {})
        try:
            # Select the Jobs to delete first, as no completion event is recorded for them.
            self._clean_up(cron_job, jobs)
            self._update_active(cron_job, jobs)
            if not is_being_deleted(cron_job):
                self._run(key, cron_job)
        finally:
            if not status.get("active"):
                status.pop("active", None)
            last = self._cluster.find(_CRON_JOBS, name, namespace)
            if last is not None and (last.get("status") or {}) != status:
                self._cluster.update_status(_CRON_JOBS, {**last, "status": status})

    def _update_active(self, cron_job: Obj, jobs: list[Obj]) -> None:
        """Record which Jobs have finished and which were deleted."""
        status = cron_job["status"]
        active = {reference["uid"]: reference for reference in status.get("active") or ()}
        for job in jobs:
            ended, listed = _finished_type(job), uid_of(job) in active
            if ended is None:
                if not listed:
                    message = (
                        f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                    )
                    self._record_event(cron_job, WARNING, "UnexpectedJob", message)
                continue
            if listed:
                del active[uid_of(job)]
                message = f"Saw completed job: {name_of(job)}, condition: {ended}"
                self._record_event(cron_job, NORMAL, "SawCompletedJob", message)
            end = (job.get("status") or {}).get("completionTime")
            last = status.get("lastSuccessfulTime")
            if ended == "Complete" and end and (last is None or parse_time(end) > parse_time(last)):
                status["lastSuccessfulTime"] = end
        job_uids = {uid_of(job) for job in jobs}
        for uid, reference in list(active.items()):
            if uid not in job_uids:
                del active[uid]
                message = f"Active job went missing: {reference['name']}"
                self._record_event(cron_job, NORMAL, "MissingJob", message)
        status["active"] = list(active.values())

    def _schedule(
        self, cron_job: Obj
    ) -> tuple[SpecSchedule | ConstantDelaySchedule, tzinfo] | None:
        spec = cron_job["spec"]
        zone: tzinfo = UTC
        if spec.get("timeZone"):
            # Few clusters need it, and importing it slows the start.
            from zoneinfo import ZoneInfo

            try:
                zone = ZoneInfo(spec["timeZone"])
            except (ValueError, OSError):
                text = f'invalid timeZone: "{spec["timeZone"]}": unknown time zone '
                self._record_event(cron_job, WARNING, "UnknownTimeZone", text + spec["timeZone"])
                return None
        if spec.get("suspend"):
            return None
        try:
            return parse_schedule(spec["schedule"], zone), zone
        except ValueError as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self._record_event(cron_job, WARNING, "UnparseableSchedule", text)
            return None

    def _run(self, key: str, cron_job: Obj) -> None:
        """Create the Job that is due, if any, and schedule the next sync."""
        schedule_and_zone = self._schedule(cron_job)
        if schedule_and_zone is None:
            return
        schedule, zone = schedule_and_zone
        now = self._cluster.clock.time()
        try:
            due, many = find_due_time(cron_job, now, schedule)
        except ValueError as error:
            text = f"invalid schedule: {cron_job['spec']['schedule']} : {error}"
            self._record_event(cron_job, WARNING, "InvalidSchedule", text)
            return
        if many:
            text = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or"
                " check clock skew"
            )
            self._record_event(cron_job, WARNING, "TooManyMissedTimes", text)
        if due is not None and self._may_start(cron_job, due, now):
            self._start(cron_job, due, zone)
        wait = seconds_until_next(cron_job, now, schedule)
        if wait is not None:
            self._queue.add_at(key, now + wait)

    def _may_start(self, cron_job: Obj, due: float, now: float) -> bool:
        spec, status = cron_job["spec"], cron_job["status"]
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + deadline < now:
            when = datetime.fromtimestamp(due, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            text = f"Missed scheduled time to start a job: {when}"
            self._record_event(cron_job, WARNING, "MissSchedule", text)
            return False
        names = {reference["name"] for reference in status["active"]}
        if _job_name(cron_job, due) in names or status.get("lastScheduleTime") == format_time(due):
            return False
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and status["active"]:
            text = (
                "Not starting job because prior execution is running and concurrency policy is"
                " Forbid"
            )
            self._record_event(cron_job, NORMAL, "JobAlreadyActive", text)
            return False
        if policy == "Replace":
            for reference in list(status["active"]):
                self._delete(cron_job, reference["name"], reference["uid"])
        return True

    def _start(self, cron_job: Obj, due: float, zone: tzinfo) -> None:
        template, namespace = cron_job["spec"]["jobTemplate"], namespace_of(cron_job)
        source = template.get("metadata") or {}
        when = datetime.fromtimestamp(due, zone).isoformat(timespec="seconds")
        job = {
            "metadata": {
                "name": _job_name(cron_job, due),
                "namespace": namespace,
                "labels": dict(source.get("labels") or {}),
                "annotations": {
                    **(source.get("annotations") or {}),
                    _SCHEDULED: when.replace("+00:00", "Z"),
                },
                "ownerReferences": [make_controller_ref(cron_job, *_KIND)],
            },
            "spec": clone(template["spec"]),
        }
        try:
            made = self._cluster.create(_JOBS, job, namespace)
        except StatusError as error:
            there = self._cluster.find(_JOBS, job["metadata"]["name"], namespace)
            if error.reason == "AlreadyExists" and there is not None:
                if (owner_of(there) or {}).get("uid") != uid_of(cron_job):
                    return
                made = there
            else:
                if not is_namespace_terminating(error):
                    text = f"Error creating job: {error.message}"
                    self._record_event(cron_job, WARNING, "FailedCreate", text)
                raise
        else:
            self._record_event(cron_job, NORMAL, "SuccessfulCreate", f"Created job {name_of(made)}")
        cron_job["status"]["active"].append({
            "kind": "Job",
            "namespace": namespace,
            "name": name_of(made),
            "uid": uid_of(made),
            "apiVersion": "batch/v1",
            "resourceVersion": made["metadata"]["resourceVersion"],
        })  # fmt: skip
        cron_job["status"]["lastScheduleTime"] = format_time(due)

    def _clean_up(self, cron_job: Obj, jobs: list[Obj]) -> None:
        """Remove the oldest finished Jobs beyond the limits.

        Source: `cleanupFinishedJobs`.
        """
        for ended, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            limit = cron_job["spec"].get(field)
            finished_jobs = [job for job in jobs if _finished_type(job) == ended]
            if limit is None or len(finished_jobs) <= limit:
                continue
            finished_jobs.sort(
                key=lambda job: ((job["status"].get("startTime") or ""), name_of(job))
            )
            for job in finished_jobs[: len(finished_jobs) - limit]:
                # A failed deletion is recorded as an event; the others continue.
                with suppress(StatusError):
                    self._delete(cron_job, name_of(job), uid_of(job))

    def _delete(self, cron_job: Obj, name: str, uid: str) -> None:
        try:
            self._cluster.delete(_JOBS, name, namespace_of(cron_job), propagation="Background")
        except StatusError as error:
            if error.reason != "NotFound":
                text = f"Deleted job: {error.message}"
                self._record_event(cron_job, WARNING, "FailedDelete", text)
                raise
            return
        status = cron_job["status"]
        status["active"] = [
            reference for reference in status.get("active") or () if reference["uid"] != uid
        ]
        self._record_event(cron_job, NORMAL, "SuccessfulDelete", f"Deleted job {name}")


def _job_name(cron_job: Obj, due: float) -> str:
    return f"{name_of(cron_job)}-{int(due) // 60}"
