"""The Leases of the cluster lock: one with the queue, one for each member.

The functions convert between Leases and records; a Lease that cannot be parsed counts as
absent. `LockLeases` sends the requests. Reads are of the latest state (a list without a
resourceVersion), and every write names the version that it was decided on, so a late write
changes nothing.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_micro_time
from pytest_kwait.client.resource import LEASES
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_MANAGED_BY, MANAGED_BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.client.availability import Availability
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Clock, Deadline

LABEL_LOCK = ANNOTATION_PREFIX + "lock"
"""The label of the lock's Leases: `queue` or `member`."""

LOCK_NAME = "kwait-serial"
"""The name of the queue's Lease, which exists while the queue is not empty."""

_QUEUE, _MEMBER = "queue", "member"

QUEUE_SELECTOR = f"{LABEL_LOCK}={_QUEUE}"
"""The label selector of the queue."""
REQUEST_TIMEOUT = 5.0
"""Seconds for one request."""

_MAX_TEXT_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Ticket:
    """One place in the queue.

    Args:
        id: its unique id.
        member: the UID of its holder's Lease, without which it is void.
        name: the name of that Lease.
        holder: the readable name of the holder.
        shared: whether other shared tickets may hold the lock at the same time.
    """

    id: str
    member: str
    name: str
    holder: str
    test: str
    shared: bool

    def __str__(self) -> str:
        return f"{self.holder}: {self.test}" if self.test else self.holder


@dataclass(frozen=True, slots=True)
class Member:
    """One participating process.

    Args:
        name: the name of its Lease.
        uid: the UID of its Lease.
        version: its resourceVersion: it is alive while that changes.
        duration: seconds after which it has expired if it is unchanged.
        out: whether it runs no test on the cluster and asks before the next; otherwise it
            may run one at any time.
        holder: its readable name.
        test: its test at the last renewal; may be empty.
        lease: the whole object.
    """

    name: str
    uid: str
    version: str
    duration: float
    out: bool
    holder: str
    test: str
    lease: Mapping[str, Any] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.holder}: {self.test}" if self.test else self.holder


@dataclass(frozen=True, slots=True)
class LockState:
    """The state of the lock at one moment.

    Args:
        lock: the Lease of the queue; None for an empty queue.
        queue: the tickets in order.
        members: the members by UID.
    """

    lock: Mapping[str, Any] | None
    queue: tuple[Ticket, ...]
    members: Mapping[str, Member]

    @property
    def held(self) -> bool:
        """Return whether the first ticket of the queue holds the lock."""
        return bool(((self.lock or {}).get("spec") or {}).get("holderIdentity"))

    def blocked_by(self, ahead: Sequence[Ticket], members: Sequence[Member]) -> str:
        """Return the message about the holders of the lock or earlier tickets.

        Args:
            ahead: the earlier tickets.
            members: the members that are in, if there are no earlier tickets.
        """
        if ahead:
            more = f" ({len(ahead) - 1} more in the queue)" if len(ahead) > 1 else ""
            return f"{'held' if self.held else 'awaited'} by {ahead[0]}{more}"
        names = ", ".join(str(member) for member in members[:3])
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        return f"shared by {names}{more}"


def read_lock_state(objects: Iterable[Mapping[str, Any]]) -> LockState:
    """Return the state of the lock from its Leases.

    Args:
        objects: all Leases of the lock, from one list.
    """
    lock: Mapping[str, Any] | None = None
    members: dict[str, Member] = {}
    for obj in objects:
        metadata = obj.get("metadata") or {}
        kind = (metadata.get("labels") or {}).get(LABEL_LOCK)
        if kind == _QUEUE and metadata.get("name") == LOCK_NAME:
            lock = obj
        elif kind == _MEMBER:
            member = _read_member(obj)
            members[member.uid] = member
    return LockState(lock, read_queue(lock), members)


def read_queue(lock: Mapping[str, Any] | None) -> tuple[Ticket, ...]:
    """Return the tickets of a Lease; invalid ones are skipped."""
    notes = ((lock or {}).get("metadata") or {}).get("annotations") or {}
    try:
        places = json.loads(notes.get(ANNOTATION_PREFIX + "queue") or "[]")
    except ValueError:
        return ()
    queue = []
    for place in places if isinstance(places, list) else []:
        try:
            ticket = Ticket(**place)
        except TypeError:
            continue
        queue.append(ticket)
    return tuple(queue)


def build_lock_lease(
    lock: Mapping[str, Any] | None, queue: Sequence[Ticket], now: str, *, held: bool
) -> dict[str, Any]:
    """Return the Lease of a queue that is not empty.

    Its owners are the members in the queue: the garbage collector deletes it after them.

    Args:
        lock: the present Lease; None for none.
        now: the time, for readers.
        held: whether the first ticket holds the lock.
    """
    metadata = (lock or {}).get("metadata") or {}
    if held:
        spec: Mapping[str, Any] = {"holderIdentity": str(queue[0]), "acquireTime": now}
    else:
        # A process behind the holder does not change that.
        spec = (lock or {}).get("spec") or {} if read_queue(lock)[:1] == (queue[0],) else {}
    owners = {ticket.member: ticket.name for ticket in queue}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            **({"resourceVersion": metadata["resourceVersion"]} if lock else {}),
            "name": LOCK_NAME,
            "labels": {LABEL_MANAGED_BY: MANAGED_BY, LABEL_LOCK: _QUEUE},
            "annotations": {
                ANNOTATION_PREFIX + "queue": json.dumps([asdict(ticket) for ticket in queue])
            },
            "ownerReferences": [build_owner_reference(name, uid) for uid, name in owners.items()],
        },
        "spec": spec,
    }


def build_member_lease(
    name: str,
    holder: str,
    test: str,
    duration: int,
    now: str,
    *,
    out: bool,
    owner: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return the Lease of a new member.

    Args:
        holder: its readable name.
        duration: seconds after which it has expired if it is unchanged.
        now: the time, for readers.
        out: see `Member`.
        owner: name and UID of its run's Lease, its owner; None for none.
    """
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "name": name,
            "labels": {LABEL_MANAGED_BY: MANAGED_BY, LABEL_LOCK: _MEMBER},
            "annotations": _member_annotations(test, out),
            **({"ownerReferences": [build_owner_reference(**owner)]} if owner else {}),
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": now,
            "renewTime": now,
        },
    }


def build_changed_member(member: Member, test: str, now: str, *, out: bool) -> dict[str, Any]:
    """Return the Lease of a member with another state, at the version read.

    Args:
        member: as it was read.
        test: empty for none.
        now: the time, for readers.
        out: see `Member`.
    """
    metadata = dict(member.lease["metadata"])
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        **_member_annotations(test, out),
    }
    spec = {**(member.lease.get("spec") or {}), "renewTime": now}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": metadata,
        "spec": spec,
    }


def build_owner_reference(name: str, uid: str) -> dict[str, str]:
    """Return an owner reference to a Lease."""
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "name": name, "uid": uid}


def _read_member(obj: Mapping[str, Any]) -> Member:
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    notes = metadata.get("annotations") or {}
    duration = spec.get("leaseDurationSeconds")
    return Member(
        str(metadata.get("name")),
        str(metadata.get("uid")),
        str(metadata.get("resourceVersion")),
        float(duration) if isinstance(duration, int) else 0.0,
        notes.get(ANNOTATION_PREFIX + "out") == "true",
        str(spec.get("holderIdentity") or metadata.get("name")),
        str(notes.get(ANNOTATION_PREFIX + "test") or ""),
        obj,
    )


def _member_annotations(test: str, out: bool) -> dict[str, str]:
    return {
        ANNOTATION_PREFIX + "out": "true" if out else "false",
        ANNOTATION_PREFIX + "test": shorten_text(test),
    }


def shorten_text(text: str) -> str:
    """Return a text cut to fit into a long queue."""
    return text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 3] + "..."


class LockLeases:
    """Reads and writes the Leases of the lock for one process.

    A call ends by its deadline and raises `ApiError` or `DeadlineExceeded`; the change may have
    been made nevertheless.

    Args:
        holder: the readable name of this process.
        duration: seconds after which an unrenewed member has expired; rounded up.
        owner: name and UID of the run's Lease; None for none.
    """

    def __init__(
        self,
        session: ApiSession,
        namespace: str,
        holder: str,
        duration: float,
        owner: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._owner = owner
        self.holder = holder
        self.duration = math.ceil(duration)
        self.place = f"{namespace}/{LOCK_NAME}"

    @property
    def availability(self) -> Availability:
        """The availability of the server."""
        return self._session.availability

    @property
    def clock(self) -> Clock:
        """The clock of this process."""
        return self._session.clock

    def snapshot(self, deadline: Deadline) -> LockState:
        """Return the present state."""
        listed = self._session.list(
            LEASES, self._namespace, label_selector=LABEL_LOCK, deadline=self._soon(deadline)
        )
        return read_lock_state(item.object for item in listed.items)

    def join(self, test: str, deadline: Deadline, *, out: bool) -> Member:
        """Create a member with a new name."""
        name = f"kwait-member-{os.urandom(5).hex()}"
        lease = build_member_lease(
            name, self.holder, test, self.duration, self._now(), out=out, owner=self._owner
        )
        made = self._session.create(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        return self._member(made)

    def change(self, member: Member, test: str, deadline: Deadline, *, out: bool) -> Member:
        """Renew a member; refused unless it is unchanged."""
        lease = build_changed_member(member, test, self._now(), out=out)
        made = self._session.replace(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        return self._member(made)

    def remove_member(self, member: Member, deadline: Deadline) -> None:
        """Delete a member if it is unchanged."""
        self._delete(member.name, member.uid, member.version, deadline)

    def leave(self, member: Member, deadline: Deadline) -> None:
        """Delete a member in any state."""
        self._delete(member.name, member.uid, None, deadline)

    def write(
        self,
        snapshot: LockState,
        queue: Sequence[Ticket],
        deadline: Deadline,
        *,
        held: bool = False,
    ) -> Mapping[str, Any] | None:
        """Change the queue and return its Lease, if any; a conflict unless it is unchanged."""
        lock = snapshot.lock
        if queue:
            lease = build_lock_lease(lock, queue, self._now(), held=held)
            call = self._session.create if lock is None else self._session.replace
            return call(LEASES, lease, self._namespace, deadline=self._soon(deadline))
        if lock is not None:
            metadata = lock["metadata"]
            self._session.delete(
                LEASES,
                LOCK_NAME,
                self._namespace,
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
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
            # Gone already, or changed.
            if error.status not in (404, 409):
                raise

    def _member(self, lease: Mapping[str, Any]) -> Member:
        (member,) = read_lock_state([lease]).members.values()
        return member

    def _soon(self, deadline: Deadline) -> Deadline:
        return deadline.at_most(REQUEST_TIMEOUT)

    def _now(self) -> str:
        return format_micro_time(self.clock.time())
