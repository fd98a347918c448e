"""Removes what dead runs have left in a cluster, and what was kept and has expired; nothing else.

What it asks: all namespaces and all Leases with our label, then the kinds that the Leases of dead
runs name, each once. An object goes only if its labels, annotations and seal fit together, and the
Lease that it names is dead or gone; by its UID, so that nothing that took its place meanwhile does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.client.resource import LEASES, NAMESPACES
from pytest_kwait.client.session import Session
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.belongings import CreatedObjects, delete_by_uid
from pytest_kwait.suite.cleanup.leftovers import Leftover, RunFindings, SweepResult
from pytest_kwait.suite.cleanup.liveness import Liveness, LivenessWatch, RunLease
from pytest_kwait.suite.cleanup.lookout import Scanner
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, kept_annotations
from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

__all__ = ["Janitor"]

_POLL_INTERVAL = 2.0
"""Seconds between two looks while Leases are watched, or deletions awaited."""

_FIRST_DELETED_GROUPS = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})
"""Groups of what can keep everything else from being deleted."""


class Janitor:
    """Looks for what runs have left, judges it, and removes what nobody needs.

    Args:
        client: the client.
        namespace: where Leases are looked for if those of all namespaces are not shown.
        run: the id of the only run to look at; None for all.
        dry_run: whether to change nothing.
        kept: whether to remove what was kept by runs that are over before it expires.
        tell: called with what is going on when it takes time.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str = LEASE_NAMESPACE,
        run: str | None = None,
        dry_run: bool = False,
        kept: bool = False,
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._session = Session.of(client)
        self._namespace = namespace
        self._lookout = Scanner(client, namespace, run)
        self._dry_run = dry_run
        self._kept = kept
        self._tell = tell

    def sweep(
        self, deadline: Deadline, *, watch: bool = False, all_kinds: bool = False
    ) -> SweepResult:
        """Look, judge, and ask for the deletion of what is left.

        Args:
            deadline: when it must be over.
            watch: whether to watch the Leases that cannot be judged at one look.
            all_kinds: whether to look at every kind that the server has, not only at those that
                the Leases of dead runs name.

        Raises:
            ApiError: neither namespaces nor Leases are shown, or the server does not answer.
            DeadlineExceeded: there was no answer in time.
        """
        sweep = SweepResult(dry_run=self._dry_run)
        # Namespaces first: whatever is there has a Lease that is older.
        found = self._lookout.find(NAMESPACES, None, sweep, deadline)
        leases = {lease.place: lease for lease in self._lookout.leases(deadline)}
        for place in {each.heartbeat for each in found if each.heartbeat} - set(leases):
            self._lookout.look_up(place, leases, sweep, deadline)
        lives = self._judge(leases, sweep, watch, deadline)
        looked_up = {each.heartbeat for each in found} | set(leases)
        for resource, namespace in self._places(leases, lives, all_kinds, sweep, deadline):
            for leftover in self._lookout.find(resource, namespace, sweep, deadline):
                found.append(leftover)
                place = leftover.heartbeat
                if place and place not in looked_up:
                    # Its run may have begun since the Leases were read.
                    looked_up.add(place)
                    self._lookout.look_up(place, leases, sweep, deadline)
                    if place in leases:
                        lives[place] = leases[place].liveness_at(self._lookout.now)
        self._remove(found, leases, lives, sweep, deadline)
        return sweep

    def sweep_own(
        self, place: str, kinds: Iterable[str], deadline: Deadline, *, keep: bool = False
    ) -> SweepResult:
        """Remove what is left of a run that knows itself to be over, but for its Lease.

        Args:
            place: namespace/name of its Lease.
            kinds: what it noted there.
            deadline: when it must be over.
            keep: whether to leave it for people to look at, with a note of how long.

        Raises:
            ApiError: namespaces are not shown, or the server does not answer.
            DeadlineExceeded: there was no answer in time.
        """
        sweep = SweepResult(dry_run=self._dry_run)
        found = self._lookout.find(NAMESPACES, None, sweep, deadline)
        scope = place.partition("/")[0]
        for kind in kinds:
            resource = self._lookout.resolve(kind, sweep, deadline)
            if resource is not None:
                found += self._lookout.find(resource, scope, sweep, deadline)
        own = [each for each in found if each.heartbeat == place]
        if keep:
            self._keep(own, sweep, deadline)
            return sweep
        self._remove(own, {}, {place: Liveness.ENDED}, sweep, deadline)
        return sweep

    def wait(self, sweep: SweepResult, deadline: Deadline) -> None:
        """Return once everything that was to go is gone; what is not is noted with its reasons.

        Args:
            sweep: what was asked for.
            deadline: how long to wait.
        """
        going = list(sweep.going)
        while going:
            staying = []
            for resource, namespace in dict.fromkeys((each.resource, each.scope) for each in going):
                there = {
                    each.uid: each
                    for each in self._lookout.find(resource, namespace, None, deadline)
                }
                staying += [
                    there[each.uid]
                    for each in going
                    if (each.resource, each.scope) == (resource, namespace) and each.uid in there
                ]
            going = staying
            if not going or deadline.remaining <= _POLL_INTERVAL:
                break
            deadline.clock.sleep(_POLL_INTERVAL / 4)
        sweep.staying = going

    def _judge(
        self, leases: dict[str, RunLease], sweep: SweepResult, watch: bool, deadline: Deadline
    ) -> dict[str, Liveness]:
        lives = {place: lease.liveness_at(self._lookout.now) for place, lease in leases.items()}
        open_ones = [leases[place] for place, life in lives.items() if life is Liveness.UNDECIDED]
        if watch and open_ones:
            clock = deadline.clock
            watchman = LivenessWatch(open_ones, clock.monotonic())
            limit = deadline.at_most(watchman.duration + _POLL_INTERVAL)
            watched = "1 Lease" if len(open_ones) == 1 else f"{len(open_ones)} Leases"
            self._tell(
                f"watching {watched} for up to {watchman.duration:g}s: "
                "those of runs that live change"
            )
            pause = min(_POLL_INTERVAL, watchman.duration / 4)
            seen = clock.monotonic()
            while watchman.undecided(seen) and limit.remaining > pause:
                clock.sleep(pause)
                # When it was asked counts: what changes after the answer is not seen.
                seen = clock.monotonic()
                watchman.look(self._lookout.leases(deadline))
            lives |= {each.place: watchman.judge(each, seen) for each in open_ones}
        sweep.runs = [
            RunFindings(leases[place], life, self._lookout.now) for place, life in lives.items()
        ]
        return lives

    def _places(
        self,
        leases: dict[str, RunLease],
        lives: dict[str, Liveness],
        all_kinds: bool,
        sweep: SweepResult,
        deadline: Deadline,
    ) -> list[tuple[Resource, str]]:
        """Return the kinds to look at, and where if they are not shown everywhere."""
        kinds: dict[Resource, str] = {}
        for place, life in lives.items():
            lease = leases[place]
            for kind in lease.kinds if life in (Liveness.DEAD, Liveness.ENDED) else ():
                resource = self._lookout.resolve(kind, sweep, deadline)
                if resource is not None:
                    kinds.setdefault(resource, lease.namespace)
        if all_kinds:
            wanted = {"list", "delete"}
            every = request_with_retry(
                lambda deadline: self._session.kinds(deadline=deadline), deadline
            )
            for resource in every:
                known = {each.qualified for each in kinds}
                if wanted <= resource.verbs and resource.qualified not in known:
                    kinds[resource] = self._namespace
        return [each for each in kinds.items() if each[0].qualified != NAMESPACES.qualified]

    def _remove(
        self,
        found: list[Leftover],
        leases: dict[str, RunLease],
        lives: dict[str, Liveness],
        sweep: SweepResult,
        deadline: Deadline,
    ) -> None:
        # Who has nothing left but a Lease is looked at as well.
        dead = {place for place, life in lives.items() if life in (Liveness.DEAD, Liveness.ENDED)}
        gone = {
            each.heartbeat
            for each in found
            if each.heartbeat
            and each.heartbeat not in lives
            and each.heartbeat not in sweep.unknown
        }
        going: list[Leftover] = []
        staying: set[str] = set()
        for each in found:
            asked = self._kept and each.provenance.kept and each.heartbeat in dead | gone
            if (each.provenance.kept and not asked) or not each.heartbeat:
                past = self._lookout.now is not None and each.provenance.expires < self._lookout.now
                (going if past else sweep.kept).append(each)
                if not past:
                    staying.add(each.heartbeat)
            elif each.heartbeat in dead | gone:
                going.append(each)
        fences = {}
        for place in sorted(dead & leases.keys()):
            fences[place] = self._fence(leases[place], deadline)
            if fences[place] is None:
                going = [each for each in going if each.heartbeat != place]
                sweep.revived(place)
        for each in sorted(going, key=_deletion_order):
            problem = self._delete(each, deadline)
            if problem is None:
                sweep.going.append(each)
            else:
                staying.add(each.heartbeat)
                sweep.problems.append(f"{each} could not be deleted: {problem}")
        for place, version in fences.items():
            # It is still needed where it tells what kinds to look at.
            if version is not None and not (leases[place].kinds and place in staying):
                self._delete_lease(leases[place], version, sweep, deadline)

    def _keep(self, own: list[Leftover], sweep: SweepResult, deadline: Deadline) -> None:
        notes = kept_annotations(self._session.clock.time())
        belongings = CreatedObjects(self._session)
        for each in own:
            if not (each.provenance.kept or each.terminating):
                belongings.remember(each.belonging)
                sweep.kept.append(each)
        sweep.problems += belongings.keep(notes, lambda: deadline)

    def _fence(self, lease: RunLease, deadline: Deadline) -> str | None:
        """Tell the run that it counts as dead; None if it has shown life since it was judged.

        Returns:
            the resourceVersion of the Lease that says so.
        """
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
            told = request_with_retry(
                lambda deadline: self._session.patch(
                    LEASES, lease.name, change, lease.namespace, deadline=deadline
                ),
                deadline,
            )
        except ApiError as error:
            if error.status in (404, 409):
                return None
            if error.status == 403:
                # Nobody may write it, so it tells nobody either.
                return lease.version
            raise
        return str(told["metadata"]["resourceVersion"])

    def _delete(self, leftover: Leftover, deadline: Deadline) -> str | None:
        if self._dry_run or leftover.terminating:
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
