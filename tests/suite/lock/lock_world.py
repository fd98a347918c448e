"""Processes that share the lock of a cluster in virtual time, and what can be done to them."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.client.availability import Availability
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.lock.leases import LOCK_NAME, LockLeases, read_queue
from pytest_kwait.suite.lock.lock import ClusterLock, LockTimeout
from pytest_kwait.wait.context import DeadlineExceeded
from tests.leaderelection.lease_store import LeaseStore
from tests.leaderelection.virtual_time import FaultySession, Host

if TYPE_CHECKING:
    import random

    from pytest_kwait.client.session import ApiSession
    from tests.leaderelection.virtual_time import VirtualTime

Obj = dict[str, Any]


class Leases(LeaseStore):
    """The Leases of the lock."""

    @property
    def queue(self) -> list[str]:
        return [each.test for each in read_queue(self.objects.get(LOCK_NAME))]

    @property
    def members(self) -> list[str]:
        return [name for name in self.objects if name != LOCK_NAME]


class LeasesSession(FaultySession):
    """Requests of one process over a bad network."""

    availability = Availability("https://fake")

    def __init__(self, leases: Leases, host: Host, rng: random.Random) -> None:
        super().__init__(leases, host, rng)
        self.clock = host


class Span:
    """One test of a process: from when it had the lock to when it was over."""

    def __init__(self, test: str, shared: bool, asked: float, begun: float) -> None:
        self.test = test
        self.shared = shared
        self.asked = asked
        self.begun = begun
        self.over: float | None = None
        self.lost = False


class Process:
    """A worker: one thread runs tests, one renews, and something watches the queue.

    Args:
        world: where it is.
        leases: the cluster.
        name: its readable name.
        rng: chooses.
        tests: the tests to run, each as (name, shared, seconds, pause before).
        duration: seconds after which it has vanished.
    """

    def __init__(
        self,
        world: VirtualTime,
        leases: Leases,
        name: str,
        rng: random.Random,
        tests: list[tuple[str, bool, float, float]],
        *,
        duration: float = 6.0,
        limit: float = 1e6,
    ) -> None:
        self.world, self.leases, self.name = world, leases, name
        started = rng.uniform(0, 1e6)
        self.main, self.other = Host(world, started=started), Host(world, started=started)
        self.sessions = [LeasesSession(leases, host, rng) for host in (self.main, self.other)]
        self._tests, self._limit, self._rng = tests, limit, rng
        ledger = LockLeases(cast("ApiSession", _Switch(self)), "ns", name, duration)
        self.lock = ClusterLock(ledger)
        self.spans: list[Span] = []
        self.refused: list[str] = []
        self.said: list[str] = []
        self._wake = threading.Event()
        self._seen: list[str] = []
        self._idents: list[int] = []
        self.main.start(self._run)
        self.other.start(self._maintain)
        self._follow()

    @property
    def verbs(self) -> list[str]:
        return [verb for session in self.sessions for verb in session.verbs]

    @property
    def over(self) -> bool:
        return self.main.over

    def thread(self) -> int:
        """Which thread this is: 1 for the one that renews."""
        return int(threading.get_ident() in self._idents)

    def freeze(self, seconds: float) -> None:
        for host in (self.main, self.other):
            host.freeze(seconds)

    def kill(self) -> None:
        self.freeze(1e9)

    def trouble(self, part: float, *, cut_off: bool = False) -> None:
        for session in self.sessions:
            session.trouble, session.cut_off = part, cut_off

    def _run(self) -> None:
        for test, shared, seconds, pause in self._tests:
            self.main.sleep(pause)
            asked = self.world.now
            deadline = Deadline.after(self._limit, self.main)
            acquire = self.lock.acquire_shared if shared else self.lock.acquire_exclusive
            try:
                acquire(test, deadline, self.said.append)
            except LockTimeout as error:
                self.refused.append(str(error))
                continue
            span = Span(test, shared, asked, self.world.now)
            self.spans.append(span)
            self.main.sleep(seconds)
            span.lost = self.lock.lost()
            span.over = self.world.now
            span.lost |= not self.lock.release()

    def _maintain(self) -> None:
        self._idents.append(threading.get_ident())
        while not self.main.over:
            self.other.wait(self._wake, self.lock.pace)
            self._wake.clear()
            # As a `LeaseRenewer`: the next one may succeed.
            with contextlib.suppress(ApiError, DeadlineExceeded):
                self.lock.maintain()

    def _follow(self) -> None:
        """Watch the queue: what is there now is heard of a little later."""
        if self.over:
            return
        queue = read_queue(self.leases.objects.get(LOCK_NAME))
        ids = [each.id for each in queue]
        frozen = self.main.frozen_until > self.world.now or self.sessions[0].cut_off
        if ids != self._seen and not frozen:
            self._seen = ids
            if self.lock.on_queue_change(queue):
                self._wake.set()
        self.world.at(self.world.now + self._rng.uniform(0.05, 0.3), self._follow)


class _Switch:
    """The session of whichever thread asks: each has a network of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.clock = _Clock(process)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process.sessions[self._process.thread()], name)


class _Clock:
    """The clock of whichever thread asks."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        hosts = (self._process.main, self._process.other)
        return getattr(hosts[self._process.thread()], name)
