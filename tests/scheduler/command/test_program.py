"""The run of the program: warnings at the start."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_kwait.errors import ApiError, WaitFailed
from pytest_kwait.scheduler.command.configuration import Configuration, LeaderElection, Profile
from pytest_kwait.scheduler.command.program import SchedulerProgram, describe_competition
from pytest_kwait.testing import FakeClock


class _LateCaches:
    """Caches that sync after ten minutes, without an API server or without rights until then."""

    name = "pods"

    def __init__(self, error: Exception | None = None) -> None:
        self.clock = FakeClock()
        self.permanent_error = error

    def has_synced(self) -> bool:
        return self.clock.monotonic() >= 600

    def start(self) -> None:
        """Start no informers."""


def fill_caches(caches: _LateCaches) -> bool:
    program = object.__new__(SchedulerProgram)
    program.__dict__.update(
        _informers=caches,
        _config=SimpleNamespace(watch=SimpleNamespace(synced=(caches,))),
        _stop=threading.Event(),
        _synced=threading.Event(),
    )
    return program._fill_caches()


@pytest.mark.parametrize(
    "error",
    [
        None,
        ApiError("Unauthorized", status=401, reason="Unauthorized"),
        ApiError("pods is forbidden", status=403, reason="Forbidden"),
        ApiError("the server could not find the requested resource", status=404),
    ],
)
def test_caches_are_awaited_without_limit(
    caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    """As kube-scheduler's reflectors, which list again after any refusal."""
    caches = _LateCaches(error)
    with caplog.at_level("INFO", logger="pytest_kwait.cache"):
        assert fill_caches(caches)
    assert caches.clock.monotonic() >= 600
    assert [record.message for record in caplog.records] == [
        'Waiting for caches to sync controller="kwait-scheduler"',
        'Caches are synced controller="kwait-scheduler"',
    ]


def test_an_informer_that_has_ended_ends_the_program() -> None:
    with pytest.raises(WaitFailed, match=r"^the cache of pods cannot sync: list failed: broken$"):
        fill_caches(_LateCaches(RuntimeError("broken")))


_ADVICE = (
    ": the cluster's own scheduler, if it runs, schedules the same pods; give the profiles in "
    "--config another schedulerName, or stop the other scheduler"
)


@pytest.mark.parametrize(
    ("election", "held", "reason"),
    [
        (LeaderElection(), True, ""),
        (
            LeaderElection(),
            False,
            "as leader of kube-system/kube-scheduler, which no other scheduler holds",
        ),
        (
            LeaderElection(resource_name="mine"),
            True,
            "as leader of kube-system/mine instead of kube-system/kube-scheduler",
        ),
        (LeaderElection(leader_elect=False), True, "without leader election"),
    ],
)
def test_competition_for_the_default_name_is_described(
    election: LeaderElection, held: bool, reason: str
) -> None:
    configuration = Configuration(
        leader_election=election, profiles=(Profile(scheduler_name="default-scheduler"),)
    )
    expected = f"Scheduling pods of default-scheduler {reason}{_ADVICE}" if reason else ""
    assert describe_competition(configuration, lambda: held) == expected
    other = replace(configuration, profiles=(Profile(scheduler_name="mine"),))
    assert describe_competition(other, lambda: False) == ""
