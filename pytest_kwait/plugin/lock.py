"""Serial tests: each test holds the cluster lock, acquired before its own timeout begins.

Waiting for the lock does not count towards the test's timeout: pytest-timeout starts its timer
inside of the hook that is wrapped here. Errors of the lock are errors of the setup. Registered if
other processes may use the cluster.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.plugin.cluster import cluster_of, is_cluster_overridden, uses_cluster
from pytest_kwait.plugin.markers import InvalidMarker, settings_of
from pytest_kwait.plugin.run import has_marker, run_of
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.clock import Deadline
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.suite.lock.lock import ClusterLock, LockRenewer

_lock_holder_key = pytest.StashKey["LockHolder"]()

_OWNER_TIMEOUT = 5.0
"""Seconds for looking up the Lease of the run."""


class LockHolder:
    """Holds the cluster lock for each test of this process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._renewer: LockRenewer | None = None
        self._is_resolved = False
        self._problem: KwaitError | None = None
        self._refusal = ""
        self._lost = False
        self.lines: list[str] = []
        """Lines for the summary of the run."""

    def enter(self, item: pytest.Item) -> None:
        """Acquire the lock for a test; a failure is raised by `check`."""
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

    def check(self) -> None:
        """Raise the failure to acquire the lock, if any.

        Raises:
            KwaitError: it may not.
        """
        if self._problem is not None:
            raise self._problem

    def verify(self, item: pytest.Item) -> None:
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

    def leave(self, item: pytest.Item) -> None:
        """Release the lock of a test."""
        if self._renewer is None or self._renewer.lock.release() or self._lost:
            return
        self.lines.append(
            f"kwait: lock {self._renewer.lock.place} was lost while {item.nodeid} ran: it was "
            "removed, and others may have used the cluster since"
        )

    def close(self) -> None:
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
                what = "this serial test" if serial else "this test"
                raise KwaitError(
                    f"lock {lock.place} did not become free for {what} within {limit}: {error}"
                ) from None
            except ClusterEnded as error:
                wait.record_outcome("error", trouble=str(error))
                raise
            except ApiError as error:
                wait.record_outcome("error", trouble=str(error))
                self._refusal = f"lock {lock.place} cannot be used: {error}"
                self.close()
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
        if not run_settings(self._config).is_alone and not self._ends_with_run():
            return True
        # The cluster belongs to this run: only its workers, which all have these tests, use it.
        return hasattr(self._config, "workerinput") and any(map(_is_serial, session.items))

    def _ends_with_run(self) -> bool:
        try:
            return cluster_of(self._config).ends_with_run
        except KwaitError:
            # The fixtures of the test report it.
            return True

    def _started(self) -> LockRenewer | None:
        from pytest_kwait.plugin.run import format_shard
        from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE
        from pytest_kwait.suite.lock.lock import LockRenewer

        try:
            cluster = cluster_of(self._config)
        except KwaitError:
            return None
        run, shard = run_of(self._config), format_shard(self._config)
        parts = (f"run {run.id}", shard and f"shard {shard}", run.worker and f"worker {run.worker}")
        settings = run_settings(self._config)
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
        from pytest_kwait.client.session import Session
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
            lease = Session.of(client).get(LEASES, name, namespace, deadline=limit)
        except (ApiError, DeadlineExceeded):
            return None
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return {"name": name, "uid": str(lease["metadata"]["uid"])}


def pytest_configure(config: pytest.Config) -> None:
    """Create the holder; no lock is held yet."""
    config.stash[_lock_holder_key] = LockHolder(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the lock from before the test's timeout begins until after its teardown."""
    gate = lock_holder_of(item.config)
    gate.enter(item)
    try:
        return (yield)
    finally:
        gate.leave(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose lock could not be acquired."""
    lock_holder_of(item.config).check()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a serial test that was not alone."""
    result = yield
    lock_holder_of(item.config).verify(item)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the queue, and pass the summary lines to the controller."""
    gate = lock_holder_of(session.config)
    gate.close()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kwait_lock"] = gate.lines


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the summary lines of a worker."""
    output = getattr(node, "workeroutput", None) or {}
    lock_holder_of(node.config).lines.extend(output.get("kwait_lock", []))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print problems of the lock."""
    for line in dict.fromkeys(lock_holder_of(config).lines):
        terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the queue if the session did not finish."""
    if _lock_holder_key in config.stash:
        lock_holder_of(config).close()


def lock_holder_of(config: pytest.Config) -> LockHolder:
    """Return the lock holder of this process."""
    return config.stash[_lock_holder_key]


def _is_serial(item: pytest.Item) -> bool:
    """Return whether a test must run alone on the cluster."""
    return has_marker(item, "serial", "disruptive") and uses_cluster(item)
