"""What a janitor has found and done, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.clock import rfc3339
from pytest_kwait.suite.cleanup.belongings import CreatedObject
from pytest_kwait.suite.cleanup.liveness import Liveness, RunLease

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.suite.cleanup.provenance import Provenance

__all__ = ["Leftover", "RunFindings", "SweepResult"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object that a run has made.

    Args:
        resource: its kind.
        scope: the namespace that was looked at to find it; None for all.
        namespace: where it is; None for cluster-scoped kinds.
        name: its name.
        uid: its identity.
        terminating: whether it is being deleted already.
        blocked: what its status says keeps it, if it is a namespace.
        provenance: who made it.
    """

    resource: Resource
    scope: str | None
    namespace: str | None
    name: str
    uid: str
    terminating: bool
    blocked: str
    provenance: Provenance

    @classmethod
    def of(
        cls,
        resource: Resource,
        scope: str | None,
        obj: Mapping[str, Any],
        provenance: Provenance,
    ) -> Leftover:
        """Return what an object of the server is as a leftover."""
        metadata = obj["metadata"]
        conditions = (obj.get("status") or {}).get("conditions") or []
        blocked = [
            str(each.get("message"))
            for each in (conditions if resource == NAMESPACES else [])
            if each.get("status") == "True"
        ]
        finalizers = metadata.get("finalizers") or []
        if finalizers and not blocked:
            blocked = [f"finalizers {', '.join(map(str, finalizers))}"]
        return cls(
            resource,
            scope,
            metadata.get("namespace"),
            metadata["name"],
            metadata["uid"],
            bool(metadata.get("deletionTimestamp")),
            "; ".join(blocked),
            provenance,
        )

    @property
    def heartbeat(self) -> str:
        """Namespace/name of the Lease that says whether its run lives; empty for none."""
        return self.provenance.heartbeat

    @property
    def belonging(self) -> CreatedObject:
        """What it is to be deleted by."""
        return CreatedObject(self.resource, self.namespace, self.name, self.uid)

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.qualified}/{self.name}{where}"


@dataclass(frozen=True, slots=True)
class RunFindings:
    """What is known of one run.

    Args:
        lease: its Lease.
        life: the judgement.
        now: the server's time then; None if it did not tell.
    """

    lease: RunLease
    life: Liveness
    now: float | None

    def __str__(self) -> str:
        age = ""
        if self.now is not None:
            ago = format_duration(max(round(self.now - self.lease.renewed), 0))
            age = f" (renewed {ago} ago, lasts {format_duration(self.lease.duration)})"
        said = {
            Liveness.LIVES: f"lives{age}: left alone",
            Liveness.UNDECIDED: f"may live{age}: left alone",
            Liveness.DEAD: f"is dead{age}",
            Liveness.ENDED: "has ended",
        }
        return f"run {self.lease.run} (lease {self.lease.place}) {said[self.life]}"


@dataclass(slots=True)
class SweepResult:
    """What one sweep has found and done.

    Args:
        dry_run: whether nothing was changed.
    """

    dry_run: bool = False
    runs: list[RunFindings] = field(default_factory=list)
    """Every run that has a Lease."""
    going: list[Leftover] = field(default_factory=list)
    """What was asked to go."""
    kept: list[Leftover] = field(default_factory=list)
    """What was kept and has not expired, or names no Lease and has not."""
    staying: list[Leftover] = field(default_factory=list)
    """What was asked to go and was still there when the time was up."""
    problems: list[str] = field(default_factory=list)
    """What could not be looked at or deleted, each with its reason."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Leases that could not be read, with the reason: what names them stays."""
    leases: int = 0
    """How many Leases of runs were removed."""
    foreign: int = 0
    """How many objects have our label and are not ours."""

    def revived(self, place: str) -> None:
        """Note that a run showed life after it was judged."""
        self.runs = [
            RunFindings(each.lease, Liveness.LIVES, each.now) if each.lease.place == place else each
            for each in self.runs
        ]

    @property
    def is_clean(self) -> bool:
        """Whether everything that was to go is going, or gone where that was awaited."""
        return not (self.problems or self.staying)

    def summary(self) -> str:
        """Return what was done in one line; empty if there was nothing to do."""
        if not (self.going or self.leases or self.problems):
            return ""
        spaces = sum(each.resource == NAMESPACES for each in self.going)
        runs = {each.provenance.owner.run for each in self.going}
        parts = [
            _format_count(spaces, "namespace"),
            _format_count(len(self.going) - spaces, "other object"),
        ]
        if self.leases:
            parts.append(_format_count(self.leases, "Lease"))
        of = f" of {_format_count(len(runs), 'run')}" if runs else ""
        done = "would remove" if self.dry_run else "removed"
        line = f"{done} {' and '.join((', '.join(parts[:-1]), parts[-1]))}{of}"
        if self.problems:
            line += (
                f"; {_format_count(len(self.problems), 'problem')}, the first: {self.problems[0]}"
            )
        return line

    def lines(self) -> list[str]:
        """Return the whole report."""
        lines = [str(each) for each in self.runs]
        verb = "would delete" if self.dry_run else "deleted"
        for each in self.going:
            done = "is being deleted" if each.terminating else verb
            lines.append(f"{done} {each} ({each.provenance.owner.test})")
        for each in self.kept:
            until = rfc3339(each.provenance.expires)
            why = "kept" if each.provenance.kept else "of a run without a Lease"
            lines.append(f"left {each}: {why}, expires {until}")
        if self.foreign:
            what = "object that has" if self.foreign == 1 else "objects that have"
            lines.append(f"left {self.foreign} {what} our label and no seal that fits")
        lines += [
            f"left what names lease {place}, which could not be read: {why}"
            for place, why in sorted(self.unknown.items())
        ]
        for each in self.staying:
            why = each.blocked or "no reason is given"
            lines.append(f"{each} is still there: {why}")
        lines += self.problems
        lines.append(self.summary() or "nothing to remove")
        return lines


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
