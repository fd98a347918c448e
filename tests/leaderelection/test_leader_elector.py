"""One candidate or several on one lock, in virtual time."""

from __future__ import annotations

import itertools
import math
import re
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError
from pytest_kwait.leaderelection import LeaderElectionRecord, LeaderElector, LeaseLock
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.client.session_client import SessionClient
from tests.leaderelection.lease_store import LeaseStore, StoreSession

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline
    from pytest_kwait.wait import Context


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
        ({"lease_duration": 2.2e9}, "lease_duration=2200000000.0 is not valid: use seconds (90), "),
        ({"lease_duration": 2.2e9}, ", at most 596523h14m7s"),
        ({"renew_deadline": 2.4}, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ({"retry_period": 0}, "retryPeriod must be greater than zero"),
        ({"on_started_leading": None}, "OnStartedLeading callback must not be nil"),
        ({"on_stopped_leading": None}, "OnStoppedLeading callback must not be nil"),
        ({"on_new_leader": "print"}, "on_new_leader='print' is not valid: use a function of one"),
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


def test_a_lease_that_somebody_has_emptied_is_lost() -> None:
    clock, store, stopped = FakeClock(), LeaseStore(), list[float]()
    lock = LeaseLock(cast("ApiClient", SessionClient(StoreSession(store))), "ns", "lock", "a")

    def empty() -> None:
        lease = store.get()
        lease["spec"]["holderIdentity"] = ""
        store.put(lease)

    clock.call_later(5, empty)
    assert elector(lock, clock, stopped).run(threading.Event()) is False
    assert (stopped, store.holder) == ([6], "")


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
    real, seen = lock.update, list[float]()

    def lost(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        if clock.monotonic() < 6:
            return real(record, deadline=deadline)
        if clock.monotonic() == 6:
            real(record, deadline=deadline)
            clock.advance(3)
        raise ApiError("no answer", reason="Timeout")

    lock.update = lost  # type: ignore[method-assign]
    clock.call_later(13.5, lambda: seen.append(leader.lease_deadline.at))
    assert leader.run(threading.Event()) is False
    assert stopped == [14]  # the last renewal that was answered began at 4
    assert seen == [4 + 15]


def test_leadership_counts_from_before_the_renewal_was_sent() -> None:
    clock, lock, ends = FakeClock(), FakeLock(), list[float]()
    leader = elector(lock, clock, [])
    real = lock.update

    def slow(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        clock.advance(3)
        real(record, deadline=deadline)

    lock.update = slow  # type: ignore[method-assign]
    clock.call_later(3.5, lambda: ends.append(leader.lease_deadline.at))
    stop = threading.Event()
    clock.call_later(5, stop.set)
    leader.run(stop)
    assert ends == [15]  # asked at 0, written at 3
    assert leader.lease_deadline.expired


def test_no_request_takes_more_than_half_of_the_renew_deadline() -> None:
    clock, lock, given = FakeClock(), FakeLock(), list[float]()
    leader = elector(lock, clock, [])

    def silent(record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        given.append(deadline.remaining)
        clock.advance(deadline.remaining)
        raise DeadlineExceeded("no complete answer")

    clock.call_later(5, lambda: setattr(lock, "update", silent))
    assert leader.run(threading.Event()) is False
    # Renewed at 4: asked at 6 and, as the grid of 2 s has it, at 11, which is up to 14.
    assert given == [5, 3]
    assert clock.monotonic() == 14


def test_a_holder_whose_wall_clock_stands_still_is_alive() -> None:
    clock, lock, stop = FakeClock(), FakeLock("b"), threading.Event()
    written: list[LeaderElectionRecord] = []
    lock.get = lambda *, deadline: LeaderElectionRecord(  # type: ignore[method-assign]
        "a", 15, "now", "now", version=str(clock.monotonic() // 10)
    )
    lock.update = lambda record, *, deadline: written.append(record)  # type: ignore[method-assign]
    clock.call_later(100, stop.set)
    elector(lock, clock, []).run(stop)
    assert written == []


def test_a_held_lease_is_looked_at_each_retry_period_and_when_it_expires() -> None:
    clock, stop, looks = FakeClock(), threading.Event(), list[float]()
    lock = FakeLock("b", LeaderElectionRecord("old", 15))
    real = lock.get

    def get(*, deadline: Deadline) -> LeaderElectionRecord | None:
        looks.append(clock.monotonic())
        return real(deadline=deadline)

    lock.get = get  # type: ignore[method-assign]
    clock.call_later(16, stop.set)
    elector(lock, clock, []).run(stop)
    pauses = [b - a for a, b in itertools.pairwise(looks)]
    assert looks[-1] == pytest.approx(15, abs=0.002)
    assert all(1 <= pause <= 2 for pause in pauses[:-1])
    assert len(set(pauses)) > 2, "candidates that keep in step all come at once"


def test_after_an_error_the_pause_is_upstreams() -> None:
    clock, stop, tries = FakeClock(), threading.Event(), list[float]()
    lock = FakeLock()

    def get(*, deadline: Deadline) -> LeaderElectionRecord | None:
        tries.append(clock.monotonic())
        raise ApiError("no route", reason="ConnectionRefused")

    lock.get = get  # type: ignore[method-assign]
    clock.call_later(100, stop.set)
    elector(lock, clock, []).run(stop)
    pauses = [b - a for a, b in itertools.pairwise(tries)]
    assert min(pauses) >= 2
    assert max(pauses) <= 4.4


def test_new_leaders_are_told_in_order_and_none_is_lost() -> None:
    clock, lock, stop, told = FakeClock(), FakeLock("z"), threading.Event(), list[str]()
    names = [f"leader-{i}" for i in range(50)]
    first = threading.Event()

    def told_slowly(name: str) -> None:
        if not told:
            first.wait(60)
        told.append(name)

    for i, name in enumerate(names):
        record = LeaderElectionRecord(name, 15, leader_transitions=i)
        clock.call_later(3 * i, partial(setattr, lock, "record", record))
    lock.record = LeaderElectionRecord(names[0], 15)
    clock.call_later(3 * len(names), stop.set)
    clock.call_later(3 * len(names), first.set)
    leader = elector(lock, clock, [], on_new_leader=told_slowly)
    leader.run(stop)
    assert told == names

    told.clear()
    again = threading.Event()
    clock.call_later(1, again.set)
    leader.run(again)
    assert told == names[-1:]  # a new candidacy begins by seeing who leads


def test_a_callback_that_fails_is_logged_and_the_next_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, lock, stop, told = FakeClock(), FakeLock(), threading.Event(), list[str]()
    lock.record = LeaderElectionRecord("old", 1)

    def fail(name: str) -> None:
        told.append(name)
        raise RuntimeError("no more room")

    clock.call_later(5, stop.set)
    elector(lock, clock, [], on_new_leader=fail).run(stop)
    assert told == ["old", "a"]
    said = [each.getMessage() for each in caplog.records if each.exc_info]
    assert said == ["on_new_leader has failed on lock ns/lock"] * 2


def test_a_leader_whose_work_has_failed_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stopped, said = FakeClock(), list[float](), list[str]()
    reported = threading.Event()

    def hook(failure: threading.ExceptHookArgs) -> None:
        said.append(str(failure.exc_value))
        reported.set()

    def fail(_ctx: Context) -> None:
        raise RuntimeError("cannot schedule")

    monkeypatch.setattr(threading, "excepthook", hook)
    stop = threading.Event()
    clock.call_later(1e6, stop.set)  # virtual seconds, so that it ends in any case
    leader = elector(FakeLock(), clock, stopped, on_started_leading=fail)
    assert leader.run(stop) is False
    assert reported.wait(60)
    assert (len(stopped), said) == (1, ["cannot schedule"])


def test_lost_master_is_said(caplog: pytest.LogCaptureFixture) -> None:
    clock, lock = FakeClock(), FakeLock()
    clock.call_later(5, lambda: setattr(lock, "failing", True))
    elector(lock, clock, []).run(threading.Event())
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors[-2:] == [
        "Failed to renew lease lock=ns/lock err=context deadline exceeded",
        "lost master",
    ]


def test_the_lease_is_released_once_the_work_has_ended() -> None:
    clock, lock, stop = FakeClock(), FakeLock(), threading.Event()
    order: list[str] = []

    def work(ctx: Context) -> None:
        ctx.done.wait(60)
        order.append("work over" if lock.record and lock.record.holder_identity else "too late")

    clock.call_later(5, stop.set)
    leader = elector(lock, clock, [], release_on_cancel=True, on_started_leading=work)
    assert leader.run(stop) is True
    assert order == ["work over"]
    assert lock.record is not None
    assert lock.record.holder_identity == ""


def test_a_lease_whose_work_does_not_end_is_not_released(caplog: pytest.LogCaptureFixture) -> None:
    clock, lock, stop, over = FakeClock(), FakeLock(), threading.Event(), threading.Event()
    short = {"lease_duration": 0.05, "renew_deadline": 0.04, "retry_period": 0.01}
    clock.call_later(0.1, stop.set)
    leader = elector(
        lock, clock, [], release_on_cancel=True, on_started_leading=lambda _: over.wait(60), **short
    )
    leader.run(stop)
    over.set()
    assert lock.record is not None
    assert lock.record.holder_identity == "a"
    assert "lease ns/lock is not released: on_started_leading still runs" in caplog.messages


def test_the_leaders_context_ends_with_the_lease_for_whoever_looks() -> None:
    clock, lock, stop = FakeClock(), FakeLock(), threading.Event()
    contexts: list[Context] = []
    started = threading.Event()
    seen: list[bool] = []

    def work(ctx: Context) -> None:
        contexts.extend([ctx, wait.with_cancel(ctx)[0]])
        started.set()

    def freeze() -> None:
        started.wait(60)
        seen.extend(ctx.err() is None for ctx in contexts)
        clock.advance(15)
        seen.extend(ctx.err() is None for ctx in contexts)
        seen.extend(ctx.wait(0) for ctx in contexts)

    clock.call_later(5, freeze)
    leader = elector(lock, clock, [], on_started_leading=work)
    assert leader.run(stop) is False
    assert seen == [True, True, False, False, True, True]
    assert str(contexts[0].cause()) == "the lease is not held any more"


def test_a_context_of_another_clock_is_refused() -> None:
    leader = elector(FakeLock(), FakeClock(), [])
    with pytest.raises(InvalidArgument, match="use a context of the elector's clock"):
        leader.run(wait.background())


def test_one_elector_runs_once_at_a_time() -> None:
    clock, stop, said = FakeClock(), threading.Event(), list[str]()
    leader = elector(FakeLock(), clock, [])

    def again() -> None:
        try:
            leader.run(stop)
        except KwaitError as error:
            said.append(str(error))
        stop.set()

    clock.call_later(5, again)
    leader.run(stop)
    assert said == ["the elector of a on lock ns/lock runs already"]
