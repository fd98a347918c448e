"""The requests that the lock of a cluster consists of, each of them one step that cannot be torn.

Reads are of the latest state (a list without a resourceVersion), and every write names the version
that it was decided on: what arrives late changes nothing.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from pytest_kwait.client.resource import LEASES
from pytest_kwait.clock import rfc3339_micro
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.lock.leases import (
    LABEL_LOCK,
    LOCK_NAME,
    LockState,
    Member,
    build_changed_member,
    build_lock_lease,
    build_member_lease,
    read_lock_state,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.suite.lock.leases import Ticket

__all__ = ["LockLeases"]

REQUEST_TIMEOUT = 5.0
"""Seconds that one request may take."""


class LockLeases:
    """Reads and writes the Leases of the lock for one process.

    Every call ends by its deadline and raises `ApiError` or `DeadlineExceeded` when it has failed;
    what it was to do may have been done all the same.

    Args:
        session: the requests.
        namespace: where the Leases are.
        who: whom people know this process by.
        duration: seconds that a member lasts unrenewed; rounded up.
        owner: name and UID of the Lease of the run; None for none.
    """

    def __init__(
        self,
        session: Session,
        namespace: str,
        who: str,
        duration: float,
        owner: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._owner = owner
        self.who = who
        self.duration = math.ceil(duration)
        self.place = f"{namespace}/{LOCK_NAME}"

    @property
    def clock(self) -> Clock:
        """The time of this process."""
        return self._session.clock

    def snapshot(self, deadline: Deadline) -> LockState:
        """Return everything there is now."""
        listed = self._session.list(
            LEASES, self._namespace, label_selector=LABEL_LOCK, deadline=self._soon(deadline)
        )
        return read_lock_state(item.object for item in listed.items)

    def join(self, test: str, deadline: Deadline, *, out: bool) -> Member:
        """Become a member, under a name that nobody has had before."""
        name = f"kwait-member-{os.urandom(5).hex()}"
        lease = build_member_lease(
            name, self.who, test, self.duration, self._now(), out=out, owner=self._owner
        )
        made = self._session.create(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        return self._member(made)

    def change(self, member: Member, test: str, deadline: Deadline, *, out: bool) -> Member:
        """Renew a member; refused unless it is as it was seen."""
        lease = build_changed_member(member, test, self._now(), out=out)
        made = self._session.replace(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        return self._member(made)

    def remove_member(self, member: Member, deadline: Deadline) -> None:
        """Remove a member if it is still as it was seen; one that has shown life stays."""
        self._delete(member.name, member.uid, member.version, deadline)

    def leave(self, member: Member, deadline: Deadline) -> None:
        """Remove a member whatever it has become."""
        self._delete(member.name, member.uid, None, deadline)

    def write(
        self,
        snapshot: LockState,
        queue: Sequence[Ticket],
        deadline: Deadline,
        *,
        held: bool = False,
    ) -> Mapping[str, Any] | None:
        """Change the queue; refused as a conflict unless it is as it was seen.

        Args:
            snapshot: what it was decided on.
            queue: who is to be in it.
            deadline: when the answer must be here.
            held: whether the first in the queue is in.

        Returns:
            the Lease as it is then; None for an empty queue.
        """
        lock = snapshot.lock
        if queue:
            lease = build_lock_lease(lock, queue, self._now(), held=held)
            call = self._session.create if lock is None else self._session.replace
            return call(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        if lock is not None:
            found = lock["metadata"]
            self._session.delete(
                LEASES,
                LOCK_NAME,
                self._namespace,
                uid=found["uid"],
                resource_version=found["resourceVersion"],
                deadline=self._soon(deadline),
            )
        return None

    def _delete(self, name: str, uid: str, version: str | None, deadline: Deadline) -> None:
        try:
            self._session.delete(
                LEASES,
                name,
                self._namespace,
                uid=uid,
                resource_version=version,
                deadline=self._soon(deadline),
            )
        except ApiError as error:
            # Gone already, or not as it was seen.
            if error.status not in (404, 409):
                raise

    def _member(self, lease: Mapping[str, Any]) -> Member:
        (member,) = read_lock_state([lease]).members.values()
        return member

    def _soon(self, deadline: Deadline) -> Deadline:
        return deadline.at_most(REQUEST_TIMEOUT)

    def _now(self) -> str:
        return rfc3339_micro(self.clock.time())
