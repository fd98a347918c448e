"""The Lease of a run: renewal, liveness of other runs, duplicate run ids.

The Lease is created when the run first creates something in the cluster, renewed by the process
that owns the run (the controller under pytest-xdist), and deleted at the run's end: two requests
for a short run. Its times are the server's, from the Date header of its responses, so no machine's
clock is trusted. It lists the kinds that the run creates outside of its namespaces, each before the
first object is created: the janitor lists no others.

A Lease is dead at once if its last renewal is older than twice its duration, both by the server's
clock. Otherwise it is watched: it is dead if it does not change for its whole duration by our
monotonic clock. A caller without time to watch leaves undecided Leases alone.

Two runs with one id: each creates its Lease before it lists others, so at least one sees the other.
A run that was killed and restarts under its id finds its old Lease, and watches it until a renewal
would have been due.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.times import format_micro_time, parse_time_or_none
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import MERGE_PATCH
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    ENVIRONMENTS_RUN,
    LABEL_MANAGED_BY,
    LABEL_RUN,
    LABEL_SHARD,
    MANAGED_BY,
    run_label_value,
    run_lease_name,
    shard_label_value,
)
from pytest_kwait.suite.lease_renewer import LeaseRenewer
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import Response

RENEW_INTERVAL = 30.0
"""Seconds between two renewals."""

RENEWALS_PER_DURATION = 4
"""Renewal intervals per duration: so many renewals may fail."""

LEASE_NAMESPACE = "default"
"""The namespace of the Lease by default: one that cannot be deleted."""
OVERDUE_FACTOR = 2.0
"""Durations after which the last renewal counts as overdue at one look."""

_REQUEST_TIMEOUT = 15.0
"""Seconds for the first request; after that the run continues without a Lease."""

_RENEWAL_TIMEOUT = 5.0
"""Maximum seconds of one renewal, during which the end of the run waits."""

_SHARED = "shared"
"""The value of the annotation `ended` while other shards may use the run's objects."""

_MAX_CLOCK_SKEW = 2.0
"""Maximum difference of two clocks before the Lease is written again."""
_LATE_FACTOR = 1.5
"""Intervals after a renewal by which the next one must have come."""

_POLL_INTERVAL = 1.0


class RunLeaseRenewer:
    """The Lease of one run, renewed in a thread from its first use.

    Errors of the cluster are not raised: a run continues without a Lease, and `problem` has the
    error.

    Args:
        client: used by this object alone.
        run: the id of the run.
        nonce: distinguishes runs with the same id.
        interval: seconds between two renewals.
        namespace: the namespace of the Lease.
        shard: the run's shard; empty without shards.
    """

    def __init__(
        self,
        client: ApiClient,
        run: str,
        nonce: str,
        *,
        interval: float = RENEW_INTERVAL,
        namespace: str = LEASE_NAMESPACE,
        shard: str = "",
    ) -> None:
        self._session = ApiSession.of(client)
        self._run = run
        self._nonce = nonce
        self._interval = interval
        self._namespace = namespace
        self._labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_RUN: run_label_value(run)}
        if shard:
            self._labels[LABEL_SHARD] = shard_label_value(shard)
        self._name = run_lease_name(run, nonce)
        self._lock = threading.Lock()
        self._begun = False
        self._exists = False
        self._kinds: list[str] = []
        self._offset = 0.0
        self._renewals = LeaseRenewer(
            "kwait heartbeat", self._renew, interval, self._session.clock, self._on_failure
        )
        self.problem: str | None = None
        """The error of the Lease, in one line; None without one."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The recorded kinds."""
        return tuple(self._kinds)

    def place(self) -> str:
        """Return namespace/name of the Lease, created if needed; empty if it cannot exist."""
        # A hanging renewal holds the lock; other threads do not wait for it.
        if not self._begun:
            with self._lock:
                if not self._begun:
                    self._begin()
                    self._begun = True
        return f"{self._namespace}/{self._name}" if self._exists else ""

    def record(self, kind: str) -> None:
        """Record a kind before its first object is created; a request for each new kind."""
        self.place()
        with self._lock:
            if kind in self._kinds:
                return
            self._kinds.append(kind)
            if not self._exists:
                return
            notes = {ANNOTATION_PREFIX + "kinds": ",".join(self._kinds)}
            try:
                self._patch({"metadata": {"annotations": notes}}, _REQUEST_TIMEOUT)
            except (ApiError, DeadlineExceeded) as error:
                self.problem = (
                    f"the Lease {self._namespace}/{self._name} cannot be changed: {error}"
                )

    def end(self, *, leave: bool = False, shared: bool = False) -> None:
        """Stop renewing, and delete the Lease.

        Args:
            leave: whether to keep it, as a list of kinds for the janitor.
            shared: whether to keep it until all shards of the run have ended, with the objects
                that they may still use.
        """
        self._renewals.stop()
        limit = self._session.availability.limit_cleanup(_REQUEST_TIMEOUT)
        self._renewals.join(limit)
        with self._lock:
            if not self._exists:
                return
            self._exists = False
            try:
                if leave or shared:
                    ended = _SHARED if shared else "true"
                    self._patch(
                        {"metadata": {"annotations": {ANNOTATION_PREFIX + "ended": ended}}},
                        limit,
                    )
                else:
                    path = LEASES.path(self._namespace, self._name)
                    self._request("DELETE", path, {}, limit)
            except (ApiError, DeadlineExceeded) as error:
                if not (isinstance(error, ApiError) and error.status == 404):
                    self.problem = f"the Lease {self._namespace}/{self._name} stays: {error}"

    def _begin(self) -> None:
        try:
            self._create()
        except (ApiError, DeadlineExceeded) as error:
            self.problem = (
                f"no Lease in namespace {self._namespace} can say that the run lives, so what a "
                f"killed run leaves stays until it expires: {error}"
            )
            return
        self._exists = True
        self._renewals.start(at_once=abs(self._offset) > _MAX_CLOCK_SKEW)

    def _on_failure(self, error: Exception) -> bool:
        self.problem = f"the Lease {self._namespace}/{self._name} was not renewed: {error}"
        return True

    def _renew(self) -> None:
        with self._lock:
            if self._renewals.is_stopped:
                return
            try:
                limit = min(self._interval, _RENEWAL_TIMEOUT)
                lease = self._patch({"spec": {"renewTime": self._now()}}, limit)
            except ApiError as error:
                if error.status != 404:
                    raise
                # The Lease was deleted: without it our objects would count as a dead run's.
                self._create()
                return
        if ((lease.get("metadata") or {}).get("annotations") or {}).get(
            ANNOTATION_PREFIX + "removed"
        ):
            self.problem = "a janitor has taken this run for dead and removed what it had made"

    def _create(self) -> None:
        try:
            self._request("POST", LEASES.path(self._namespace), self._manifest(), _REQUEST_TIMEOUT)
        except ApiError as error:
            # An earlier attempt whose response was lost: the name is unique.
            if error.reason != "AlreadyExists":
                raise

    def _patch(self, change: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        path = LEASES.path(self._namespace, self._name)
        return decode_object(self._request("PATCH", path, change, seconds, MERGE_PATCH).data)

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        seconds: float,
        content_type: str | None = None,
    ) -> Response:
        answer = request_with_retry(
            lambda deadline: self._session.request(
                method, path, body=body, content_type=content_type, deadline=deadline
            ),
            Deadline.after(seconds, self._session.clock),
        )
        server_time = read_server_time(answer.headers)
        if server_time is not None:
            self._offset = server_time - self._session.clock.time()
        return answer

    def _manifest(self) -> dict[str, Any]:
        now = self._now()
        notes = {ANNOTATION_PREFIX + "run": self._run, ANNOTATION_PREFIX + "nonce": self._nonce}
        if self._kinds:
            notes[ANNOTATION_PREFIX + "kinds"] = ",".join(self._kinds)
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._name,
                "labels": self._labels,
                "annotations": notes,
            },
            "spec": {
                "holderIdentity": f"{socket.gethostname()}_{os.getpid()}",
                "leaseDurationSeconds": math.ceil(RENEWALS_PER_DURATION * self._interval),
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _now(self) -> str:
        return format_micro_time(self._session.clock.time() + self._offset)


def read_server_time(headers: Mapping[str, str]) -> float | None:
    """Return the server's time of a response; None if it is missing."""
    try:
        return parsedate_to_datetime(str(headers.get("date"))).timestamp()
    except ValueError:
        return None


def format_kind(resource: Resource) -> str:
    """Return the name of a recorded kind: `plural.version.group`, `plural.v1.` for core."""
    return f"{resource.plural}.{resource.version}.{resource.group}"


class Liveness(Enum):
    """The liveness of a run."""

    ALIVE = "alive"
    """Its Lease was renewed while watched."""

    UNDECIDED = "undecided"
    """Its Lease may still be renewed."""

    DEAD = "dead"
    """Its Lease is no longer renewed."""

    ENDED = "ended"
    """The run has marked its Lease as ended."""


@dataclass(frozen=True, slots=True)
class RunLease:
    """The Lease of a run.

    Args:
        version: its resourceVersion.
        run: the id of the run.
        duration: seconds that it is valid after a renewal.
        renewed: the last renewal: seconds since the epoch, by the server's clock.
        ended: whether the run has marked it as ended.
        kinds: kinds of objects outside of its namespaces: `plural.version.group`.
        shared: whether other shards of the run may still use its objects.
        environment: the name of an environment that stays; empty for a run.
        expires: when that may be removed, if no run uses it: seconds since the epoch.
        users: namespace/name of the Leases of the runs that have used it.
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
    shared: bool = False
    environment: str = ""
    expires: float = 0.0
    users: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Namespace/name."""
        return f"{self.namespace}/{self.name}"

    def liveness_at(self, now: float | None) -> Liveness:
        """Return the liveness without watching.

        Args:
            now: the server's time; None if unknown.
        """
        if self.environment:
            return Liveness.ALIVE
        if self.ended:
            return Liveness.ENDED
        if now is not None and now - self.renewed > OVERDUE_FACTOR * self.duration:
            return Liveness.DEAD
        return Liveness.UNDECIDED


def is_run_alive(session: ApiSession, place: str, deadline: Deadline) -> bool:
    """Return whether a run may live, by one look at its Lease; False if that cannot be read.

    That of an environment is no run's.

    Args:
        place: namespace/name of the Lease.
    """
    namespace, _, name = place.partition("/")
    try:
        answer = request_with_retry(
            lambda attempt_deadline: session.request(
                "GET", LEASES.path(namespace, name), deadline=attempt_deadline
            ),
            deadline,
        )
    except (ApiError, DeadlineExceeded):
        return False
    lease = read_run_lease(decode_object(answer.data))
    if lease is None:
        return False
    return lease.liveness_at(read_server_time(answer.headers)) is Liveness.UNDECIDED


def read_run_lease(obj: Mapping[str, Any]) -> RunLease | None:
    """Return a Lease as a run's; None if it is not one."""
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    run, nonce = (
        str(notes.get(ANNOTATION_PREFIX + "run", "")),
        str(notes.get(ANNOTATION_PREFIX + "nonce", "")),
    )
    renewed, duration = parse_time_or_none(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    name = str(metadata.get("name"))
    if (
        not (run and nonce and isinstance(duration, int) and renewed is not None)
        or labels.get(LABEL_MANAGED_BY) != MANAGED_BY
        or labels.get(LABEL_RUN) != run_label_value(run)
        or name != run_lease_name(run, nonce)
    ):
        return None
    stays = run == ENVIRONMENTS_RUN
    return RunLease(
        str(metadata.get("namespace")),
        name,
        str(metadata.get("uid")),
        str(metadata.get("resourceVersion")),
        run,
        float(duration),
        renewed,
        notes.get(ANNOTATION_PREFIX + "ended") in ("true", _SHARED),
        tuple(filter(None, str(notes.get(ANNOTATION_PREFIX + "kinds", "")).split(","))),
        notes.get(ANNOTATION_PREFIX + "ended") == _SHARED,
        str(notes.get(ANNOTATION_PREFIX + "environment", "?")) if stays else "",
        parse_time_or_none(notes.get(ANNOTATION_PREFIX + "expires")) or 0.0,
        tuple(filter(None, str(notes.get(ANNOTATION_PREFIX + "users", "")).split(","))),
    )


class LivenessWatch:
    """Decides the liveness of Leases by watching whether they change.

    Args:
        started: when they were read, by the monotonic clock.
    """

    def __init__(self, leases: list[RunLease], started: float) -> None:
        self._first = {lease.place: lease for lease in leases}
        self._started = started
        self._alive: set[str] = set()

    @property
    def duration(self) -> float:
        """Maximum seconds to watch."""
        return max((lease.duration for lease in self._first.values()), default=0.0)

    def observe(self, leases: list[RunLease]) -> None:
        """Record which Leases have changed since they were first read.

        Args:
            leases: their present state.
        """
        for lease in leases:
            first = self._first.get(lease.place)
            if first is not None and (first.uid, first.version) != (lease.uid, lease.version):
                self._alive.add(lease.place)

    def decide(self, lease: RunLease, now: float) -> Liveness:
        """Return the liveness of a run.

        Args:
            now: when all were last read, by the monotonic clock.
        """
        if lease.place in self._alive:
            return Liveness.ALIVE
        watched_seconds = now - self._started
        return Liveness.DEAD if watched_seconds >= lease.duration else Liveness.UNDECIDED

    def undecided(self, now: float) -> list[RunLease]:
        """Return the undecided Leases.

        Args:
            now: when all were last read, by the monotonic clock.
        """
        return [
            lease for lease in self._first.values() if self.decide(lease, now) is Liveness.UNDECIDED
        ]


class DuplicateRun(NamedTuple):
    """Another run of the same id.

    Args:
        holder: its host and process.
        created: its creation time by the server.
    """

    lease: RunLease
    holder: str
    created: str

    @property
    def overdue(self) -> float:
        """Seconds after a renewal by which the next one must have come."""
        return _LATE_FACTOR * self.lease.duration / RENEWALS_PER_DURATION

    def message(self, run: str, source: str) -> str:
        """Return the error message, with a way out.

        Args:
            run: the id.
            source: the source of this run's id.
        """
        return (
            f"two runs go by the id {run!r} (from {source}): this one, and one that {self.holder} "
            f"began at {self.created} and that is still going on (Lease {self.lease.place}). Give "
            "each its own --kwait-run-id; parts of one run tell themselves apart by --kwait-shard"
        )


def find_duplicate_run(
    session: ApiSession,
    run: str,
    shard: str,
    place: str,
    deadline: Deadline,
    report: Callable[[str], object] = lambda line: None,
) -> DuplicateRun | None:
    """Return an earlier, living run of the same id and shard, or None.

    If Leases cannot be listed, none is found.

    Args:
        run: the id.
        shard: our shard; other shards of a run share its id.
        place: namespace/name of our own Lease.
        deadline: a run without a sign of life by then counts as dead.
        report: called with one line if a Lease must be watched.
    """
    clock = deadline.clock
    try:
        duplicates, now = _list_runs(session, run, shard, place, deadline)
        own = duplicates.pop(place, None)
        # Later runs find our Lease and end.
        open_ones = {
            run_place: duplicate
            for run_place, duplicate in duplicates.items()
            if not duplicate.lease.ended and (own is None or duplicate.created <= own.created)
        }
        started, reported = clock.monotonic(), False
        while True:
            elapsed = clock.monotonic() - started
            for run_place, duplicate in list(open_ones.items()):
                age = max(now - duplicate.lease.renewed, 0.0) if now is not None else 0.0
                if age + elapsed > duplicate.overdue:
                    del open_ones[run_place]
            if not open_ones or deadline.remaining <= _POLL_INTERVAL:
                return None
            if not reported:
                report(f"a run {run} was here a moment ago: looking whether it lives")
                reported = True
            clock.sleep(_POLL_INTERVAL)
            current_runs, _ = _list_runs(session, run, shard, place, deadline)
            for run_place, duplicate in list(open_ones.items()):
                current = current_runs.get(run_place)
                if (
                    current is None
                    or current.lease.uid != duplicate.lease.uid
                    or current.lease.ended
                ):
                    del open_ones[run_place]
                elif current.lease.version != duplicate.lease.version:
                    return current
    except (ApiError, DeadlineExceeded):
        return None


def _list_runs(
    session: ApiSession, run: str, shard: str, place: str, deadline: Deadline
) -> tuple[dict[str, DuplicateRun], float | None]:
    """Return the runs of an id by place of their Lease, and the server's time."""
    answer = request_with_retry(
        lambda deadline: session.request(
            "GET",
            LEASES.path(place.partition("/")[0]),
            query={"labelSelector": f"{LABEL_RUN}={run_label_value(run)}"},
            deadline=deadline,
        ),
        deadline,
    )
    duplicates = {}
    for obj in decode_object(answer.data).get("items") or []:
        lease = read_run_lease(obj)
        labels = obj["metadata"].get("labels") or {}
        if lease is not None and labels.get(LABEL_SHARD, "") == shard_label_value(shard):
            holder = str((obj.get("spec") or {}).get("holderIdentity") or "an unknown holder")
            created = str(obj["metadata"].get("creationTimestamp"))
            duplicates[lease.place] = DuplicateRun(lease, holder, created)
    return duplicates, read_server_time(answer.headers)
