"""A process' own place among the members of a lock, and what it has seen of the others."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.lock.leases import LockState, Member
    from pytest_kwait.suite.lock.lock_ledger import LockLeases

__all__ = ["CONFLICT_PAUSE", "RENEWALS_PER_DURATION", "Hold", "LockMember", "is_conflict"]

RENEWALS_PER_DURATION = 3
"""How often a member is renewed within the time that it lasts."""

CONFLICT_PAUSE = 0.02
"""Seconds after which who was second looks again, at most."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What this process holds the lock for.

    Args:
        test: what for.
        member: the UID of the member that it holds it as.
        ticket: what is to be given back; None for shared.
    """

    test: str
    member: str
    ticket: str | None


class LockMember:
    """The Lease that says that a process takes part: written at the version last seen, or not.

    Who writes holds the pen; who reads needs nothing.

    Args:
        ledger: the requests.
    """

    def __init__(self, ledger: LockLeases) -> None:
        self._ledger = ledger
        self._clock = ledger.clock
        self.pace = ledger.duration / RENEWALS_PER_DURATION
        """Seconds between two renewals."""
        self.guard = threading.Lock()
        """Held for a few steps that must not be torn, never while somebody is asked."""
        self.member: Member | None = None
        """As it was last seen or written; None if this process takes no part."""
        # Tried, not waited for, since that would be a wait that knows no clock.
        self._write_lock = threading.Lock()
        self._uncertain: str | None = None
        self._valid_until = self._renew_at = 0.0
        self._observed: dict[str, tuple[str, float]] = {}

    @property
    def valid(self) -> bool:
        """Whether nobody can have removed it: as long as it lasts since the last renewal."""
        return self.member is not None and self._clock.monotonic() < self._valid_until

    @property
    def due(self) -> bool:
        """Whether it must be renewed, or an earlier write whose answer was lost be overtaken."""
        member = self.member
        doubtful = member is not None and member.version == self._uncertain
        return doubtful or self._clock.monotonic() >= self._renew_at

    def look(self, deadline: Deadline) -> LockState:
        """Return what there is; note what of it is ours and since when the rest is as it is."""
        snapshot = self._ledger.snapshot(deadline)
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
        """Begin to take part."""
        begun = self._clock.monotonic()
        self._written(self._ledger.join(test, deadline, out=out), begun)

    def change(self, member: Member, test: str, deadline: Deadline, *, out: bool) -> None:
        """Renew our Lease as it was seen."""
        # Until the answer is here it may have been done, or be done later.
        self._uncertain = member.version
        begun = self._clock.monotonic()
        self._written(self._ledger.change(member, test, deadline, out=out), begun)

    def leave(self, deadline: Deadline) -> None:
        """Take part no more."""
        member, self.member = self.member, None
        if member is not None:
            self._ledger.leave(member, deadline)

    def has_expired(self, member: Member) -> bool:
        """Whether somebody has been seen unchanged for as long as that lasts."""
        _, since = self._observed[member.uid]
        return self._clock.monotonic() - since >= member.duration

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the pen, once whoever has it has had its answer."""
        while not self.acquire_write_lock():
            self._clock.wait(threading.Event(), CONFLICT_PAUSE)
        try:
            yield
        finally:
            self.release_write_lock()

    def acquire_write_lock(self) -> bool:
        """Take the pen if nobody has it."""
        return self._write_lock.acquire(blocking=False)

    def release_write_lock(self) -> None:
        """Give the pen back."""
        self._write_lock.release()

    def _written(self, member: Member, begun: float) -> None:
        with self.guard:
            self.member, self._uncertain = member, None
            # It lasts at least from before it was sent.
            self._valid_until = begun + self._ledger.duration
            self._renew_at = begun + self.pace


def is_conflict(error: Exception) -> bool:
    """Whether it is certain that nothing was done, because what is there is not what was seen."""
    return isinstance(error, ApiError) and error.status in (404, 409)
