"""Virtual time for several threads, of which one runs at a time, and harm to their requests."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import ApiError
from pytest_kwait.wait import DeadlineExceeded
from tests.leaderelection.lease_store import LeaseStore, StoreSession

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pytest_kwait.clock import Deadline

_EPOCH = 1_767_225_600.0


class VirtualTime:
    """The time of all hosts: it moves when each of them waits.

    Args:
        watch: called after each step, in whatever state that left.
    """

    def __init__(self, watch: Callable[[], object]) -> None:
        self.now = 0.0
        self.hosts: list[Host] = []
        self.baton = _held()
        self._watch = watch
        self._calls: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def at(self, moment: float, call: Callable[[], object]) -> None:
        """Call at a moment, while everybody waits."""
        heapq.heappush(self._calls, (moment, next(self._order), call))

    def run_until(self, moment: float) -> None:
        """Let time pass."""
        while True:
            host = min(self.hosts, key=lambda each: each.due, default=None)
            due = math.inf if host is None else host.due
            if self._calls and self._calls[0][0] <= min(due, moment):
                self.now = max(self.now, self._calls[0][0])
                heapq.heappop(self._calls)[2]()
            elif host is not None and due <= moment:
                self.now = max(self.now, due)
                host.go.release()
                assert self.baton.acquire(timeout=10), "a thread does not come back"
            else:
                self.now = moment
                self._watch()
                return
            self._watch()


@dataclass
class Host:
    """One process: its thread, its clock and what is done to it. A `Clock`.

    Args:
        world: where it is.
        started: what its monotonic clock says at the beginning of the world.
    """

    world: VirtualTime
    started: float
    wall: float = 0.0
    frozen_until: float = 0.0
    go: threading.Lock = field(default_factory=lambda: _held())
    _event: threading.Event | None = None
    _until: float = 0.0
    _over: bool = False

    def start(self, run: Callable[[], object]) -> None:
        """Run a program on it from the next step on."""
        self.world.hosts.append(self)

        def program() -> None:
            self.go.acquire()
            try:
                run()
            finally:
                self._over = True
                self.world.baton.release()

        threading.Thread(target=program, daemon=True).start()

    @property
    def due(self) -> float:
        """When it goes on."""
        if self._over:
            return math.inf
        woken = self._event is not None and self._event.is_set()
        return max(self.world.now if woken else self._until, self.frozen_until)

    @property
    def over(self) -> bool:
        """Whether its program has ended."""
        return self._over

    def freeze(self, seconds: float) -> None:
        """Let it do nothing for a while."""
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)

    def monotonic(self) -> float:
        return self.started + self.world.now

    def time(self) -> float:
        return _EPOCH + self.world.now + self.wall

    def sleep(self, seconds: float) -> None:
        self.wait(threading.Event(), max(0.0, seconds))

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        if not event.is_set() and (timeout is None or timeout > 0):
            self._event = event
            self._until = math.inf if timeout is None else self.world.now + timeout
            self.world.baton.release()
            self.go.acquire()
        return event.is_set()


class FaultySession(StoreSession):
    """Requests of one host over a network that loses, delays, refuses and repeats nothing.

    Args:
        store: the server.
        host: whose requests.
        rng: chooses what happens to each.
    """

    def __init__(self, store: LeaseStore, host: Host, rng: random.Random) -> None:
        super().__init__(store)
        self._host = host
        self._rng = rng
        self.cut_off = False
        self.trouble = 0.0
        """How many of the requests meet with an accident."""

    def ask(self, verb: str, call: Any, deadline: Deadline) -> Any:
        self.verbs.append(verb)
        left = deadline.remaining
        if left <= 0:
            raise DeadlineExceeded("not asked")
        accident = self._rng.random() < self.trouble
        kind = self._rng.choice(("refused", "error", "lost", "late", "slow")) if accident else ""
        if self.cut_off:
            kind = "silent"
        there, back = self._rng.uniform(0.001, 0.05), self._rng.uniform(0.001, 0.05)
        if kind == "refused":
            raise ApiError("nobody listens", reason="ConnectionRefused")
        if kind == "silent":
            self._give_up(left)
        if kind == "late":  # it arrives when nobody waits for the answer any more
            self._host.world.at(
                self._host.world.now + left * 3 * self._rng.random(), _quietly(call)
            )
            self._give_up(left)
        if kind == "slow":
            there, back = left * self._rng.random(), left * self._rng.random()
        self._host.sleep(there)
        if kind == "error":
            raise ApiError("etcdserver: leader changed", status=500, reason="InternalError")
        answer = call()
        if kind == "lost" or there + back > left:
            self._host.sleep(min(back, left - there))
            raise ApiError("no answer", reason="ConnectionReset")
        self._host.sleep(back)
        return answer

    def _give_up(self, left: float) -> None:
        self._host.sleep(left)
        raise DeadlineExceeded("no complete answer")


def _held() -> threading.Lock:
    """Return a lock that one thread waits for until another lets go of it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


def _quietly(call: Callable[[], object]) -> Callable[[], None]:
    def late() -> None:
        try:
            call()
        except ApiError:
            return  # nobody hears it

    return late
