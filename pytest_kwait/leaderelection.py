"""Leader election: at most one of several candidates acts, by the lease it holds.

The module has the lock, its record, and the loop that acquires and renews it; it does not depend
on the leader's work.

Source: k8s.io/client-go/tools/leaderelection (1.36).
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import (
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_text,
)
from pytest_kwait.apimachinery.times import format_micro_time, to_seconds
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import PLAIN_TRACEBACKS, ApiError, InvalidArgument, KwaitError
from pytest_kwait.wait.context import Context, check_clock, check_context, make_stop_context
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.wait import CancelFunc
    from pytest_kwait.wait.context import Canceled, DeadlineExceeded

__all__ = [
    "JITTER_FACTOR",
    "MAX_LEASE_SECONDS",
    "LeaderElectionRecord",
    "LeaderElector",
    "LeadershipContext",
    "LeaseLock",
    "NewLeaderNotifier",
    "ResourceLock",
]

MAX_LEASE_SECONDS = 2**31 - 1
"""The longest duration of a Lease: `leaseDurationSeconds` is an int32."""
JITTER_FACTOR = 1.2
"""The maximum extra of a candidate's pause, as a fraction of the retry period."""

_log = logging.getLogger(__name__)

_MINIMUM_JOIN_TIME = 1.0
"""The minimum seconds of a request, however short the renew deadline is."""

_EPSILON = 0.001
"""Seconds added to a lease's expiry before it is checked."""


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """The holder of a lock, with its times.

    Args:
        holder_identity: the holder; empty for none.
        lease_duration_seconds: how long others wait after the last observed change of the record.
        acquire_time: when the holder acquired it, as the API's MicroTime; for display only.
        renew_time: when the holder last renewed it; for display only.
        leader_transitions: how often the holder has changed.
        version: of the lock, as it was read; only compared, never written.

    Source: resourcelock/interface.go LeaderElectionRecord.
    """

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = 0
    version: str = ""


class ResourceLock(Protocol):
    """A record with optimistic concurrency, for one elector.

    Every call ends by its deadline, and raises `KwaitError` if it fails.
    """

    @property
    def identity(self) -> str:
        """The candidate that uses this lock."""
        ...

    def describe(self) -> str:
        """Return the name of the lock, for messages."""
        ...

    def get(self, *, deadline: Deadline) -> LeaderElectionRecord | None:
        """Return the record; None before its creation."""
        ...

    def create(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Create the record; `ApiError` if another candidate was first."""
        ...

    def update(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Update the last read record; `ApiError` if another candidate was first."""
        ...


class LeaseLock:
    """A Lease of the API server as the lock of an election; for one elector.

    Args:
        namespace: the namespace of the Lease.
        identity: the candidate; unique among candidates.

    Raises:
        InvalidArgument: an invalid name, or an identity that is not a string.

    Source: resourcelock/leaselock.go LeaseLock.
    """

    def __init__(self, client: ApiClient, namespace: str, name: str, identity: str) -> None:
        if not isinstance(identity, str):
            raise InvalidArgument("identity", identity, "use a string")
        self._namespace = check_namespace(namespace)
        self._name = check_name("name", name)
        self._identity = identity
        self._session = ApiSession.of(client)
        self._lease: dict[str, Any] | None = None

    @property
    def identity(self) -> str:
        """The candidate that uses this lock."""
        return self._identity

    def describe(self) -> str:
        """Return namespace and name of the Lease."""
        return f"{self._namespace}/{self._name}"

    def get(self, *, deadline: Deadline) -> LeaderElectionRecord | None:
        """Return the stored record; None without a Lease.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: there was no answer in time.
        """
        _check_deadline(deadline)
        try:
            lease = self._session.get(LEASES, self._name, self._namespace, deadline=deadline)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        self._lease = dict(lease)
        spec = lease.get("spec") or {}
        return LeaderElectionRecord(
            holder_identity=spec.get("holderIdentity") or "",
            lease_duration_seconds=spec.get("leaseDurationSeconds") or 0,
            acquire_time=spec.get("acquireTime"),
            renew_time=spec.get("renewTime"),
            leader_transitions=spec.get("leaseTransitions") or 0,
            # Times may repeat if a wall clock is set back; versions do not.
            version=lease["metadata"].get("resourceVersion") or "",
        )

    def create(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Create the Lease; a conflict if another candidate was first."""
        _check_deadline(deadline)
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": _spec(record),
        }
        created = self._session.create(LEASES, body, self._namespace, deadline=deadline)
        self._lease = dict(created)

    def update(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Update the last read Lease; a conflict if another candidate was first.

        Raises:
            InvalidArgument: it has been neither read nor created.
        """
        _check_deadline(deadline)
        spec = _spec(record)
        if self._lease is None:
            raise InvalidArgument("lease", None, "call get or create before update")
        body = {**self._lease, "spec": {**(self._lease.get("spec") or {}), **spec}}
        updated = self._session.replace(LEASES, body, self._namespace, deadline=deadline)
        self._lease = dict(updated)


def _check_deadline(deadline: object) -> None:
    check_instance("deadline", deadline, Deadline, "use a Deadline, as Deadline.after(5)")


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    check_instance("record", record, LeaderElectionRecord, "use a LeaderElectionRecord")
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.leader_transitions,
    }


class LeadershipContext(Context):
    """The context of one leadership; `err` also ends it when the lease expires.

    A process that was suspended past its lease finds `err` set in its first step. The elector,
    which sets `done`, may wake up a moment later than the leader's thread.

    Args:
        parent: the context of the candidacy.
        leads: whether the lease is held, as far as this candidate can know.
    """

    def __init__(self, parent: Context, leads: Callable[[], bool]) -> None:
        check_context("parent", parent)
        check_function("leads", leads)
        super().__init__(parent.clock, parent=parent)
        self._leads = leads
        self._lapsed = False

    def err(self) -> Canceled | DeadlineExceeded | None:
        """Return the reason of the end of the leadership; None before it."""
        if not self._lapsed and not self._leads():
            self._lapsed = True
            self.cancel(KwaitError("the lease is not held any more"))
        return super().err()


_log.addFilter(PLAIN_TRACEBACKS)


class NewLeaderNotifier:
    """Calls back once for each change of leader, one call at a time.

    A slow call delays only the later ones; one that raises is logged. Upstream starts a thread for
    each call, without an order.

    Args:
        callback: the function to call; None for none.
        name: of the lock, for the log.
    """

    def __init__(self, callback: Callable[[str], object] | None, name: str) -> None:
        if callback is not None:
            check_function("callback", callback)
        check_text("name", name)
        self._callback = callback
        self._name = name
        self._leader = ""
        self._seen: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._worker: Worker | None = None

    def report_leader(self, leader: str) -> None:
        """Record the current leader; empty for none."""
        if leader == self._leader:
            return
        self._leader = leader
        if self._callback is None:
            return
        self._seen.put(leader)
        if self._worker is None:
            self._worker = Worker("kwait-new-leader", self._run)
            self._worker.start()

    def close(self, timeout: float) -> None:
        """Return once all changes are reported, or after `timeout` seconds."""
        if self._worker is not None:
            self._seen.put(None)
            self._worker.join(timeout)

    def _run(self) -> None:
        while (leader := self._seen.get()) is not None and self._callback is not None:
            wait.handle_crash(partial(self._callback, leader), self._failed)()

    def _failed(self, error: Exception) -> None:
        _log.error("on_new_leader has failed on lock %s", self._name, exc_info=error)


class LeaderElector:
    """A candidate for leadership.

    The expiry of a lease is measured on this candidate's monotonic clock from its observations. The
    times in the record are for display and never compared; any write to the lock counts as a
    renewal. Differences from upstream, where each case can leave two leaders, or none for longer:

    - own leadership and the renew deadline count from before the renewal was sent;
    - a leader suspended past its renew deadline does not continue, even without a successor;
    - a stolen lease ends the leadership at once; a lost one is not released, since that would delay
      the end by waiting for the network;
    - the leader's context ends before the lease is released, and the lease is released only once
      `on_started_leading` has returned;
    - no request takes more than half of the renew deadline, so that a silent connection is replaced
      by another one;
    - a held lease is checked at least once per retry period and at its expiry: the successor of a
      killed leader leads within lease duration plus retry period.

    Args:
        lock: the contested lock.
        lease_duration: how long others wait before they take over; written in whole seconds.
        renew_deadline: how long a leader that cannot renew remains leader.
        retry_period: the pause between tries.
        release_on_cancel: whether a stopped leader releases the lease.
        on_started_leading: called in a thread of its own with the context of the leadership. Check
            its `err()` before each action: it is set from the moment the lease has expired, `done`
            only once the elector is awake. If it raises, the leadership ends. The thread is a
            daemon; `run` waits for it only before a release, and not beyond the lease.
        on_stopped_leading: called once at the end of every `run`, even if it never led.
        on_new_leader: called with each new holder observed, empty for none, in their order, in a
            thread of its own; at its end `run` waits for it one retry period at most.
        clock: passes the pauses; a context given to `run` must have the same clock.

    Raises:
        InvalidArgument: contradictory durations, no callback, no identity.

    Source: leaderelection.go NewLeaderElector; resourcelock/interface.go NewFromKubeconfig for the
    limit of one request.
    """

    def __init__(
        self,
        lock: ResourceLock,
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
        lease = to_seconds(lease_duration, what="lease_duration", at_most=MAX_LEASE_SECONDS)
        renew = to_seconds(renew_deadline, what="renew_deadline")
        retry = to_seconds(retry_period, what="retry_period")
        if lease <= renew:
            valid = "leaseDuration must be greater than renewDeadline"
            raise InvalidArgument("lease_duration", lease_duration, valid)
        if renew <= retry * JITTER_FACTOR:
            valid = "renewDeadline must be greater than retryPeriod*JitterFactor"
            raise InvalidArgument("renew_deadline", renew_deadline, valid)
        if retry <= 0:  # the earlier checks exclude zero
            valid = "retryPeriod must be greater than zero"
            raise InvalidArgument("retry_period", retry_period, valid)
        for argument, name, callback in (
            ("on_started_leading", "OnStartedLeading", on_started_leading),
            ("on_stopped_leading", "OnStoppedLeading", on_stopped_leading),
        ):
            if not callable(callback):
                raise InvalidArgument(argument, callback, f"{name} callback must not be nil")
            check_function(argument, callback)
        if on_new_leader is not None:
            check_function("on_new_leader", on_new_leader, "use a function of one name")
        check_flag("release_on_cancel", release_on_cancel)
        check_clock("clock", clock)
        if lock is None:
            raise InvalidArgument("lock", lock, "Lock must not be nil.")
        valid = "use a LeaseLock, or an object with identity, get, create, update and describe"
        check_methods("lock", lock, ("get", "create", "update", "describe"), valid)
        if not lock.identity:
            raise InvalidArgument("identity", lock.identity, "Lock identity is empty")
        self._lock = lock
        self._lease, self._renew_deadline, self._retry = lease, renew, retry
        self._attempt_timeout = max(_MINIMUM_JOIN_TIME, renew / 2)
        self._release_on_cancel = release_on_cancel
        self._started, self._stopped = on_started_leading, on_stopped_leading
        self._new_leader = on_new_leader
        self._clock = clock
        # Replaced, never mutated: other threads read it.
        self._seen = _ObservedRecord(LeaderElectionRecord(), -math.inf)
        self._leading = False
        self._kept_out = False
        self._running = threading.Lock()
        self._announcer = NewLeaderNotifier(None, lock.describe())

    @property
    def is_leader(self) -> bool:
        """Return whether this candidate leads now; False once its lease has expired unrenewed.

        Source: leaderelection.go IsLeader, which does not check the time.
        """
        return not self.lease_deadline.expired

    @property
    def lease_deadline(self) -> Deadline:
        """When the leadership ends unless renewed; in the past if not leading."""
        observation = self._seen
        leads = self._leading and observation.record.holder_identity == self._lock.identity
        return Deadline(observation.at + self._lease if leads else -math.inf, self._clock)

    def get_leader(self) -> str:
        """Return the last observed holder; empty without one."""
        return self._seen.record.holder_identity

    def check(self, tolerance: Duration) -> None:
        """Raise an error if this leader has not renewed its lease in time.

        Args:
            tolerance: the time past the lease duration that is still healthy.

        Raises:
            KwaitError: this leader has not renewed its lease in time.

        Source: leaderelection.go Check.
        """
        limit = self._lease + to_seconds(tolerance, what="tolerance")
        if self._leading and self._clock.monotonic() - self._seen.at > limit:
            name = self._lock.describe()
            raise KwaitError(f"failed election to renew leadership on lease {name}")

    def run(self, stop: wait.Stop) -> bool:
        """Compete, lead, and return when stopped or when leadership is lost.

        A pending request is awaited at `stop`, for half a renew deadline at most.

        Args:
            stop: ends the candidacy.

        Returns:
            True if stopped, False if leadership was lost.

        Raises:
            InvalidArgument: nothing that stops, or a context of another clock.
            KwaitError: it runs already.

        Source: leaderelection.go Run.
        """
        ctx = make_stop_context(stop, self._clock)
        if ctx.clock is not self._clock:
            raise InvalidArgument("stop", stop, "use a context of the elector's clock")
        if not self._running.acquire(blocking=False):
            name = self._lock.describe()
            raise KwaitError(f"the elector of {self._lock.identity} on lock {name} runs already")
        self._announcer = NewLeaderNotifier(self._new_leader, self._lock.describe())
        try:
            if not self._acquire(ctx):
                return True
            stopped = self._lead(ctx)
            if not stopped:
                _log.error("lost master")
            return stopped
        finally:
            self._leading = False
            try:
                self._stopped()
            finally:
                self._announcer.close(self._retry)
                self._running.release()

    def _acquire(self, ctx: Context) -> bool:
        _log.info("Attempting to acquire leader lease... lock=%s", self._lock.describe())
        # Observations of an earlier run are invalid.
        self._seen = _ObservedRecord(LeaderElectionRecord(), -math.inf)
        trying, acquired = wait.with_cancel(ctx)
        won = False

        def attempt(_ctx: Context) -> None:
            nonlocal won
            if self._try(Deadline.after(self._renew_deadline, self._clock)):
                won = True
                acquired()

        wait.backoff_until_with_context(trying, attempt, _Pauses(self._pause), True)
        if won:
            _log.info("Successfully acquired lease lock=%s", self._lock.describe())
        return won

    def _pause(self) -> float:
        """Choose the pause after a try that has not acquired the lease."""
        if not self._kept_out:
            return wait.jitter(self._retry, JITTER_FACTOR)
        # Never longer than the retry period, which would delay the next leader.
        pause = wait.jitter(self._retry / 2, 1.0)
        observation = self._seen
        remaining_seconds = (
            observation.at + observation.record.lease_duration_seconds - self._clock.monotonic()
        )
        return min(pause, remaining_seconds + _EPSILON) if remaining_seconds > 0 else pause

    def _lead(self, ctx: Context) -> bool:
        """Lead until stopped (True) or until leadership is lost."""
        self._leading = True
        term = LeadershipContext(ctx, lambda: self.is_leader)
        renewing, lost = wait.with_cancel(ctx)

        def work() -> None:
            returned = False
            try:
                self._started(term)
                returned = True
            finally:
                if not returned:  # a leader that does nothing must release its place
                    lost()

        worker = Worker("kwait-leading", work)
        try:
            worker.start()
            self._renew(renewing, lost)
        finally:
            until = self.lease_deadline
            term.cancel()
            self._leading = False
            stopped = ctx.err() is not None
        if stopped and self._release_on_cancel and self._holds():
            if worker.join(until.remaining):
                self._release(until)
            else:
                name = self._lock.describe()
                _log.error("lease %s is not released: on_started_leading still runs", name)
        return stopped

    def _renew(self, renewing: Context, lost: CancelFunc) -> None:
        def renewed(ctx: Context) -> bool:
            # A poll checks once even if its context has ended.
            if ctx.err() is not None:
                return False
            done = self._try(ctx.deadline)
            if not self._holds():
                raise wait.Canceled(f"the lease is held by {self.get_leader()!r}")
            return done

        def attempt(ctx: Context) -> None:
            remaining_seconds = self._seen.at + self._renew_deadline - self._clock.monotonic()
            try:
                wait.poll_until_context_timeout(
                    ctx, self._retry, max(0.0, remaining_seconds), True, renewed
                )
            except (wait.Canceled, wait.DeadlineExceeded, wait.ErrWaitTimeout) as error:
                if ctx.err() is None:
                    name = self._lock.describe()
                    _log.error("Failed to renew lease lock=%s err=%s", name, error)
                lost()

        wait.until_with_context(renewing, attempt, self._retry)

    def _try(self, deadline: Deadline) -> bool:
        self._kept_out = False
        if deadline.expired:
            return False
        try:
            return self._try_acquire_or_renew(deadline) and not deadline.expired
        except KwaitError as error:
            # Another candidate was first; the next read shows it.
            self._kept_out = isinstance(error, ApiError) and error.status == 409
            _log.error("error on lock %s: %s", self._lock.describe(), error)
            return False
        finally:
            self._announcer.report_leader(self.get_leader())

    def _try_acquire_or_renew(self, deadline: Deadline) -> bool:
        now = format_micro_time(self._clock.time())
        own_record = LeaderElectionRecord(self._lock.identity, math.ceil(self._lease), now, now)
        if self.is_leader:
            try:
                return self._write(self._lock.update, self._kept(own_record), deadline)
            except KwaitError as error:
                _log.info("optimistic update failed, reading the lock again: %s", error)
        old = self._lock.get(deadline=deadline.at_most(self._attempt_timeout))
        if old is None:
            return self._write(self._lock.create, own_record, deadline)
        if old != self._seen.record:
            # An unchanged record keeps its time: only a write shows that the holder is alive. Our
            # own record, from a write whose answer was lost, predates this read.
            own = self._leading and old.holder_identity == self._lock.identity
            self._seen = _ObservedRecord(old, self._seen.at if own else self._clock.monotonic())
        if self._holds():
            return self._write(self._lock.update, self._kept(own_record), deadline)
        if self._leading:
            return False  # stolen: only a new candidacy can acquire it again
        lasts = old.lease_duration_seconds
        if old.holder_identity and self._clock.monotonic() < self._seen.at + lasts:
            self._kept_out = True
            return False
        taken = replace(own_record, leader_transitions=old.leader_transitions + 1)
        return self._write(self._lock.update, taken, deadline)

    def _kept(self, own_record: LeaderElectionRecord) -> LeaderElectionRecord:
        record = self._seen.record
        return replace(
            own_record,
            acquire_time=record.acquire_time,
            leader_transitions=record.leader_transitions,
        )

    def _write(self, write: _Write, record: LeaderElectionRecord, deadline: Deadline) -> bool:
        begun = self._clock.monotonic()
        write(record, deadline=deadline.at_most(self._attempt_timeout))
        self._seen = _ObservedRecord(record, begun)
        return True

    def _holds(self) -> bool:
        return self.get_leader() == self._lock.identity

    def _release(self, deadline: Deadline) -> None:
        """Release the lease if it is ours; otherwise it expires by itself."""
        try:
            old = self._lock.get(deadline=deadline.at_most(self._attempt_timeout))
            if old is None or old.holder_identity != self._lock.identity:
                return
            now = format_micro_time(self._clock.time())
            released = LeaderElectionRecord("", 1, now, now, old.leader_transitions)
            self._write(self._lock.update, released, deadline)
        except KwaitError as error:
            _log.error("Failed to release lease %s: %s", self._lock.describe(), error)


class _ObservedRecord(NamedTuple):
    """The last observed record, and the time of its observation."""

    record: LeaderElectionRecord
    at: float


class _Write(Protocol):
    def __call__(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None: ...


class _Pauses:
    """The pauses of a loop, each chosen when it begins.

    Args:
        backoff: returns the next one, in seconds.
    """

    def __init__(self, backoff: Callable[[], float]) -> None:
        self._choose = backoff

    def backoff(self) -> float:
        """Return the next pause."""
        return self._choose()
