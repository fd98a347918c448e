"""The elector: acquires a lock, renews it, and says when it is lost."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait import wait
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline, rfc3339_micro
from pytest_kwait.errors import InvalidArgument, KwaitError

from .record import LeaderElectionRecord, Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.wait import Context, Duration

__all__ = ["JITTER_FACTOR", "LeaderElector"]

JITTER_FACTOR = 1.2
"""How much longer than the retry period a candidate pauses at most, as a part of it."""

_log = logging.getLogger(__name__)


class LeaderElector:
    """A candidate for leadership.

    A lease expires by what this candidate has observed on its monotonic clock; the times in the
    record are never compared. Unlike upstream, the renew deadline counts from the last renewal that
    succeeded, own leadership from before that request was sent, and the leader's context is
    cancelled before the lease is released. A stolen lease ends the leadership at once; a lost one
    is not released, since that would keep its end waiting for the network.

    Args:
        lock: what the candidates compete for.
        lease_duration: how long others wait before they take over; written in whole seconds.
        renew_deadline: how long a leader that cannot renew stays one.
        retry_period: the pause between tries.
        release_on_cancel: whether a leader that is stopped gives the lease back.
        on_started_leading: called in a thread of its own; its context ends with the leadership.
        on_stopped_leading: called once at the end of every `run`, whether it has led or not.
        on_new_leader: called with each holder observed, in a thread of its own.
        clock: passes the pauses.

    Raises:
        InvalidArgument: durations that contradict each other, no callback, no identity.

    Source: leaderelection.go NewLeaderElector.
    """

    def __init__(
        self,
        lock: Lock,
        *,
        on_started_leading: Callable[[Context], object],
        on_stopped_leading: Callable[[], object],
        on_new_leader: Callable[[str], object] | None = None,
        lease_duration: Duration = 15,
        renew_deadline: Duration = 10,
        retry_period: Duration = 2,
        release_on_cancel: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        lease = wait.to_seconds(lease_duration, what="lease_duration")
        renew = wait.to_seconds(renew_deadline, what="renew_deadline")
        retry = wait.to_seconds(retry_period, what="retry_period")
        if lease <= renew:
            valid = "leaseDuration must be greater than renewDeadline"
            raise InvalidArgument("lease_duration", lease_duration, valid)
        if renew <= retry * JITTER_FACTOR:
            valid = "renewDeadline must be greater than retryPeriod*JitterFactor"
            raise InvalidArgument("renew_deadline", renew_deadline, valid)
        if retry <= 0:  # the two before cannot be zero then
            valid = "retryPeriod must be greater than zero"
            raise InvalidArgument("retry_period", retry_period, valid)
        for what, callback in (
            ("OnStartedLeading", on_started_leading),
            ("OnStoppedLeading", on_stopped_leading),
        ):
            if not callable(callback):
                raise InvalidArgument(what, callback, f"{what} callback must not be nil")
        if lock is None:
            raise InvalidArgument("lock", lock, "Lock must not be nil.")
        if not lock.identity:
            raise InvalidArgument("identity", lock.identity, "Lock identity is empty")
        self._lock = lock
        self._lease, self._renew_deadline, self._retry = lease, renew, retry
        self._release_on_cancel = release_on_cancel
        self._started, self._stopped = on_started_leading, on_stopped_leading
        self._new_leader = on_new_leader
        self._clock = clock
        self._observed = LeaderElectionRecord()
        self._observed_at = -math.inf
        self._leading = False
        self._reported = ""

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads now: false as soon as its lease has run out unrenewed.

        Source: leaderelection.go IsLeader, which does not look at the time.
        """
        return (
            self._leading
            and self._holds()
            and self._clock.monotonic() < self._observed_at + self._lease
        )

    def get_leader(self) -> str:
        """Return the holder last observed; empty if there is none."""
        return self._observed.holder_identity

    def check(self, tolerance: Duration) -> None:
        """Return while a leader renews its lease; always for who does not lead.

        Args:
            tolerance: how long past the lease duration is still healthy.

        Raises:
            KwaitError: this leader has not renewed its lease in time.

        Source: leaderelection.go Check.
        """
        limit = self._lease + wait.to_seconds(tolerance, what="tolerance")
        if self._leading and self._clock.monotonic() - self._observed_at > limit:
            name = self._lock.describe()
            raise KwaitError(f"failed election to renew leadership on lease {name}")

    def run(self, stop: threading.Event | Context) -> bool:
        """Compete, lead, and return when stopped or when leadership is lost.

        Args:
            stop: an event or a context; ends the candidacy.

        Returns:
            True if stopped, False if leadership was lost.

        Source: leaderelection.go Run.
        """
        ctx = (
            stop if isinstance(stop, wait.Context) else wait.context_for_channel(stop, self._clock)
        )
        try:
            if not self._acquire(ctx):
                return True
            leading, cancel = wait.with_cancel(ctx)
            self._leading = True
            try:
                threading.Thread(target=self._started, args=(leading,), daemon=True).start()
                self._renew(ctx)
            finally:
                cancel()
                self._leading = False
                if self._release_on_cancel and ctx.err() is not None:
                    self._release()
            if ctx.err() is None:
                _log.error("lost master")
                return False
            return True
        finally:
            self._leading = False
            self._stopped()

    def _acquire(self, ctx: Context) -> bool:
        _log.info("Attempting to acquire leader lease... lock=%s", self._lock.describe())
        # What an earlier run has seen of its own says nothing now.
        self._observed, self._observed_at = LeaderElectionRecord(), -math.inf
        trying, acquired = wait.with_cancel(ctx)
        won = False

        def attempt(_ctx: Context) -> None:
            nonlocal won
            if self._try(Deadline.after(self._renew_deadline, self._clock)):
                won = True
                acquired()

        wait.jitter_until_with_context(trying, attempt, self._retry, JITTER_FACTOR, True)
        if won:
            _log.info("Successfully acquired lease lock=%s", self._lock.describe())
        return won

    def _renew(self, ctx: Context) -> None:
        renewing, lost = wait.with_cancel(ctx)

        def renewed(ctx: Context) -> bool:
            done = self._try(ctx.deadline)
            if not self._holds():
                raise wait.Canceled(f"the lease is held by {self.get_leader()!r}")
            return done

        def attempt(ctx: Context) -> None:
            left = self._observed_at + self._renew_deadline - self._clock.monotonic()
            try:
                wait.poll_until_context_timeout(ctx, self._retry, max(0.0, left), True, renewed)
            except (wait.Canceled, wait.DeadlineExceeded, wait.ErrWaitTimeout):
                if ctx.err() is None:
                    _log.error("Failed to renew lease lock=%s", self._lock.describe())
                lost()

        wait.until_with_context(renewing, attempt, self._retry)

    def _try(self, deadline: Deadline) -> bool:
        try:
            return self._try_acquire_or_renew(deadline) and not deadline.expired
        except KwaitError as error:
            _log.error("error on lock %s: %s", self._lock.describe(), error)
            return False
        finally:
            self._report()

    def _try_acquire_or_renew(self, deadline: Deadline) -> bool:
        begun = self._clock.monotonic()
        now = rfc3339_micro(self._clock.time())
        mine = LeaderElectionRecord(self._lock.identity, math.ceil(self._lease), now, now)
        if self.is_leader and self._holds():
            try:
                return self._write(self._kept(mine), begun, deadline)
            except KwaitError as error:
                _log.info("optimistic update failed, reading the lock again: %s", error)
        old = self._lock.get(deadline=deadline)
        if old is None:
            begun = self._clock.monotonic()
            self._lock.create(mine, deadline=deadline)
            self._observe(mine, begun)
            return True
        if old != self._observed:
            # Unchanged records keep their time: only a change says that the holder lives.
            # One's own, written by a request whose answer was lost, is older than this look.
            own = self._leading and old.holder_identity == self._lock.identity
            self._observe(old, self._observed_at if own else self._clock.monotonic())
            if self._leading and not self._holds():
                return False  # stolen: to be won again only by a new candidacy
        held = bool(old.holder_identity) and not self._expired()
        if held and not self._holds():
            return False
        if self._holds():
            record = self._kept(mine)
        else:
            record = replace(mine, leader_transitions=old.leader_transitions + 1)
        return self._write(record, self._clock.monotonic(), deadline)

    def _kept(self, mine: LeaderElectionRecord) -> LeaderElectionRecord:
        return replace(
            mine,
            acquire_time=self._observed.acquire_time,
            leader_transitions=self._observed.leader_transitions,
        )

    def _write(self, record: LeaderElectionRecord, begun: float, deadline: Deadline) -> bool:
        self._lock.update(record, deadline=deadline)
        self._observe(record, begun)
        return True

    def _observe(self, record: LeaderElectionRecord, at: float) -> None:
        self._observed, self._observed_at = record, at

    def _holds(self) -> bool:
        return self._observed.holder_identity == self._lock.identity

    def _expired(self) -> bool:
        lasts = self._observed.lease_duration_seconds
        return self._clock.monotonic() >= self._observed_at + lasts

    def _release(self) -> None:
        if not self._holds():
            return
        deadline = Deadline.after(self._renew_deadline, self._clock)
        try:
            old = self._lock.get(deadline=deadline)
            if old is None or old.holder_identity != self._lock.identity:
                return
            now = rfc3339_micro(self._clock.time())
            released = LeaderElectionRecord("", 1, now, now, old.leader_transitions)
            self._write(released, self._clock.monotonic(), deadline)
        except KwaitError as error:
            _log.error("Failed to release lease %s: %s", self._lock.describe(), error)

    def _report(self) -> None:
        leader = self._observed.holder_identity
        if leader == self._reported:
            return
        self._reported = leader
        if self._new_leader is not None:
            threading.Thread(target=self._new_leader, args=(leader,), daemon=True).start()
