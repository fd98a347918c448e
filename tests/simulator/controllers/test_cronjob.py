from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.objects import owner_of
from tests.simulator.cluster import Cluster, pod_spec

_CRON_JOBS = "cronjobs.batch"
_JOBS = "jobs.batch"


def _create(cluster: Cluster, *command: str, schedule: str = "* * * * *", **spec: Any) -> None:
    pod = pod_spec(*(command or ("true",)), restartPolicy="Never", terminationGracePeriodSeconds=0)
    template = {"metadata": {"labels": {"l": "1"}}, "spec": {"template": {"spec": pod}}}
    cluster.create(_CRON_JOBS, "c", {"schedule": schedule, "jobTemplate": template, **spec})


def _jobs(cluster: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in cluster.every(_JOBS)]


def _told(cluster: Cluster) -> list[str]:
    return [event.partition(": ")[2] for event in cluster.events("c")]


def _minute(cluster: Cluster) -> int:
    return int(cluster.clock.time()) // 60


def test_job_is_created_each_minute_and_tracked(cluster: Cluster) -> None:
    start = _minute(cluster)
    _create(cluster)
    cluster.run(61)
    (job,) = cluster.every(_JOBS)
    name = f"c-{start + 1}"
    assert job["metadata"]["name"] == name
    assert job["metadata"]["labels"]["l"] == "1"
    assert job["metadata"]["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:01:00Z"
    }
    owner = owner_of(job)
    assert owner is not None
    assert (owner["kind"], owner["name"]) == ("CronJob", "c")
    status = cluster.get(_CRON_JOBS, "c")["status"]
    assert status["lastScheduleTime"] == "2026-01-01T00:01:00Z"
    (active,) = status["active"]
    assert (active["kind"], active["name"], active["uid"]) == ("Job", name, job["metadata"]["uid"])
    cluster.run(30)
    status = cluster.get(_CRON_JOBS, "c")["status"]
    assert "active" not in status
    assert status["lastSuccessfulTime"].startswith("2026-01-01T00:01:")
    assert _told(cluster) == [
        f"Created job {name}",
        f"Saw completed job: {name}, condition: Complete",
    ]


def test_oldest_jobs_beyond_history_limits_are_deleted(cluster: Cluster) -> None:
    start = _minute(cluster)
    _create(cluster, successfulJobsHistoryLimit=1)
    cluster.run(60 * 4 + 30)
    assert _jobs(cluster) == [f"c-{start + 4}"]
    assert f"Deleted job c-{start + 1}" in _told(cluster)


def test_job_beyond_history_limit_has_no_completion_event(cluster: Cluster) -> None:
    name = f"c-{_minute(cluster) + 1}"
    _create(cluster, successfulJobsHistoryLimit=0)
    cluster.run(60 + 30)
    assert _jobs(cluster) == []
    assert _told(cluster) == [f"Created job {name}", f"Deleted job {name}"]
    status = cluster.get(_CRON_JOBS, "c")["status"]
    assert "active" not in status
    assert "lastSuccessfulTime" in status


@pytest.mark.parametrize(
    ("policy", "made"), [("Allow", [1, 2, 3]), ("Forbid", [1]), ("Replace", [3])]
)
def test_concurrency_policy_decides_about_running_jobs(
    cluster: Cluster, policy: str, made: list[int]
) -> None:
    start = _minute(cluster)
    _create(cluster, "sleep", "9999", concurrencyPolicy=policy)
    cluster.run(60 * 3 + 5)
    assert _jobs(cluster) == [f"c-{start + number}" for number in made]
    names = [one["name"] for one in cluster.get(_CRON_JOBS, "c")["status"]["active"]]
    assert names == _jobs(cluster)
    forbidden = (
        "Not starting job because prior execution is running and concurrency policy is Forbid"
    )
    assert (forbidden in _told(cluster)) is (policy == "Forbid")


def test_suspended_cron_job_creates_no_jobs(cluster: Cluster) -> None:
    _create(cluster, suspend=True)
    cluster.run(125)
    assert _jobs(cluster) == []
    cluster.change(_CRON_JOBS, "c", lambda one: one["spec"].update(suspend=False))
    cluster.run(1)
    assert len(_jobs(cluster)) == 1


def test_time_beyond_starting_deadline_is_skipped(cluster: Cluster) -> None:
    _create(cluster, suspend=True, startingDeadlineSeconds=10)
    cluster.run(60 + 30)
    cluster.change(_CRON_JOBS, "c", lambda one: one["spec"].update(suspend=False))
    cluster.run(5)
    assert _jobs(cluster) == []
    cluster.run(30)
    assert len(_jobs(cluster)) == 1


def test_deleted_job_is_reported_missing(cluster: Cluster) -> None:
    start = _minute(cluster)
    _create(cluster, "sleep", "9999")
    cluster.run(61)
    cluster.delete(_JOBS, f"c-{start + 1}", propagation="Background")
    cluster.run(1)
    assert f"Active job went missing: c-{start + 1}" in _told(cluster)
    assert "active" not in cluster.get(_CRON_JOBS, "c")["status"]


def test_schedule_without_times_is_reported(cluster: Cluster) -> None:
    _create(cluster, schedule="0 0 31 2 *")
    cluster.run(1)
    assert _told(cluster) == [
        "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
    ]


def test_a_jump_of_the_clock_makes_a_schedule_due(cluster: Cluster) -> None:
    _create(cluster, schedule="*/5 * * * *")
    cluster.run(1)
    cluster.clock.jump(360)
    cluster.run(1)
    (job,) = cluster.every(_JOBS)
    scheduled = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert scheduled == "2026-01-01T00:05:00Z"
    cluster.clock.jump(-360)
    cluster.run(100)
    assert len(_jobs(cluster)) == 1


def test_a_jump_of_the_clock_ends_deadlines_and_times_to_live(cluster: Cluster) -> None:
    pod = pod_spec("sleep", "999", restartPolicy="Never", terminationGracePeriodSeconds=0)
    spec = {"activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 600}
    cluster.create(_JOBS, "j", {**spec, "template": {"spec": pod}})
    cluster.create("pods", "p", {**pod, "activeDeadlineSeconds": 300})
    cluster.run(5)
    cluster.clock.jump(200)
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["phase"] == "Running"
    cluster.clock.jump(100)
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["reason"] == "DeadlineExceeded"
    conditions = cluster.get(_JOBS, "j")["status"]["conditions"]
    assert {one["reason"] for one in conditions} == {"DeadlineExceeded"}
    cluster.clock.jump(600)
    cluster.run(5)
    assert cluster.find(_JOBS, "j") is None
