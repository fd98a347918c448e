"""The janitor: find and remove objects of dead runs, and kept objects that have expired.

It lists all namespaces and all Leases with our label, then the kinds that the Leases of
dead runs name, each once. An object is deleted only if its labels, annotations and seal
match and the Lease that it names is dead or gone; it is deleted by UID, so an object that
has replaced it stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_duration, format_time, parse_time_or_none
from pytest_kwait.client.resource import LEASES, NAMESPACES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.suite.cleanup.changed_objects import (
    LABEL_CHANGED,
    UndoRecord,
    read_undo_records,
    restore_object,
)
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    ENVIRONMENTS_RUN,
    LABEL_MANAGED_BY,
    LABEL_RUN,
    MANAGED_BY,
    CreatedObject,
    CreatedObjects,
    delete_by_uid,
    kept_annotations,
    read_provenance,
    run_label_value,
)
from pytest_kwait.suite.cleanup.run_lease import (
    LEASE_NAMESPACE,
    Liveness,
    LivenessWatch,
    RunLease,
    format_kind,
    is_run_alive,
    read_run_lease,
    read_server_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.cleanup.owned_objects import Provenance

_POLL_INTERVAL = 2.0
"""Seconds between two requests while Leases or deletions are watched."""

_STUCK_SECONDS = 120.0
"""Seconds after which a deletion that is not complete is reported."""

_FIRST_DELETED_GROUPS = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})
"""Groups whose objects can block the deletion of others."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object created by a run.

    Args:
        scope: the namespace that was listed; None for all.
        namespace: None for cluster-scoped kinds.
        terminating: when its deletion was requested, in seconds since the epoch; None if not.
        blocked: for a namespace: what its status says blocks its deletion.
        provenance: its owner and state.
    """

    resource: Resource
    scope: str | None
    namespace: str | None
    name: str
    uid: str
    terminating: float | None
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
        """Return an object of the server as a leftover."""
        metadata = obj["metadata"]
        conditions = (obj.get("status") or {}).get("conditions") or []
        blocked = [
            str(condition.get("message"))
            for condition in (conditions if resource == NAMESPACES else [])
            if condition.get("status") == "True"
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
            parse_time_or_none(metadata.get("deletionTimestamp")),
            "; ".join(blocked),
            provenance,
        )

    @property
    def heartbeat(self) -> str:
        """Namespace/name of its run's Lease; empty for none."""
        return self.provenance.heartbeat

    @property
    def belonging(self) -> CreatedObject:
        """Its identity for deletion."""
        return CreatedObject(self.resource, self.namespace, self.name, self.uid)

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.qualified}/{self.name}{where}"


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """An object of the cluster that a test of a run changed.

    Args:
        record: what it had before.
    """

    resource: Resource
    name: str
    record: UndoRecord

    def __str__(self) -> str:
        return f"{self.resource.qualified}/{self.name}"


@dataclass(frozen=True, slots=True)
class RunFindings:
    """The Lease and liveness of one run.

    Args:
        now: the server's time of the decision; None if unknown.
    """

    lease: RunLease
    life: Liveness
    now: float | None

    def __str__(self) -> str:
        age = ""
        if self.lease.environment:
            until = f"stays until {format_time(self.lease.expires)}: left alone"
            is_used = self.life is Liveness.UNDECIDED
            fate = "is used by a run: left alone" if is_used else until
            if self.life is Liveness.ENDED:
                fate = f"ends: it was to stay until {format_time(self.lease.expires)}"
            return f"environment {self.lease.environment} (lease {self.lease.place}) {fate}"
        if self.now is not None:
            ago = format_duration(max(round(self.now - self.lease.renewed), 0))
            age = f" (renewed {ago} ago, lasts {format_duration(self.lease.duration)})"
        descriptions = {
            Liveness.ALIVE: f"lives{age}: left alone",
            Liveness.UNDECIDED: f"may live{age}: left alone",
            Liveness.DEAD: f"is dead{age}",
            Liveness.ENDED: "has ended",
        }
        return f"run {self.lease.run} (lease {self.lease.place}) {descriptions[self.life]}"


@dataclass(slots=True)
class SweepResult:
    """The findings and actions of one sweep.

    Args:
        dry_run: whether nothing was changed.
    """

    dry_run: bool = False
    runs: list[RunFindings] = field(default_factory=list)
    """Every run that has a Lease."""
    going: list[Leftover] = field(default_factory=list)
    """Leftovers whose deletion was requested."""
    kept: list[Leftover] = field(default_factory=list)
    """Kept leftovers that have not expired, and leftovers without a Lease that have not."""
    staying: list[Leftover] = field(default_factory=list)
    """Leftovers whose deletion was not complete at the time limit."""
    stuck: list[str] = field(default_factory=list)
    """Leftovers whose deletion was requested minutes ago, each with what holds it."""
    problems: list[str] = field(default_factory=list)
    """Failed reads and deletions, each with its reason."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Leases that could not be read, with the reason; leftovers that name them stay."""
    unlisted: set[str] = field(default_factory=set)
    """Kinds that may not be listed; Leases that name them stay."""
    restored: list[ChangedObject] = field(default_factory=list)
    """Objects of the cluster that tests changed, and that were restored."""
    leases: int = 0
    """The number of removed Leases of runs."""
    foreign: int = 0
    """The number of objects with our label that no run owns."""

    def revived(self, place: str) -> None:
        """Record that a run showed life after it was taken for dead."""
        self.runs = [
            RunFindings(run_findings.lease, Liveness.ALIVE, run_findings.now)
            if run_findings.lease.place == place
            else run_findings
            for run_findings in self.runs
        ]

    @property
    def is_clean(self) -> bool:
        """Return whether all leftovers are being deleted, or, after a wait, are gone."""
        return not (self.problems or self.staying)

    def summary(self) -> str:
        """Return a summary in one line; empty if there was nothing to do."""
        removed = [leftover for leftover in self.going if leftover.terminating is None]
        if not (removed or self.leases or self.problems or self.restored):
            return ""
        spaces = sum(leftover.resource == NAMESPACES for leftover in removed)
        owners = {leftover.provenance.owner for leftover in removed}
        runs = {owner.run for owner in owners} - {ENVIRONMENTS_RUN}
        environments = {owner.test for owner in owners if owner.run == ENVIRONMENTS_RUN}
        counts = ((runs, "run"), (environments, "environment"))
        counted = [_format_count(len(group), noun) for group, noun in counts if group]
        parts = [
            _format_count(spaces, "namespace"),
            _format_count(len(removed) - spaces, "other object"),
        ]
        if self.leases:
            parts.append(_format_count(self.leases, "Lease"))
        of = f" of {' and '.join(counted)}" if counted else ""
        done = "would remove" if self.dry_run else "removed"
        line = f"{done} {' and '.join((', '.join(parts[:-1]), parts[-1]))}{of}"
        if self.restored:
            verb = "would restore" if self.dry_run else "restored"
            line += f", {verb} {_format_count(len(self.restored), 'changed object')}"
        if self.problems:
            line += (
                f"; {_format_count(len(self.problems), 'problem')}, the first: {self.problems[0]}"
            )
        return line

    def lines(self) -> list[str]:
        """Return the whole report."""
        lines = [str(run) for run in self.runs]
        verb = "would delete" if self.dry_run else "deleted"
        for leftover in self.going:
            done = verb if leftover.terminating is None else "is being deleted"
            lines.append(f"{done} {leftover} ({leftover.provenance.owner.test})")
        verb = "would restore" if self.dry_run else "restored"
        lines += [
            f"{verb} {changed_object} ({changed_object.record.test})"
            for changed_object in self.restored
        ]
        for leftover in self.kept:
            until = format_time(leftover.provenance.expires)
            why = "kept" if leftover.provenance.kept else "of a run without a Lease"
            lines.append(f"left {leftover}: {why}, expires {until}")
        if self.foreign:
            noun = "object that has" if self.foreign == 1 else "objects that have"
            lines.append(f"left {self.foreign} {noun} our label and no seal that fits")
        lines += [
            f"left what names lease {place}, which could not be read: {why}"
            for place, why in sorted(self.unknown.items())
        ]
        for leftover in self.staying:
            why = leftover.blocked or "no reason is given"
            lines.append(f"{leftover} is still there: {why}")
        lines += self.stuck
        lines += self.problems
        lines.append(self.summary() or "nothing to remove")
        return lines


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Scanner:
    """Finds objects with our label, and ignores those whose provenance does not match.

    Args:
        namespace: the namespace of Leases if not all can be listed.
        run: the id of a single run; None for all.
    """

    def __init__(self, client: ApiClient, namespace: str, run: str | None) -> None:
        self._session = ApiSession.of(client)
        self._namespace = namespace
        self._run = run
        self._selector = LABEL_RUN if run is None else f"{LABEL_RUN}={run_label_value(run)}"
        self._lease_scope: str | None = None
        self.now: float | None = None
        """The server's time at its last answer; None if it does not tell."""

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        sweep: SweepResult | None,
        deadline: Deadline,
    ) -> list[Leftover]:
        """Return the runs' objects of a kind, in all namespaces if that is allowed."""
        scopes = [None, namespace] if resource.namespaced and namespace else [None]
        for scope in scopes:
            try:
                objects = self._list(resource, scope, self._selector, deadline)
            except ApiError as error:
                if error.status not in (403, 404, 405):
                    raise
                if scope == scopes[-1] and sweep is not None and error.status == 403:
                    sweep.unlisted.add(format_kind(resource))
                    sweep.problems.append(f"{resource.qualified} cannot be looked at: {error}")
                continue
            return self._ours(resource, scope, objects, sweep)
        return []

    def find_changed(self, resource: Resource, deadline: Deadline) -> list[ChangedObject]:
        """Return the runs' changes of objects of a kind of the cluster, one for each record."""
        try:
            objects = self._list(resource, None, LABEL_CHANGED, deadline)
        except ApiError as error:
            if error.status not in (403, 404, 405):
                raise
            # `find` reports that a kind cannot be listed.
            return []
        return [
            ChangedObject(resource, str(obj["metadata"]["name"]), record)
            for obj in objects
            for record in read_undo_records(obj)
            if self._run in (None, record.run)
        ]

    def leases(self, deadline: Deadline) -> list[RunLease]:
        """Return the Leases of runs; those of one namespace if not all can be listed."""
        selector = f"{self._selector},{LABEL_MANAGED_BY}={MANAGED_BY}"
        try:
            objects = self._list(LEASES, self._lease_scope, selector, deadline)
        except ApiError as error:
            if error.status != 403 or self._lease_scope is not None:
                raise
            self._lease_scope = self._namespace
            objects = self._list(LEASES, self._lease_scope, selector, deadline)
        return [lease for lease in map(read_run_lease, objects) if lease is not None]

    def look_up(
        self, place: str, leases: dict[str, RunLease], sweep: SweepResult, deadline: Deadline
    ) -> None:
        """Read one Lease that was not listed."""
        namespace, _, name = place.partition("/")
        try:
            obj = request_with_retry(
                lambda deadline: self._session.get(LEASES, name, namespace, deadline=deadline),
                deadline,
            )
        except (ApiError, InvalidArgument) as error:
            if isinstance(error, ApiError) and error.status == 404:
                return
            sweep.unknown[place] = str(error)
            return
        lease = read_run_lease(obj)
        if lease is None:
            sweep.unknown[place] = "it is not the Lease of a run"
        else:
            leases[place] = lease

    def resolve(self, kind: str, sweep: SweepResult, deadline: Deadline) -> Resource | None:
        """Return the kind of a name in a Lease; None if no longer served."""
        try:
            return request_with_retry(
                lambda deadline: self._session.resolve(kind, deadline=deadline), deadline
            )
        except InvalidArgument:
            # The kind is gone, and all objects with it.
            return None

    def _ours(
        self,
        resource: Resource,
        scope: str | None,
        objects: list[dict[str, Any]],
        sweep: SweepResult | None,
    ) -> list[Leftover]:
        leftovers = []
        for obj in objects:
            if obj["metadata"].get("ownerReferences"):
                # A dependent: its owner passed on the label, and its deletion deletes it.
                continue
            provenance = read_provenance(resource, obj)
            if provenance is not None:
                leftovers.append(Leftover.of(resource, scope, obj, provenance))
            elif sweep is not None and not (resource == LEASES and read_run_lease(obj)):
                sweep.foreign += 1
        return leftovers

    def _list(
        self, resource: Resource, namespace: str | None, selector: str, deadline: Deadline
    ) -> list[dict[str, Any]]:
        path = resource.path(namespace)
        answer = request_with_retry(
            lambda deadline: self._session.request(
                "GET", path, query={"labelSelector": selector}, deadline=deadline
            ),
            deadline,
        )
        server_time = read_server_time(answer.headers)
        if server_time is not None:
            self.now = server_time
        items: list[dict[str, Any]] = decode_object(answer.data).get("items") or []
        return items


class Janitor:
    """Finds leftovers of runs, decides which runs are dead, and deletes theirs.

    Args:
        namespace: the namespace of Leases if not all can be listed.
        run: the id of a single run; None for all.
        dry_run: whether to change nothing.
        kept: whether to delete kept objects of dead runs before they expire.
        environments: whether to delete environments that no run uses before they expire.
        report: called with progress messages.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str = LEASE_NAMESPACE,
        run: str | None = None,
        dry_run: bool = False,
        kept: bool = False,
        environments: bool = False,
        report: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._session = ApiSession.of(client)
        self._namespace = namespace
        self._scan = Scanner(client, namespace, run)
        self._dry_run = dry_run
        self._kept = kept
        self._environments = environments
        self._report = report

    def sweep(
        self, deadline: Deadline, *, watch: bool = False, all_kinds: bool = False
    ) -> SweepResult:
        """Find leftovers and request their deletion.

        Args:
            watch: whether to watch Leases that cannot be decided at once.
            all_kinds: whether to list every kind of the server, not only those named by Leases
                of dead runs.

        Raises:
            ApiError: neither namespaces nor Leases can be listed, or the server does not
                answer.
            DeadlineExceeded: no answer in time.
        """
        sweep = SweepResult(dry_run=self._dry_run)
        # Namespaces first: each of them is newer than its Lease.
        leftovers = self._scan.find(NAMESPACES, None, sweep, deadline)
        leases = {lease.place: lease for lease in self._scan.leases(deadline)}
        for place in {leftover.heartbeat for leftover in leftovers if leftover.heartbeat} - set(
            leases
        ):
            self._scan.look_up(place, leases, sweep, deadline)
        liveness = self._decide(leases, sweep, watch, deadline)
        scanned = frozenset(leases)
        looked_up = {leftover.heartbeat for leftover in leftovers} | scanned
        changed: list[ChangedObject] = []
        for resource, namespace in self._places(leases, liveness, all_kinds, sweep, deadline):
            for leftover in self._scan.find(resource, namespace, sweep, deadline):
                leftovers.append(leftover)
                place = leftover.heartbeat
                if place and place not in looked_up:
                    # Its run may have started after the Leases were read.
                    looked_up.add(place)
                    self._scan.look_up(place, leases, sweep, deadline)
                    if place in leases:
                        liveness[place] = leases[place].liveness_at(self._scan.now)
            if not resource.namespaced:
                changed += self._scan.find_changed(resource, deadline)
        for place in (
            {changed_object.record.heartbeat for changed_object in changed} - looked_up - {""}
        ):
            self._scan.look_up(place, leases, sweep, deadline)
            if place in leases:
                liveness[place] = leases[place].liveness_at(self._scan.now)
        if all_kinds:
            scanned = frozenset(leases)
        self._remove(leftovers, changed, leases, liveness, scanned, sweep, deadline)
        return sweep

    def sweep_own(
        self, place: str, kinds: Iterable[str], deadline: Deadline, *, keep: bool = False
    ) -> SweepResult:
        """Remove the leftovers of a run that has ended, except its Lease.

        Args:
            place: namespace/name of its Lease.
            kinds: the kinds recorded there.
            keep: whether to keep them, annotated with their expiry.

        Raises:
            ApiError: namespaces cannot be listed, or the server does not answer.
            DeadlineExceeded: no answer in time.
        """
        sweep = SweepResult(dry_run=self._dry_run)
        leftovers = self._scan.find(NAMESPACES, None, sweep, deadline)
        changed: list[ChangedObject] = []
        scope = place.partition("/")[0]
        for kind in kinds:
            resource = self._scan.resolve(kind, sweep, deadline)
            if resource is not None:
                leftovers += self._scan.find(resource, scope, sweep, deadline)
                if not resource.namespaced:
                    changed += self._scan.find_changed(resource, deadline)
        own = [leftover for leftover in leftovers if leftover.heartbeat == place]
        own_changes = [
            changed_object for changed_object in changed if changed_object.record.heartbeat == place
        ]
        if keep:
            # What was changed belongs to others.
            self._restore(own_changes, sweep, deadline)
            self._keep(own, sweep, deadline)
            return sweep
        liveness = {place: Liveness.ENDED}
        self._remove(own, own_changes, {}, liveness, frozenset(), sweep, deadline)
        return sweep

    def wait(self, sweep: SweepResult, deadline: Deadline) -> None:
        """Wait until deleted leftovers are gone; records those that remain with reasons."""
        going = list(sweep.going)
        while going:
            staying = []
            for resource, namespace in dict.fromkeys(
                (leftover.resource, leftover.scope) for leftover in going
            ):
                there = {
                    leftover.uid: leftover
                    for leftover in self._scan.find(resource, namespace, None, deadline)
                }
                staying += [
                    there[leftover.uid]
                    for leftover in going
                    if (leftover.resource, leftover.scope) == (resource, namespace)
                    and leftover.uid in there
                ]
            going = staying
            if not going or deadline.remaining <= _POLL_INTERVAL:
                break
            deadline.clock.sleep(_POLL_INTERVAL / 4)
        sweep.staying = going

    def _decide(
        self, leases: dict[str, RunLease], sweep: SweepResult, watch: bool, deadline: Deadline
    ) -> dict[str, Liveness]:
        liveness = {place: lease.liveness_at(self._scan.now) for place, lease in leases.items()}
        open_ones = [
            leases[place] for place, life in liveness.items() if life is Liveness.UNDECIDED
        ]
        if watch and open_ones:
            clock = deadline.clock
            watchman = LivenessWatch(open_ones, clock.monotonic())
            limit = deadline.at_most(watchman.duration + _POLL_INTERVAL)
            watched = "1 Lease" if len(open_ones) == 1 else f"{len(open_ones)} Leases"
            self._report(
                f"watching {watched} for up to {watchman.duration:g}s: "
                "those of runs that live change"
            )
            pause = min(_POLL_INTERVAL, watchman.duration / 4)
            now = clock.monotonic()
            while watchman.undecided(now) and limit.remaining > pause:
                clock.sleep(pause)
                # The time of the request counts: later changes are not seen.
                now = clock.monotonic()
                watchman.observe(self._scan.leases(deadline))
            liveness |= {lease.place: watchman.decide(lease, now) for lease in open_ones}
        living = {
            leases[place].run
            for place, life in liveness.items()
            if life in (Liveness.ALIVE, Liveness.UNDECIDED)
        }
        for place, lease in leases.items():
            if lease.shared and lease.run in living:
                # Other shards of the run may use its objects.
                liveness[place] = Liveness.ALIVE
            elif lease.environment:
                liveness[place] = self._decide_environment(lease, liveness, deadline)
        sweep.runs = [
            RunFindings(leases[place], life, self._scan.now) for place, life in liveness.items()
        ]
        return liveness

    def _decide_environment(
        self, lease: RunLease, liveness: Mapping[str, Liveness], deadline: Deadline
    ) -> Liveness:
        """Return `ENDED` for one to remove, `UNDECIDED` for one that a run uses, else `ALIVE`."""
        has_expired = self._scan.now is not None and lease.expires < self._scan.now
        if not (has_expired or self._environments):
            return Liveness.ALIVE
        for place in lease.users:
            life = liveness.get(place)
            if life is None and is_run_alive(self._session, place, deadline):
                life = Liveness.ALIVE
            if life in (Liveness.ALIVE, Liveness.UNDECIDED):
                return Liveness.UNDECIDED
        return Liveness.ENDED

    def _places(
        self,
        leases: dict[str, RunLease],
        liveness: dict[str, Liveness],
        all_kinds: bool,
        sweep: SweepResult,
        deadline: Deadline,
    ) -> list[tuple[Resource, str]]:
        """Return the kinds to list, and their namespaces if not all can be listed."""
        kinds: dict[Resource, str] = {}
        for place, life in liveness.items():
            lease = leases[place]
            for kind in lease.kinds if life in (Liveness.DEAD, Liveness.ENDED) else ():
                resource = self._scan.resolve(kind, sweep, deadline)
                if resource is not None:
                    kinds.setdefault(resource, lease.namespace)
        if all_kinds:
            needed_verbs = {"list", "delete"}
            every = request_with_retry(
                lambda deadline: self._session.list_kinds(deadline=deadline), deadline
            )
            for resource in every:
                known = {kind.qualified for kind in kinds}
                if needed_verbs <= resource.verbs and resource.qualified not in known:
                    kinds[resource] = self._namespace
        return [item for item in kinds.items() if item[0].qualified != NAMESPACES.qualified]

    def _restore(
        self, changed: list[ChangedObject], sweep: SweepResult, deadline: Deadline
    ) -> set[str]:
        """Restore objects that tests changed; return the Leases of those that could not be."""
        failed = set()
        for changed_object in changed:
            if not self._dry_run:
                keys = frozenset({changed_object.record.key})
                problem = restore_object(
                    self._session,
                    changed_object.resource,
                    changed_object.name,
                    None,
                    keys,
                    deadline,
                )
                if problem is not None:
                    failed.add(changed_object.record.heartbeat)
                    sweep.problems.append(f"{changed_object} could not be restored: {problem}")
                    continue
            sweep.restored.append(changed_object)
        return failed

    def _remove(
        self,
        leftovers: list[Leftover],
        changed: list[ChangedObject],
        leases: dict[str, RunLease],
        liveness: dict[str, Liveness],
        scanned: frozenset[str],
        sweep: SweepResult,
        deadline: Deadline,
    ) -> None:
        """Restore and delete what dead runs left, then their Leases.

        Runs are marked as dead first, which fails for one that has shown life meanwhile. Leases
        are last, since they name the kinds: a sweep that was killed, or could not do all, is
        completed by the next one.

        Args:
            scanned: the Leases whose kinds were listed.
        """
        # Runs with nothing but a Lease are decided as well.
        dead = {
            place for place, life in liveness.items() if life in (Liveness.DEAD, Liveness.ENDED)
        }
        named = {leftover.heartbeat for leftover in leftovers} | {
            changed_object.record.heartbeat for changed_object in changed
        }
        gone = named - liveness.keys() - sweep.unknown.keys() - {""}
        going: list[Leftover] = []
        staying: set[str] = set()
        for leftover in leftovers:
            delete_kept = (
                self._kept and leftover.provenance.kept and leftover.heartbeat in dead | gone
            )
            if (leftover.provenance.kept and not delete_kept) or not leftover.heartbeat:
                past = self._scan.now is not None and leftover.provenance.expires < self._scan.now
                (going if past else sweep.kept).append(leftover)
                if not past:
                    staying.add(leftover.heartbeat)
            elif leftover.heartbeat in dead | gone:
                going.append(leftover)
        restoring = []
        for change in changed:
            place = change.record.heartbeat
            past = self._scan.now is not None and change.record.expires < self._scan.now
            if place in dead | gone or (past and place not in liveness):
                restoring.append(change)
        fences = {}
        for place in sorted(dead & leases.keys()):
            fences[place] = self._fence(leases[place], deadline)
            if fences[place] is None:
                going = [leftover for leftover in going if leftover.heartbeat != place]
                restoring = [
                    changed_object
                    for changed_object in restoring
                    if changed_object.record.heartbeat != place
                ]
                sweep.revived(place)
        staying |= self._restore(restoring, sweep, deadline)
        for leftover in sorted(going, key=_deletion_order):
            problem = self._delete(leftover, deadline)
            if problem is None:
                sweep.going.append(leftover)
                self._record_stuck(leftover, sweep)
            else:
                staying.add(leftover.heartbeat)
                sweep.problems.append(f"{leftover} could not be deleted: {problem}")
        for place, version in fences.items():
            # The Lease is still needed for the kinds that it names.
            kinds = leases[place].kinds
            is_open = place in staying or place not in scanned
            is_needed = (kinds and is_open) or not sweep.unlisted.isdisjoint(kinds)
            if version is not None and not is_needed:
                self._delete_lease(leases[place], version, sweep, deadline)

    def _record_stuck(self, leftover: Leftover, sweep: SweepResult) -> None:
        now, since = self._scan.now, leftover.terminating
        if now is None or since is None or now - since < _STUCK_SECONDS:
            return
        lasting = format_duration(round(now - since))
        why = leftover.blocked or "no reason is given"
        test = leftover.provenance.owner.test
        sweep.stuck.append(
            f"{leftover} ({test}) is not gone {lasting} after its deletion was requested: {why}"
        )

    def _keep(self, own: list[Leftover], sweep: SweepResult, deadline: Deadline) -> None:
        notes = kept_annotations(self._session.clock.time())
        belongings = CreatedObjects(self._session)
        for leftover in own:
            if not leftover.provenance.kept and leftover.terminating is None:
                belongings.remember(leftover.belonging)
                sweep.kept.append(leftover)
        sweep.problems += belongings.keep(notes, lambda: deadline)

    def _fence(self, lease: RunLease, deadline: Deadline) -> str | None:
        """Mark a run as dead; return its Lease's new version, None if alive."""
        if self._dry_run:
            return lease.version
        change = {
            "metadata": {
                "uid": lease.uid,
                "resourceVersion": lease.version,
                "annotations": {ANNOTATION_PREFIX + "removed": "true"},
            }
        }
        try:
            updated = request_with_retry(
                lambda deadline: self._session.patch(
                    LEASES, lease.name, change, lease.namespace, deadline=deadline
                ),
                deadline,
            )
        except ApiError as error:
            if error.status in (404, 409):
                return None
            if error.status == 403:
                # The Lease cannot be written, so it cannot be marked.
                return lease.version
            raise
        return str(updated["metadata"]["resourceVersion"])

    def _delete(self, leftover: Leftover, deadline: Deadline) -> str | None:
        if self._dry_run or leftover.terminating is not None:
            return None
        return delete_by_uid(self._session, leftover.belonging, deadline)

    def _delete_lease(
        self, lease: RunLease, version: str, sweep: SweepResult, deadline: Deadline
    ) -> None:
        sweep.leases += 1
        if self._dry_run:
            return
        try:
            request_with_retry(
                lambda deadline: self._session.delete(
                    LEASES,
                    lease.name,
                    lease.namespace,
                    uid=lease.uid,
                    resource_version=version,
                    deadline=deadline,
                ),
                deadline,
            )
        except ApiError as error:
            if error.status not in (404, 409):
                sweep.problems.append(f"lease/{lease.name} in {lease.namespace} stays: {error}")


def _deletion_order(leftover: Leftover) -> tuple[int, str]:
    resource = leftover.resource
    if resource.group in _FIRST_DELETED_GROUPS:
        rank = 0
    elif resource.namespaced:
        rank = 1
    elif resource.qualified == NAMESPACES.qualified:
        rank = 2
    else:
        rank = 3
    return rank, str(leftover)
