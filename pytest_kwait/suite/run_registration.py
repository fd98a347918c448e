"""The registration of a run in a cluster: its Lease, its quota of namespaces, and the janitor.

The process that owns the run holds the Lease, for the workers of pytest-xdist as well. With the
first renewal the janitor runs. Imported when a namespace is first created in an existing cluster.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ClusterError, KwaitError

# Imported by the main thread: pytest rewrites imported modules, and before Python 3.11.8 and 3.12.2
# parsing in two threads at once may fail.
from pytest_kwait.suite.cleanup.janitor import Janitor
from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE, RunLeaseRenewer
from pytest_kwait.suite.namespaces.namespaces import NamespaceQuota
from pytest_kwait.wait.context import DeadlineExceeded
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.suite.cleanup.janitor import SweepResult
    from pytest_kwait.suite.config.settings import Settings

_SWEEP_TIMEOUT = 30.0
"""Seconds for the janitor's search, beside the tests."""

_DUPLICATE_TIMEOUT = 60.0
"""Seconds for another run of the same id to show that it is alive."""

_CLEANUP_TIMEOUT = 10.0
"""Seconds for the search of this run's leftovers at its end."""


class OwnedRegistration:
    """Registration of this run in one cluster; starts the janitor with the first renewal.

    Args:
        run: the id of the run.
        nonce: distinguishes runs with the same id.
        shard: the part of the suite that this machine runs; empty without shards.
        report: called with a status line for the user.
    """

    def __init__(
        self,
        run: str,
        nonce: str,
        cluster: Cluster,
        settings: Settings,
        *,
        shard: str = "",
        report: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._run = run
        self._nonce = nonce
        # Keeps the cluster alive, so that its identity is not reused.
        self.cluster = cluster
        # A conftest may return any object.
        self._has_controllers = getattr(cluster, "has_controllers", True)
        self._settings = settings
        self._shard = shard
        self._report_now = report
        self._clash = ""
        self._quota: NamespaceQuota | None = None
        self._lock = threading.Lock()
        self._client: ApiClient | None = None
        self._renewer: RunLeaseRenewer | None = None
        self._janitor: Worker | None = None
        self._lines: list[str] = []

    def place(self) -> str:
        """Return namespace/name of the Lease, created if needed; empty if it cannot exist.

        Raises:
            ClusterError: another run goes by the same id.
        """
        renewer = self._start_lease()
        if self._clash:
            raise ClusterError(self._clash)
        return renewer.place()

    def record(self, kind: str) -> None:
        """Add a kind to the Lease before its first object is created."""
        self._start_lease().record(kind)

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return "" once the namespace may be created, or the refusal after `seconds`."""
        self._start_lease()
        return self._quota.acquire(name, seconds) if self._quota is not None else ""

    def end(
        self,
        *,
        untidy: bool,
        kept: bool,
        shared: bool = False,
        going: Mapping[str, str],
        patient: bool,
    ) -> list[str]:
        """Remove the run's leftovers and its Lease; does nothing without a Lease.

        Args:
            untidy: whether a process may have left objects.
            kept: whether objects were kept on purpose.
            shared: whether objects of the session were left to the end of the run.
            going: UIDs, by name, of namespaces whose deletion was requested.
            patient: whether to look whether they are gone, or to wait for it where that is set.

        Returns:
            what there is to tell, a line each.
        """
        with self._lock:
            renewer, self._renewer = self._renewer, None
        if renewer is None:
            return []
        if self._janitor is not None:
            self._janitor.join(_CLEANUP_TIMEOUT)
        if untidy:
            self._clean_up(renewer)
        if patient and going:
            self._await(going)
        # Objects kept outside of namespaces are found through the Lease alone.
        renewer.end(leave=bool(renewer.kinds) and (kept or untidy), shared=shared)
        # Crashed workers do not say what they shared.
        if shared or untidy or self._shard:
            self._remove_shared(patient=patient)
        if renewer.problem is not None:
            self._lines.append(f"kwait: {renewer.problem}")
        if self._quota is not None and self._quota.problem is not None:
            self._lines.append(f"kwait: {self._quota.problem}")
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return self._lines

    def _start_lease(self) -> RunLeaseRenewer:
        with self._lock:
            if self._renewer is None:
                self._client = self.cluster.client()
                self._renewer = RunLeaseRenewer(
                    self._client,
                    self._run,
                    self._nonce,
                    interval=self._settings.heartbeat,
                    namespace=self._lease_namespace,
                    shard=self._shard,
                )
                self._clash = self._find_duplicate(self._client, self._renewer.place())
                self._quota = NamespaceQuota(
                    ApiSession.of(self._client),
                    self._run,
                    limit=self._settings.namespace_limit,
                    rate=self._settings.namespace_rate,
                    sources=(
                        self._settings.source("namespace_limit"),
                        self._settings.source("namespace_rate"),
                    ),
                    has_controllers=self._has_controllers,
                )
                if self._settings.janitor and not self._clash:
                    self._janitor = Worker("kwait janitor", partial(self._sweep, self._client))
                    self._janitor.start()
            return self._renewer

    def _find_duplicate(self, client: ApiClient, place: str) -> str:
        """Return the message about another run of the same id. A random id is never duplicated."""
        if self._settings.run_id is None or not place:
            return ""
        from pytest_kwait.suite.cleanup.run_lease import find_duplicate_run

        limit = Deadline.after(_DUPLICATE_TIMEOUT)
        session = ApiSession.of(client)
        duplicate = find_duplicate_run(
            session, self._run, self._shard, place, limit, self._report_now
        )
        return duplicate.message(self._run, self._settings.source("run_id")) if duplicate else ""

    def _await(self, going: Mapping[str, str]) -> None:
        limit = self._settings.run_deletion_wait
        if self._client is None or limit == 0:
            return
        from pytest_kwait.suite.namespaces.namespaces import NamespaceDeletions

        deletions = NamespaceDeletions(self._client, self._run, going)
        lines = deletions.look() if limit is None else deletions.wait(limit, self._report_now)
        self._lines += [line if line.startswith(" ") else f"kwait: {line}" for line in lines]

    @property
    def _lease_namespace(self) -> str:
        return self._settings.namespace or LEASE_NAMESPACE

    def _sweep(self, client: ApiClient) -> None:
        try:
            sweep = Janitor(client, namespace=self._lease_namespace).sweep(
                Deadline.after(_SWEEP_TIMEOUT)
            )
        except (KwaitError, DeadlineExceeded) as error:
            self._lines.append(
                f"kwait: the janitor could not look for what dead runs left: {error}"
            )
        else:
            self._report(sweep)

    def _clean_up(self, renewer: RunLeaseRenewer) -> None:
        if self._client is None or not renewer.place():
            return
        try:
            sweep = Janitor(self._client, namespace=self._lease_namespace).sweep_own(
                renewer.place(),
                renewer.kinds,
                Deadline.after(_CLEANUP_TIMEOUT),
                keep=self._settings.keep != "never",
            )
        except (KwaitError, DeadlineExceeded) as error:
            self._lines.append(f"kwait: the janitor could not look for what this run left: {error}")
        else:
            self._report(sweep)
            if sweep.kept and self._settings.keep != "never":
                names = ", ".join(map(str, sweep.kept))
                self._lines.append(f"kwait: kept of workers that died: {names}")

    def _remove_shared(self, *, patient: bool) -> None:
        """Remove what all shards of the run have left, unless another one lives."""
        if self._client is None:
            return
        janitor = Janitor(self._client, namespace=self._lease_namespace, run=self._run)
        patient = patient and self._has_controllers
        limit = (self._settings.run_deletion_wait or 0.0) if patient else 0.0
        try:
            sweep = janitor.sweep(Deadline.after(_CLEANUP_TIMEOUT))
            if limit:
                janitor.wait(sweep, Deadline.after(limit))
        except (KwaitError, DeadlineExceeded) as error:
            self._lines.append(f"kwait: the janitor could not look for what this run left: {error}")
        else:
            self._lines += [
                f"kwait: {leftover} is still there: {leftover.blocked or 'no reason is given'}"
                for leftover in sweep.staying
            ]

    def _report(self, sweep: SweepResult) -> None:
        summary = sweep.summary()
        if summary:
            self._lines.append(f"kwait: the janitor {summary}")
        self._lines += [f"kwait: {line}" for line in sweep.stuck]
