"""Whether the run behind a Lease lives: told by the Lease itself, and by nobody's clock alone.

Two ways to judge. At one look: its renewal is older than twice its own duration, by the server's
clock on both ends, since runs write the server's time. By watching: it has not changed for its
whole duration, measured by our own monotonic clock. The second needs no clock but ours, the first
no time; whoever has no time to watch leaves what only watching could decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    LABEL_MANAGED_BY,
    LABEL_RUN,
    MANAGED_BY,
    run_label_value,
    run_lease_name,
)
from pytest_kwait.suite.cleanup.provenance import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Liveness", "LivenessWatch", "RunLease", "read_run_lease"]

OVERDUE_FACTOR = 2.0
"""How many times its duration a renewal must be old to count as the last one at one look."""


class Liveness(Enum):
    """What is known of a run."""

    LIVES = "lives"
    """Its Lease was renewed while somebody watched."""

    UNDECIDED = "undecided"
    """Its Lease may be renewed yet."""

    DEAD = "dead"
    """Its Lease is not renewed any more."""

    ENDED = "ended"
    """It has said so."""


@dataclass(frozen=True, slots=True)
class RunLease:
    """The Lease of a run.

    Args:
        namespace: where it is.
        name: its name.
        uid: its identity.
        version: its resourceVersion.
        run: the id of the run.
        duration: seconds that it lasts after a renewal.
        renewed: when it was renewed last: seconds since the epoch, by the server's clock.
        ended: whether the run has said that it is over.
        kinds: what the run made outside of its namespaces: `plural.version.group`.
    """

    namespace: str
    name: str
    uid: str
    version: str
    run: str
    duration: float
    renewed: float
    ended: bool
    kinds: tuple[str, ...]

    @property
    def place(self) -> str:
        """Namespace and name, as the run's objects name it."""
        return f"{self.namespace}/{self.name}"

    def liveness_at(self, now: float | None) -> Liveness:
        """Judge without watching.

        Args:
            now: the server's time; None if it does not tell.
        """
        if self.ended:
            return Liveness.ENDED
        if now is not None and now - self.renewed > OVERDUE_FACTOR * self.duration:
            return Liveness.DEAD
        return Liveness.UNDECIDED


def read_run_lease(obj: Mapping[str, Any]) -> RunLease | None:
    """Return the Lease of a run; None for one of somebody else, whatever it calls itself.

    Args:
        obj: the Lease as the server has it.
    """
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    run, nonce = (
        str(notes.get(ANNOTATION_PREFIX + "run", "")),
        str(notes.get(ANNOTATION_PREFIX + "nonce", "")),
    )
    renewed, duration = parse_time(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    name = str(metadata.get("name"))
    if (
        not (run and nonce and isinstance(duration, int) and renewed is not None)
        or labels.get(LABEL_MANAGED_BY) != MANAGED_BY
        or labels.get(LABEL_RUN) != run_label_value(run)
        or name != run_lease_name(run, nonce)
    ):
        return None
    return RunLease(
        str(metadata.get("namespace")),
        name,
        str(metadata.get("uid")),
        str(metadata.get("resourceVersion")),
        run,
        float(duration),
        renewed,
        notes.get(ANNOTATION_PREFIX + "ended") == "true",
        tuple(filter(None, str(notes.get(ANNOTATION_PREFIX + "kinds", "")).split(","))),
    )


class LivenessWatch:
    """Judges Leases by watching whether they change.

    Args:
        leases: what is watched.
        started: seconds of the monotonic clock when they were read.
    """

    def __init__(self, leases: list[RunLease], started: float) -> None:
        self._first = {lease.place: lease for lease in leases}
        self._started = started
        self._lives: set[str] = set()

    @property
    def duration(self) -> float:
        """Seconds that must be watched at most."""
        return max((lease.duration for lease in self._first.values()), default=0.0)

    def look(self, leases: list[RunLease]) -> None:
        """Note which have changed since they were first read.

        Args:
            leases: those that are there now.
        """
        for lease in leases:
            first = self._first.get(lease.place)
            if first is not None and (first.uid, first.version) != (lease.uid, lease.version):
                self._lives.add(lease.place)

    def judge(self, lease: RunLease, now: float) -> Liveness:
        """Say what is known of a run.

        Args:
            lease: its Lease.
            now: seconds of the monotonic clock when all were last looked at.
        """
        if lease.place in self._lives:
            return Liveness.LIVES
        seen = now - self._started
        return Liveness.DEAD if seen >= lease.duration else Liveness.UNDECIDED

    def undecided(self, now: float) -> list[RunLease]:
        """Return those of which nothing is known yet.

        Args:
            now: seconds of the monotonic clock when all were last looked at.
        """
        return [
            lease for lease in self._first.values() if self.judge(lease, now) is Liveness.UNDECIDED
        ]
