"""The election record, and the interface of a resource lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_kwait.clock import Deadline

__all__ = ["LeaderElectionRecord", "ResourceLock"]


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
