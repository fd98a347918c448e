"""The cluster lock of one process: membership, acquisition, and background renewal.

The lock is kept in Leases of one namespace, all with the label `pytest-kwait/lock`:

- Each participating process is a *member*: a Lease of its own, renewed in the background
  three times within its duration. A member is *in* (it may run a test at any time without
  asking) or *out* (it runs none, and asks before the next).
- The *queue* is one Lease that exists only while a process waits for others to go out:
  *tickets* in the order of asking, exclusive and shared ones.

The rules, each of them one write at the version that it was decided on:

- Shared: a member that is in runs test after test without a request. A member that
  goes in reads the queue afterwards: with no exclusive ticket it stays in, else it goes
  out again, takes a shared ticket, goes in when no exclusive one is before it, and returns
  the ticket.
- Exclusive: a process that is out and first in the queue then looks for members that are
  in. With none left it holds the lock until it returns its ticket.
- A member that sees an exclusive ticket, by its watch on the queue, goes out after its
  test.

Mutual exclusion: a process that goes in writes before it reads the tickets; a process that
wants the lock alone writes its ticket before it reads the members. The API server orders
the four requests, so one of the two sees the other. Progress: the queue is in the order of
asking, so neither a stream of shared tests starves serial ones, nor the reverse.

Expiry: a member whose Lease has not changed for its whole duration, by the monotonic clock
of the process that waits for it (as in `leaderelection`), is removed at the version that
was watched; a member that renews meanwhile stays. Its tickets do not count without it. A
member that was paused or cut off finds its Lease gone: it has lost the lock. A
request without a response may still arrive: it names an old version and is refused, and
a process first changes the version before it continues after such a request.

The cost is in docs/locks.md.
"""

from __future__ import annotations

import os
import random
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.shared_informer import SharedInformer
from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import ErrorAction, ErrorLog
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.suite.lease_renewer import LeaseRenewer
from pytest_kwait.suite.lock.leases import (
    QUEUE_SELECTOR,
    LockLeases,
    LockState,
    Ticket,
    read_queue,
    shorten_text,
)
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.suite.lock.leases import Member

RENEWALS_PER_DURATION = 3
"""Renewals of a member within its duration."""

CONFLICT_PAUSE = 0.02
"""Maximum seconds before the loser of a conflict retries."""

_POLL_INTERVAL = 0.5
"""Maximum seconds between two looks of a waiting process."""

_REQUEST_TIMEOUT = 15.0
"""Seconds for releasing, or for finding out whether the lock was lost."""

_LEAVE_TIMEOUT = 5.0
"""Seconds for leaving."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The ticket and member with which this process holds the lock.

    Args:
        member: the UID of the member that holds it.
        ticket: the ticket to return; None if shared without one.
    """

    test: str
    member: str
    ticket: str | None


class LockMember:
    """The Lease of this process as a member, written only at the version last read.

    Writers hold the write lock; readers need none.
    """

    def __init__(self, leases: LockLeases) -> None:
        self._leases = leases
        self._clock = leases.clock
        self.pace = leases.duration / RENEWALS_PER_DURATION
        """Seconds between two renewals."""
        self.guard = threading.Lock()
        """Held for a few atomic steps, never during a request."""
        self.member: Member | None = None
        """Our member as last read or written; None if this process does not participate."""
        # Polled, since blocking would be a wait without a clock.
        self._write_lock = threading.Lock()
        self._uncertain: str | None = None
        self._valid_until = self._renew_at = 0.0
        self._observed: dict[str, tuple[str, float]] = {}

    @property
    def valid(self) -> bool:
        """Return whether it was renewed in time. If so, no other process has removed it."""
        return self.member is not None and self._clock.monotonic() < self._valid_until

    @property
    def due(self) -> bool:
        """Return whether it must be written: for renewal, or after a lost response."""
        member = self.member
        doubtful = member is not None and member.version == self._uncertain
        return doubtful or self._clock.monotonic() >= self._renew_at

    def read_state(self, deadline: Deadline) -> LockState:
        """Return the state; records our member, and since when the others are unchanged."""
        snapshot = self._leases.snapshot(deadline)
        now = self._clock.monotonic()
        sights = {}
        for uid, member in snapshot.members.items():
            version, since = self._observed.get(uid, ("", now))
            sights[uid] = (member.version, since if version == member.version else now)
        self._observed = sights
        with self.guard:
            if self.member is not None:
                self.member = snapshot.members.get(self.member.uid)
                if self.member is None or self.member.version != self._uncertain:
                    self._uncertain = None
        return snapshot

    def join(self, test: str, deadline: Deadline, *, out: bool) -> None:
        """Create our member."""
        begun = self._clock.monotonic()
        self._written(self._leases.join(test, deadline, out=out), begun)

    def change(self, member: Member, test: str, deadline: Deadline, *, out: bool) -> None:
        """Renew our member at the version read."""
        # Without a response the write may happen now, later or never.
        self._uncertain = member.version
        begun = self._clock.monotonic()
        self._written(self._leases.change(member, test, deadline, out=out), begun)

    def leave(self, deadline: Deadline) -> None:
        """Delete our member."""
        member, self.member = self.member, None
        if member is not None:
            self._leases.leave(member, deadline)

    def has_expired(self, member: Member) -> bool:
        """Return whether a member has been unchanged for its duration."""
        _, since = self._observed[member.uid]
        return self._clock.monotonic() - since >= member.duration

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock; waits for the current writer."""
        while not self.acquire_write_lock():
            self._clock.wait(threading.Event(), CONFLICT_PAUSE)
        try:
            yield
        finally:
            self.release_write_lock()

    def acquire_write_lock(self) -> bool:
        """Take the write lock if it is free."""
        return self._write_lock.acquire(blocking=False)

    def release_write_lock(self) -> None:
        """Release the write lock."""
        self._write_lock.release()

    def _written(self, member: Member, begun: float) -> None:
        with self.guard:
            self.member, self._uncertain = member, None
            # Valid from before the request was sent.
            self._valid_until = begun + self._leases.duration
            self._renew_at = begun + self.pace


def is_conflict(error: Exception) -> bool:
    """Return whether a write certainly did not happen, because the object had changed."""
    return isinstance(error, ApiError) and error.status in (404, 409)


class LockTimeout(KwaitError):
    """The lock was not acquired in time; the text names its holders."""


class LockOutage(KwaitError):
    """The API server has not answered for so long that the lock cannot be acquired.

    Args:
        place: namespace and name of the lock.
        outage: since when the server has not answered, as a sentence.
    """

    def __init__(self, place: str, outage: str) -> None:
        super().__init__(f"lock {place} cannot be read: {outage}")


class _Step(Enum):
    GRANTED = "granted"
    ACTED = "acted"


class ClusterLock:
    """The cluster lock for one process, held for one test at a time.

    `acquire_shared`, `acquire_exclusive`, `lost` and `release` are for the thread that runs tests;
    another thread calls `maintain` every `pace` seconds and when `on_queue_change` has returned
    True.
    """

    def __init__(self, leases: LockLeases) -> None:
        self._leases = leases
        self._clock = leases.clock
        self._own = LockMember(leases)
        self.pace = self._own.pace
        """Seconds between two renewals."""
        self._woken = threading.Event()
        self._hold: Hold | None = None
        # True if this process is in and needs no request.
        self._open = False
        self._queue: tuple[Ticket, ...] = ()
        self._last = LockState(None, (), {})
        self._random = random.Random(os.urandom(8))  # noqa: S311 - keeps apart, hides nothing

    @property
    def place(self) -> str:
        """Namespace and name of the lock, for messages."""
        return self._leases.place

    @property
    def duration(self) -> int:
        """Seconds after which an unrenewed member has expired."""
        return self._leases.duration

    def acquire_shared(
        self, test: str, deadline: Deadline, report: Callable[[str], object]
    ) -> None:
        """Hold the lock with others; without a request unless a process wants it alone.

        Args:
            report: called with the names of the holders after each look.

        Raises:
            LockTimeout: it was not acquired in time.
            LockOutage: the server has not answered for half a minute.
            ApiError: the server refuses what this needs.
        """
        with self._own.guard:
            member = self._own.member
            if member is not None and self._open and not self._wanted and self._own.valid:
                self._hold = Hold(test, member.uid, None)
                return
        with self._own.writing():
            self._acquire(True, test, deadline, report)

    def acquire_exclusive(
        self, test: str, deadline: Deadline, report: Callable[[str], object]
    ) -> None:
        """Hold the lock alone; arguments and errors as for `acquire_shared`."""
        with self._own.writing():
            self._acquire(False, test, deadline, report)

    def lost(self) -> bool:
        """Return whether the lock was lost since it was acquired, or that is unknown.

        Sends a request only if this process did not renew its Lease in time.
        """
        hold = self._hold
        if hold is None:
            return False
        member = self._own.member
        if member is not None and member.uid == hold.member and self._own.valid:
            return False
        seconds = self._leases.availability.limit_cleanup(_REQUEST_TIMEOUT)
        limit = Deadline.after(seconds, self._clock)
        with self._own.writing():
            while not limit.expired:
                try:
                    snapshot = self._read_state(limit)
                    member = self._own.member
                    if member is None or member.uid != hold.member:
                        return True
                    if hold.ticket and hold.ticket not in {
                        queued_ticket.id for queued_ticket in snapshot.queue
                    }:
                        return True
                    self._own.change(member, hold.test, limit, out=member.out)
                except ClusterEnded:
                    return False
                except (ApiError, DeadlineExceeded):
                    self._pause(self._random.uniform(0, _POLL_INTERVAL))
                else:
                    return False
        return True

    def release(self) -> bool:
        """Release the lock, if held; return whether it was still known to be held."""
        with self._own.guard:
            hold, self._hold = self._hold, None
        if hold is None or hold.ticket is None:
            return True
        with self._own.writing():
            # The state at acquisition is usually unchanged.
            return self._give_back(hold.ticket, hold.member, self._last)

    def on_queue_change(self, queue: Sequence[Ticket]) -> bool:
        """Handle a change of the queue; return whether `maintain` has work."""
        with self._own.guard:
            self._queue = tuple(queue)
            todo = self._needs_cleanup or self._in_the_way
        self._woken.set()
        return todo

    def maintain(self, *, read_state: bool = False) -> None:
        """Renew the Lease; between tests go out for processes that want the lock alone.

        Args:
            read_state: whether to look without an event of the watch.

        Raises:
            ApiError: refused; without a later renewal the Lease expires.
            DeadlineExceeded: no answer in time.
        """
        if not self._own.acquire_write_lock():
            # Its holder renews as well.
            return
        try:
            self._maintain(Deadline.after(_REQUEST_TIMEOUT, self._clock), read_state)
        finally:
            self._own.release_write_lock()

    def leave(self, deadline: Deadline) -> None:
        """Delete our member, and with it everything that this process holds.

        Raises:
            ApiError: refused.
            DeadlineExceeded: no answer in time.
        """
        with self._own.writing():
            self._open = False
            self._own.leave(deadline)

    def _acquire(
        self, shared: bool, test: str, deadline: Deadline, report: Callable[[str], object]
    ) -> None:
        self._open = False
        ticket = os.urandom(6).hex()
        troubles = ErrorLog(self._clock)
        reason = "nothing seen yet"
        while True:
            self._woken.clear()
            pause = _POLL_INTERVAL
            try:
                limit = deadline.at_most(_REQUEST_TIMEOUT)
                step = self._advance(self._read_state(limit), shared, test, ticket, limit)
            except ApiError as error:
                if is_conflict(error) and self._own.member is not None:
                    pause = self._random.uniform(0, CONFLICT_PAUSE)
                elif troubles.decide(error) is ErrorAction.STOP:
                    raise
                else:
                    reason, pause = str(error), max(pause, error.retry_after or 0.0)
            except DeadlineExceeded as error:
                reason = reason if deadline.expired else str(error)
            else:
                troubles.record_success()
                if step is _Step.GRANTED:
                    return
                if isinstance(step, str):
                    reason = step
                    report(reason)
                else:
                    pause = 0.0
            if self._leases.availability.is_out:
                raise LockOutage(self.place, self._leases.availability.describe_outage())
            if deadline.expired:
                if self._own.member is not None:
                    self._give_back(ticket, self._own.member.uid, None)
                raise LockTimeout(reason)
            self._pause(min(pause, deadline.remaining), self._woken)

    def _advance(
        self, snapshot: LockState, shared: bool, test: str, ticket: str, deadline: Deadline
    ) -> _Step | str:
        """Do the next step; if there is none, return the names of the holders."""
        queue, me = snapshot.queue, self._own.member
        test = shorten_text(test)
        if me is None:
            free = shared and all(queued_ticket.shared for queued_ticket in queue)
            self._own.join(test, deadline, out=not free)
            return _Step.ACTED
        proper = [
            queued_ticket
            for queued_ticket in queue
            if queued_ticket.member in snapshot.members
            and (queued_ticket.member != me.uid or queued_ticket.id == ticket)
        ]
        if len(proper) < len(queue):
            self._leases.write(snapshot, proper, deadline)
            return _Step.ACTED
        place = next(
            (n for n, queued_ticket in enumerate(queue) if queued_ticket.id == ticket), None
        )
        ahead = queue[:place]
        barred = not shared or any(not queued_ticket.shared for queued_ticket in ahead)
        if me.out != barred or self._own.due:
            self._own.change(me, test, deadline, out=barred)
            return _Step.ACTED
        if not barred:
            if place is not None:
                rest = [queued_ticket for queued_ticket in queue if queued_ticket.id != ticket]
                self._leases.write(snapshot, rest, deadline)
            return self._granted(Hold(test, me.uid, None))
        if place is None:
            own = Ticket(ticket, me.uid, me.name, self._leases.holder, test, shared)
            self._leases.write(snapshot, [*queue, own], deadline)
            return _Step.ACTED
        if ahead:
            blocking = [snapshot.members[queued_ticket.member] for queued_ticket in ahead]
        else:
            other_members = (member for member in snapshot.members.values() if member.uid != me.uid)
            blocking = [member for member in other_members if not member.out]
        vanished = [member for member in blocking if self._own.has_expired(member)]
        for member in vanished:
            self._leases.remove_member(member, deadline)
        if vanished:
            return _Step.ACTED
        if blocking:
            return snapshot.blocked_by(ahead, blocking)
        lock = self._leases.write(snapshot, queue, deadline, held=True)
        self._last = LockState(lock, queue, {})
        return self._granted(Hold(test, me.uid, ticket))

    def _granted(self, hold: Hold) -> _Step:
        with self._own.guard:
            if not self._own.valid:
                # After a pause of this process another may have waited for it.
                return _Step.ACTED
            self._hold = hold
            self._open = hold.ticket is None
        return _Step.GRANTED

    def _maintain(self, limit: Deadline, read_state: bool) -> None:
        with self._own.guard:
            todo = read_state or self._needs_cleanup or self._in_the_way
            test = "" if self._hold is None else self._hold.test
            me = self._own.member
        if me is not None and self._own.due:
            try:
                self._own.change(me, test, limit, out=me.out)
            except ApiError as error:
                if not is_conflict(error):
                    raise
                todo = True
        if todo:
            self._leave_or_clean_up(self._read_state(limit), limit)

    def _leave_or_clean_up(self, snapshot: LockState, limit: Deadline) -> None:
        me, kept_ticket = self._own.member, self._kept
        if me is None:
            return
        rest = [
            queued_ticket
            for queued_ticket in snapshot.queue
            if queued_ticket.member != me.uid or queued_ticket.id == kept_ticket
        ]
        if len(rest) < len(snapshot.queue):
            self._leases.write(snapshot, rest, limit)
        with self._own.guard:
            self._queue = tuple(rest)
            leaving = self._in_the_way
            if leaving:
                # Processes that begin a test from here on ask first.
                self._open = False
        if leaving:
            self._own.change(me, "", limit, out=True)

    def _read_state(self, deadline: Deadline) -> LockState:
        snapshot = self._own.read_state(deadline)
        with self._own.guard:
            self._queue = snapshot.queue
        return snapshot

    def _give_back(self, ticket: str, holder: str, state: LockState | None) -> bool:
        """Return a ticket, or leave that to `maintain`; False if it was no longer queued."""
        seconds = self._leases.availability.limit_cleanup(_REQUEST_TIMEOUT)
        limit = Deadline.after(seconds, self._clock)
        unsure = False
        while not limit.expired:
            try:
                snapshot = state or self._read_state(limit)
                rest = [
                    queued_ticket for queued_ticket in snapshot.queue if queued_ticket.id != ticket
                ]
                if len(rest) == len(snapshot.queue):
                    member = self._own.member
                    return unsure and member is not None and member.uid == holder
                self._leases.write(snapshot, rest, limit)
            except ClusterEnded:
                return True
            except (ApiError, DeadlineExceeded) as error:
                unsure |= not is_conflict(error)
                if state is None:
                    self._pause(
                        self._random.uniform(
                            0, CONFLICT_PAUSE if is_conflict(error) else _POLL_INTERVAL
                        )
                    )
                state = None
            else:
                with self._own.guard:
                    self._queue = tuple(rest)
                return True
        return True

    @property
    def _wanted(self) -> bool:
        return any(not queued_ticket.shared for queued_ticket in self._queue)

    @property
    def _needs_cleanup(self) -> bool:
        """Return whether the queue contains an unused ticket of ours."""
        member, kept_ticket = self._own.member, self._kept
        return member is not None and any(
            queued_ticket.member == member.uid and queued_ticket.id != kept_ticket
            for queued_ticket in self._queue
        )

    @property
    def _in_the_way(self) -> bool:
        """Return whether another process waits for us although we run no test."""
        member = self._own.member
        return self._hold is None and self._wanted and member is not None and not member.out

    @property
    def _kept(self) -> str | None:
        """The ticket of the current hold."""
        hold = self._hold
        return None if hold is None else hold.ticket

    def _pause(self, seconds: float, event: threading.Event | None = None) -> None:
        if seconds > 0:
            self._clock.wait(event or threading.Event(), seconds)


class LockRenewer:
    """A process's lock, with the threads that renew it and watch its queue.

    Args:
        client: used by this object alone.
        holder: the readable name of this process.
        duration: seconds after which this process has expired if it is not renewed.
        owner: name and UID of the run's Lease; None for none.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        holder: str,
        duration: float,
        owner: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._session = session = ApiSession.of(client)
        self._clock = session.clock
        self.lock = ClusterLock(LockLeases(session, namespace, holder, duration, owner))
        self._renewals = LeaseRenewer("kwait lock", self._maintain, self.lock.pace, self._clock)
        self._informer = SharedInformer(
            ListWatch(session, LEASES, namespace, label_selector=QUEUE_SELECTOR),
            # A failing watch delays other processes, but ends no test.
            on_error=lambda error: None,
            name="the queue of serial tests",
        )
        self._informer.add_event_handler(
            add=self._on_queue_event,
            update=lambda old, new: self._on_queue_event(new),
            delete=lambda obj: self._on_queue_event(None),
        )

    def start(self) -> None:
        """Start to watch and to renew."""
        self._informer.start()
        self._renewals.start()

    def end(self) -> str | None:
        """Stop and leave; return the error, None for none."""
        self._renewals.stop()
        self._informer.stop()
        self._renewals.join(_LEAVE_TIMEOUT)
        problem = None
        try:
            seconds = self._session.availability.limit_cleanup(_LEAVE_TIMEOUT)
            self.lock.leave(Deadline.after(seconds, self._clock))
        except ClusterEnded:
            pass
        except (ApiError, DeadlineExceeded) as error:
            problem = (
                f"a Lease of the lock {self.lock.place} stays, and holds serial tests up for "
                f"{self.lock.duration}s: {error}"
            )
        self._client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return problem

    def _on_queue_event(self, lock: Mapping[str, Any] | None) -> None:
        if self.lock.on_queue_change(read_queue(lock)):
            self._renewals.wake()

    def _maintain(self) -> None:
        # Without the right to watch, the queue is polled.
        self.lock.maintain(read_state=self._informer.permanent_error is not None)
