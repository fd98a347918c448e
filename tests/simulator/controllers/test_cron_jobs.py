from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pytest_kwait.simulator.controllers.cron_jobs.schedules import parse_schedule
from pytest_kwait.simulator.objects import owner_of
from tests.simulator.controllers.cluster import Cluster, pod_spec

_CRON_JOBS = "cronjobs.batch"
_JOBS = "jobs.batch"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


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


def test_a_job_is_made_each_minute_and_followed_to_its_end(cluster: Cluster) -> None:
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


def test_the_oldest_jobs_beyond_the_limits_go(cluster: Cluster) -> None:
    start = _minute(cluster)
    _create(cluster, successfulJobsHistoryLimit=1)
    cluster.run(60 * 4 + 30)
    assert _jobs(cluster) == [f"c-{start + 4}"]
    assert f"Deleted job c-{start + 1}" in _told(cluster)


@pytest.mark.parametrize(
    ("policy", "made"), [("Allow", [1, 2, 3]), ("Forbid", [1]), ("Replace", [3])]
)
def test_what_becomes_of_a_job_that_still_runs(
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


def test_suspended_nothing_is_made_until_it_goes_on(cluster: Cluster) -> None:
    _create(cluster, suspend=True)
    cluster.run(125)
    assert _jobs(cluster) == []
    cluster.change(_CRON_JOBS, "c", lambda one: one["spec"].update(suspend=False))
    cluster.run(1)
    assert len(_jobs(cluster)) == 1


def test_what_is_too_late_is_left_out(cluster: Cluster) -> None:
    _create(cluster, suspend=True, startingDeadlineSeconds=10)
    cluster.run(60 + 30)
    cluster.change(_CRON_JOBS, "c", lambda one: one["spec"].update(suspend=False))
    cluster.run(5)
    assert _jobs(cluster) == []
    cluster.run(30)
    assert len(_jobs(cluster)) == 1


def test_a_job_that_somebody_deletes_is_missed(cluster: Cluster) -> None:
    start = _minute(cluster)
    _create(cluster, "sleep", "9999")
    cluster.run(61)
    cluster.delete(_JOBS, f"c-{start + 1}", propagation="Background")
    cluster.run(1)
    assert f"Active job went missing: c-{start + 1}" in _told(cluster)
    assert "active" not in cluster.get(_CRON_JOBS, "c")["status"]


def _times(text: str, start: str, count: int = 3, zone: str = "UTC") -> list[str]:
    schedule = parse_schedule(text, ZoneInfo(zone))
    moment, times = datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp(), []
    for _ in range(count):
        following = schedule.after(moment)
        assert following is not None
        moment = following
        times.append(datetime.fromtimestamp(moment, UTC).strftime("%m-%dT%H:%M:%S"))
    return times


@pytest.mark.parametrize(
    ("text", "zone", "start", "times"),
    [
        ("*/20 * * * *", "UTC", "2026-01-01T00:00", ["01-01T00:20", "01-01T00:40", "01-01T01:00"]),
        ("5 4 * * *", "UTC", "2026-01-01T04:05", ["01-02T04:05", "01-03T04:05", "01-04T04:05"]),
        (
            "0 9-17/4 * * 1-5",
            "UTC",
            "2026-01-02T13:00",
            ["01-02T17:00", "01-05T09:00", "01-05T13:00"],
        ),
        ("0 0 13 * fri", "UTC", "2026-02-01T00:00", ["02-06T00:00", "02-13T00:00", "02-20T00:00"]),
        ("0 0 29 feb ?", "UTC", "2026-01-01T00:00", ["02-29T00:00"]),
        ("@monthly", "UTC", "2026-01-01T00:00", ["02-01T00:00", "03-01T00:00", "04-01T00:00"]),
        (
            "10,30/20 0 * * *",
            "UTC",
            "2026-01-01T00:00",
            ["01-01T00:10", "01-01T00:30", "01-01T00:50"],
        ),
        # The clock skips this hour, and repeats that one.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", ["03-28T01:30", "03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-25T01:30"]),
        ("@every 1h30m", "UTC", "2026-01-01T00:00", ["01-01T01:30", "01-01T03:00", "01-01T04:30"]),
    ],
)
def test_the_times_of_a_schedule(text: str, zone: str, start: str, times: list[str]) -> None:
    wanted = [f"{time}:00" for time in times]
    assert _times(text, start, len(times), zone) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("@often", "unrecognized descriptor: @often"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", "failed to parse int from x"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_what_is_no_schedule(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared whole
        parse_schedule(text)
    assert str(caught.value) == why


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 31 2 *").after(0) is None


def test_a_schedule_that_never_comes_is_told(cluster: Cluster) -> None:
    _create(cluster, schedule="0 0 31 2 *")
    cluster.run(1)
    assert _told(cluster) == [
        "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
    ]
