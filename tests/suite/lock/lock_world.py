"""Processes that share the lock of a cluster in virtual time, and what can be done to them."""

from __future__ import annotations

import contextlib
import copy
import threading
from types import SimpleNamespace
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


class Leases:
    """The Leases of one namespace; writes need the current resource version."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.writes = 0

    @property
    def queue(self) -> list[str]:
        return [each.test for each in read_queue(self.objects.get(LOCK_NAME))]

    @property
    def members(self) -> list[str]:
        return [name for name in self.objects if name != LOCK_NAME]

    def list(self) -> Any:
        items = [SimpleNamespace(object=copy.deepcopy(each)) for each in self.objects.values()]
        return SimpleNamespace(items=items)

    def create(self, obj: Obj) -> Obj:
        if obj["metadata"]["name"] in self.objects:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        return self._put(obj, f"uid-{self.writes}")

    def replace(self, obj: Obj) -> Obj:
        found = self._found(obj["metadata"]["name"])
        if obj["metadata"]["resourceVersion"] != found["resourceVersion"]:
            raise ApiError("it was changed", status=409, reason="Conflict")
        return self._put(obj, found["uid"])

    def delete(self, name: str, uid: str, version: str | None) -> Obj:
        found = self._found(name)
        if uid != found["uid"] or version not in (None, found["resourceVersion"]):
            raise ApiError("it was changed", status=409, reason="Conflict")
        return self.objects.pop(name)

    def _found(self, name: str) -> Obj:
        if name not in self.objects:
            raise ApiError("no such lease", status=404, reason="NotFound")
        return cast("Obj", self.objects[name]["metadata"])

    def _put(self, obj: Obj, uid: str) -> Obj:
        self.writes += 1
        made = copy.deepcopy(obj)
        made["metadata"] |= {"uid": uid, "resourceVersion": str(self.writes)}
        self.objects[made["metadata"]["name"]] = made
        return copy.deepcopy(made)


class LeasesSession(FaultySession):
    """Requests of one process over a bad network."""

    availability = Availability("https://fake")

    def __init__(self, leases: Leases, host: Host, rng: random.Random) -> None:
        super().__init__(LeaseStore(), host, rng)
        self.leases = leases
        self.clock = host

    def list(
        self, resource: Any, namespace: str, *, label_selector: str, deadline: Deadline
    ) -> Any:
        return self.ask("list", self.leases.list, deadline)

    def create(self, resource: Any, obj: Obj, namespace: str, *, deadline: Deadline) -> Obj:
        return cast("Obj", self.ask("create", lambda: self.leases.create(obj), deadline))

    def replace(self, resource: Any, obj: Obj, namespace: str, *, deadline: Deadline) -> Obj:
        return cast("Obj", self.ask("replace", lambda: self.leases.replace(obj), deadline))

    def delete(
        self,
        resource: Any,
        name: str,
        namespace: str,
        *,
        uid: str,
        resource_version: str | None,
        deadline: Deadline,
    ) -> Obj:
        call = lambda: self.leases.delete(name, uid, resource_version)  # noqa: E731
        return cast("Obj", self.ask("delete", call, deadline))


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
