"""Serial tests: each test holds the cluster lock, acquired before its own timeout begins.

Waiting for the lock does not count towards the test's timeout: pytest-timeout starts its timer
inside of the hook that is wrapped here. Errors of the lock are errors of the setup. Needed if
other processes may use the cluster.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.plugin.cluster import cluster_of, is_cluster_overridden, uses_cluster
from pytest_kwait.plugin.markers import InvalidMarker, settings_of
from pytest_kwait.plugin.run import worker_output
from pytest_kwait.plugin.usage import has_marker

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.clock import Deadline
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.lock.lock import ClusterLock, LockRenewer

_OWNER_TIMEOUT = 5.0
"""Seconds for looking up the Lease of the run."""


class LockHolder:
    """Holds the cluster lock for each test of this process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._renewer: LockRenewer | None = None
        self._is_resolved = False
        self._problem: KwaitError | None = None
        self._refusal = ""
        self._lost = False
        self.lines: list[str] = []
        """Lines for the summary of the run."""

    # First: outside of pytest-timeout's timer, which starts in a hook of the same name.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hold the lock from before the test's timeout begins until after its teardown."""
        self._enter(item)
        try:
            return (yield)
        finally:
            self._leave(item)

    def pytest_runtest_setup(self) -> None:
        """Fail a test whose lock could not be acquired."""
        if self._problem is not None:
            raise self._problem

    # First: after the teardown of the test and of all other plugins.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a serial test that was not alone."""
        result = yield
        self._verify(item)
        return result

    def pytest_sessionfinish(self) -> None:
        """Leave the queue, and pass the summary lines to the controller."""
        self._close()
        output = self._run.output
        if output is not None:
            output["kwait_lock"] = self.lines

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect the summary lines of a worker."""
        self.lines.extend(worker_output(node).get("kwait_lock", []))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print problems of the lock."""
        for line in dict.fromkeys(self.lines):
            terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Leave the queue if the session did not finish."""
        self._close()

    def _enter(self, item: pytest.Item) -> None:
        """Acquire the lock for a test; a failure is raised in its setup."""
        self._problem, self._lost = None, False
        if not uses_cluster(item):
            return
        try:
            renewer = self._found(item)
            if renewer is not None:
                self._acquire(renewer.lock, item)
            self._refuse(item)
        except KwaitError as error:
            self._problem = error

    def _verify(self, item: pytest.Item) -> None:
        """Check that a serial test was alone.

        Raises:
            KwaitError: it may not have been.
        """
        if self._renewer is None or self._lost or not self._renewer.lock.lost():
            return
        self._lost = True
        lock = self._renewer.lock
        why = f"this process did not renew its Lease for {lock.duration}s"
        if _is_serial(item):
            raise KwaitError(
                f"lock {lock.place} was lost while this serial test ran: {why}, and others may "
                "have used the cluster since"
            )
        self.lines.append(
            f"kwait: lock {lock.place} was lost while {item.nodeid} ran: {why}, and a serial test "
            "may have begun beside it"
        )

    def _leave(self, item: pytest.Item) -> None:
        """Release the lock of a test."""
        if self._renewer is None or self._renewer.lock.release() or self._lost:
            return
        self.lines.append(
            f"kwait: lock {self._renewer.lock.place} was lost while {item.nodeid} ran: it was "
            "removed, and others may have used the cluster since"
        )

    def _close(self) -> None:
        """Leave the queue of the lock."""
        renewer, self._renewer = self._renewer, None
        problem = renewer.end() if renewer is not None else None
        if problem is not None:
            self.lines.append(f"kwait: {problem}")

    def _acquire(self, lock: ClusterLock, item: pytest.Item) -> None:
        from pytest_kwait.client.availability import ClusterEnded
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
        from pytest_kwait.engine.failure.wait_report import Timeline
        from pytest_kwait.plugin.live_status import showing_status
        from pytest_kwait.suite.lock.lock import LockTimeout

        try:
            deadline, limit = self._limit(item)
        except InvalidMarker:
            # Reported when the test is set up.
            return
        serial = _is_serial(item)
        started = SYSTEM_CLOCK.monotonic()
        timeline = Timeline()
        wait = ActiveWait(
            f"lock {lock.place}", f"be free for {item.nodeid}", deadline, timeline, started
        )
        with ExitStack() as shown:

            def report(reason: str) -> None:
                first = not timeline.last
                timeline.record(SYSTEM_CLOCK.monotonic() - started, reason)
                if first:
                    shown.enter_context(showing_status(self._config))
                    shown.enter_context(ACTIVE_WAITS.entered(wait))

            try:
                (lock.acquire_exclusive if serial else lock.acquire_shared)(
                    item.nodeid, deadline, report
                )
                wait.record_outcome("met")
            except LockTimeout as error:
                wait.record_outcome("timed out")
                noun = "this serial test" if serial else "this test"
                raise KwaitError(
                    f"lock {lock.place} did not become free for {noun} within {limit}: {error}"
                ) from None
            except ClusterEnded as error:
                wait.record_outcome("error", trouble=str(error))
                raise
            except ApiError as error:
                wait.record_outcome("error", trouble=str(error))
                self._refusal = f"lock {lock.place} cannot be used: {error}"
                self._close()
        if self._refusal and not serial:
            self.lines.append(
                "kwait: tests are not kept apart from serial ones of other runs: " + self._refusal
            )

    def _refuse(self, item: pytest.Item) -> None:
        if self._refusal and _is_serial(item):
            raise KwaitError("this serial test cannot be kept apart from others: " + self._refusal)

    def _limit(self, item: pytest.Item) -> tuple[Deadline, str]:
        """Return the deadline for the lock, and the reason for it."""
        from pytest_timeout import SESSION_EXPIRE_KEY

        from pytest_kwait.apimachinery.times import format_duration
        from pytest_kwait.clock import SYSTEM_CLOCK, Deadline

        seconds = settings_of(item).timeouts()["serial"]
        expires = self._config.stash.get(SESSION_EXPIRE_KEY, 0)
        left = max(expires - SYSTEM_CLOCK.time(), 0.0) if expires else seconds
        if left < seconds:
            return Deadline.after(left), "the session's own timeout (pytest-timeout)"
        return Deadline.after(seconds), f"{format_duration(seconds)} (timeout serial)"

    def _found(self, item: pytest.Item) -> LockRenewer | None:
        """Return the lock of the cluster; None if no other process can use the cluster."""
        if not self._is_resolved:
            if is_cluster_overridden(item):
                return None
            self._is_resolved = True
            if self._is_needed(item.session):
                self._renewer = self._started()
        return self._renewer

    def _is_needed(self, session: pytest.Session) -> bool:
        if not self._run.settings.is_alone and not self._ends_with_run():
            return True
        # The cluster belongs to this run: only its workers, which all have these tests, use it.
        return self._run.is_worker and any(map(_is_serial, session.items))

    def _ends_with_run(self) -> bool:
        try:
            return cluster_of(self._config).ends_with_run
        except KwaitError:
            # The fixtures of the test report it.
            return True

    def _started(self) -> LockRenewer | None:
        from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE
        from pytest_kwait.suite.lock.lock import LockRenewer

        try:
            cluster = cluster_of(self._config)
        except KwaitError:
            return None
        run, shard, settings = self._run, self._run.shard, self._run.settings
        parts = (f"run {run.id}", shard and f"shard {shard}", run.worker and f"worker {run.worker}")
        renewer = LockRenewer(
            cluster.client(),
            settings.namespace or LEASE_NAMESPACE,
            ", ".join(filter(None, parts)),
            max(settings.heartbeat, 2.0),
            self._owner(cluster),
        )
        renewer.start()
        return renewer

    def _owner(self, cluster: Cluster) -> dict[str, str] | None:
        """Return the owner reference that removes our Leases if this run is killed."""
        from pytest_kwait.client.resource import LEASES
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.clock import Deadline
        from pytest_kwait.plugin.cleanup import registration_of
        from pytest_kwait.wait.context import DeadlineExceeded

        registration = registration_of(self._config, cluster)
        namespace, _, name = (registration.place() if registration is not None else "").partition(
            "/"
        )
        if not name:
            return None
        client = cluster.client()
        try:
            limit = Deadline.after(_OWNER_TIMEOUT)
            lease = ApiSession.of(client).get(LEASES, name, namespace, deadline=limit)
        except (ApiError, DeadlineExceeded):
            return None
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return {"name": name, "uid": str(lease["metadata"]["uid"])}


def _is_serial(item: pytest.Item) -> bool:
    """Return whether a test must run alone on the cluster."""
    return has_marker(item, "serial", "disruptive") and uses_cluster(item)
