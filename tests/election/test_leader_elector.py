"""One candidate or several on one lock, in virtual time."""

from __future__ import annotations

import math
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.election import LeaderElectionRecord, LeaderElector
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline


class FakeLock:
    """A lock kept in memory; `failing` makes the network fail."""

    def __init__(self, identity: str = "a", record: LeaderElectionRecord | None = None) -> None:
        self.identity = identity
        self.record = record
        self.failing = False

    def describe(self) -> str:
        return "ns/lock"

    def get(self, *, deadline: Deadline) -> LeaderElectionRecord | None:
        self._reach()
        return self.record

    def create(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        self._reach()
        self.record = record

    def update(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        self._reach()
        if self.record is not None and self.record.holder_identity not in (
            "",
            self.identity,
            "old",
        ):
            raise ApiError("changed", status=409, reason="Conflict")
        self.record = record

    def _reach(self) -> None:
        if self.failing:
            raise ApiError("no route", reason="ConnectionRefused")


def elector(lock: Any, clock: FakeClock, stopped: list[float], **options: Any) -> LeaderElector:
    options.setdefault("on_started_leading", lambda _ctx: None)
    options.setdefault("on_stopped_leading", lambda: stopped.append(clock.monotonic()))
    return LeaderElector(lock, clock=clock, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lease_duration": 10}, "leaseDuration must be greater than renewDeadline"),
        ({"renew_deadline": 2.4}, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ({"retry_period": 0}, "retryPeriod must be greater than zero"),
        ({"on_started_leading": None}, "OnStartedLeading callback must not be nil"),
        ({"on_stopped_leading": None}, "OnStoppedLeading callback must not be nil"),
        ({"lock": None}, "Lock must not be nil."),
        ({"lock": FakeLock("")}, "Lock identity is empty"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], text: str) -> None:
    given = {"lock": FakeLock(), **options}
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        elector(given.pop("lock"), FakeClock(), [], **given)


def test_a_leader_that_is_stopped_releases() -> None:
    clock, lock, stopped = FakeClock(), FakeLock(), list[float]()
    stop = threading.Event()
    clock.call_later(30, stop.set)
    assert elector(lock, clock, stopped, release_on_cancel=True).run(stop) is True
    assert stopped == [30]
    assert lock.record is not None
    assert (lock.record.holder_identity, lock.record.lease_duration_seconds) == ("", 1)


def test_a_network_failure_ends_in_stopped_within_the_renew_deadline() -> None:
    clock, lock, stopped = FakeClock(), FakeLock(), list[float]()
    clock.call_later(5, lambda: setattr(lock, "failing", True))
    leader = elector(lock, clock, stopped)
    assert leader.run(threading.Event()) is False
    assert stopped == [14]  # the last renewal was at 4
    assert not leader.is_leader


def test_a_stolen_lease_stops_the_leader_at_its_next_look() -> None:
    clock, lock, stopped = FakeClock(), FakeLock(), list[float]()
    thief = LeaderElectionRecord("thief", 15, leader_transitions=1)
    clock.call_later(5, lambda: setattr(lock, "record", thief))
    leader = elector(lock, clock, stopped)
    assert leader.run(threading.Event()) is False
    assert stopped == [6]
    assert (leader.get_leader(), lock.record) == ("thief", thief)


def test_a_lease_expires_by_observation_however_old_its_times_are() -> None:
    old = LeaderElectionRecord("old", 15, "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", 4)
    clock, lock, won = FakeClock(), FakeLock(record=old), list[float]()
    stop = threading.Event()
    clock.call_later(60, stop.set)
    leader = elector(lock, clock, [])
    watch = lock.update

    def update(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        won.append(clock.monotonic())
        watch(record, deadline=deadline)

    lock.update = update  # type: ignore[method-assign]
    leader.run(stop)
    assert 15 <= won[0] <= 15 + 4.4
    assert lock.record is not None
    assert lock.record.leader_transitions == 5


def test_a_frozen_leader_leads_no_more_when_it_wakes() -> None:
    clock, lock = FakeClock(), FakeLock()
    seen: list[bool] = []
    leader = elector(lock, clock, [])
    clock.call_later(5, lambda: seen.append(leader.is_leader))
    real = lock.update

    def frozen(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        real(record, deadline=deadline)
        if clock.monotonic() >= 6:
            clock.advance(20)
            seen.append(leader.is_leader)

    lock.update = frozen  # type: ignore[method-assign]
    assert leader.run(threading.Event()) is False
    assert seen == [True, False]


def test_health_is_lost_only_past_the_tolerance() -> None:
    clock, lock = FakeClock(), FakeLock()
    leader = elector(lock, clock, [])
    errors: list[str] = []

    def look() -> None:
        leader.check(math.ulp(1.0))
        try:
            clock.advance(40)
            leader.check("5s")
        except KwaitError as error:
            errors.append(str(error))

    clock.call_later(5, look)
    leader.run(threading.Event())
    assert errors == ["failed election to renew leadership on lease ns/lock"]


def test_one_that_never_led_is_told_that_it_stopped() -> None:
    clock, stopped = FakeClock(), list[float]()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    cancel()
    assert elector(FakeLock(), clock, stopped).run(ctx) is True
    assert stopped == [0]


def test_a_renewal_whose_answer_was_lost_does_not_lengthen_the_leadership() -> None:
    clock, lock, stopped = FakeClock(), FakeLock(), list[float]()
    leader = elector(lock, clock, stopped)
    real, seen = lock.update, list[bool]()

    def lost(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        if clock.monotonic() < 6:
            return real(record, deadline=deadline)
        if clock.monotonic() == 6:
            real(record, deadline=deadline)
            clock.advance(3)
        raise ApiError("no answer", reason="Timeout")

    lock.update = lost  # type: ignore[method-assign]
    clock.call_later(13.5, lambda: seen.append(leader.is_leader))
    assert leader.run(threading.Event()) is False
    assert stopped == [14]  # the last renewal that was answered began at 4
    assert (seen, leader._observed_at) == ([True], 4)
