"""Three candidates and everything that can go wrong, in virtual time."""

from __future__ import annotations

import logging
import math
import random
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait import wait
from pytest_kwait.leaderelection import JITTER_FACTOR, LeaderElector, LeaseLock
from pytest_kwait.wait import backoff
from tests.client.session_client import SessionClient
from tests.examples import scaled
from tests.leaderelection.lease_store import LeaseStore
from tests.leaderelection.virtual_time import FaultySession, Host, VirtualTime

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

HARM = ("freeze", "freeze", "cut", "cut", "wall", "stop", "steal", "touch")

pytestmark = pytest.mark.usefixtures("_quiet")

DURATIONS = [(15.0, 10.0, 2.0), (3.0, 2.0, 0.5), (2.5, 1.5, 0.4)]


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    # A hundred histories of errors are not to be kept.
    caplog.set_level(logging.CRITICAL, "pytest_kwait.leaderelection")


class Candidate:
    """An elector on a host of its own, started again whenever it has ended."""

    def __init__(
        self, world: VirtualTime, store: LeaseStore, name: str, rng: random.Random, release: bool
    ) -> None:
        self.name = name
        self.host = Host(world, started=rng.uniform(0, 1e6))
        self.session = FaultySession(store, self.host, rng)
        self.lease, self.renew, self.retry = rng.choice(DURATIONS)
        self.terms: list[float] = []
        client = cast("ApiClient", SessionClient(self.session))
        self.elector = LeaderElector(
            LeaseLock(client, "ns", "lock", name),
            lease_duration=self.lease,
            renew_deadline=self.renew,
            retry_period=self.retry,
            release_on_cancel=release,
            on_started_leading=lambda ctx: self.terms.append(world.now),
            on_stopped_leading=lambda: None,
            clock=self.host,
        )
        self._over = False
        self._cancel: wait.CancelFunc = lambda cause=None: None
        self.host.start(self._live)

    def stop(self, *, for_good: bool = False) -> None:
        self._over |= for_good
        self._cancel()

    def _live(self) -> None:
        while not self._over:
            ctx, self._cancel = wait.with_cancel(wait.background(self.host))
            self.elector.run(ctx)
            self.host.sleep(0.1)


class Round:
    """One history: accidents for some leases' time, then none."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        rng = self.rng = random.Random(seed)
        self.world = VirtualTime(self.watch)
        self.store = LeaseStore()
        self.candidates: list[Candidate] = []
        for name in "abc":
            release = rng.random() < 0.5
            self.candidates.append(Candidate(self.world, self.store, name, rng, release))
        self.slowest = max(each.lease for each in self.candidates)
        self.quiet_from = 6 * self.slowest
        self.leaders: list[tuple[float, str]] = []
        if calm:
            return
        for each in self.candidates:
            each.session.trouble = rng.choice((0.05, 0.2, 0.5))
        for _ in range(24):
            self.world.at(rng.uniform(0, self.quiet_from), self.harm)
        self.world.at(self.quiet_from, self.heal)

    def watch(self) -> None:
        """Never two leaders."""
        leading = [each.name for each in self.candidates if each.elector.is_leader]
        assert len(leading) <= 1, f"{leading} lead at {self.world.now}"
        if leading and (not self.leaders or self.leaders[-1][1] != leading[0]):
            self.leaders.append((self.world.now, leading[0]))

    def harm(self) -> None:
        """Do something to somebody, more often than not to who leads."""
        leading = [each for each in self.candidates if each.elector.is_leader]
        victim = self.rng.choice((leading or self.candidates) * 2 + self.candidates)
        what = self.rng.choice(HARM)
        lasts = self.rng.uniform(0.2, 2) * victim.lease
        if what == "freeze":
            victim.host.freeze(lasts)
        elif what == "cut":
            victim.session.cut_off = True
            self.world.at(self.world.now + lasts, lambda: setattr(victim.session, "cut_off", False))
        elif what == "wall":
            victim.host.wall += self.rng.choice((-86400, -victim.retry, victim.retry, 1e7))
        elif what == "stop":
            victim.stop()
        elif what == "steal":
            # Whoever is robbed and cut off believes in its own lease for as long as that lasts.
            lasting = math.ceil(self.slowest)
            self.change(spec={"holderIdentity": "thief", "leaseDurationSeconds": lasting})
        elif what == "touch":
            self.change(metadata={"labels": {"at": str(self.world.now)}})

    def change(self, **parts: dict[str, Any]) -> None:
        if self.store.lease is not None:
            lease = self.store.get()
            for name, part in parts.items():
                lease[name] |= part
            self.store.put(lease)

    def heal(self) -> None:
        for each in self.candidates:
            each.session.cut_off = False
            each.session.trouble = 0.0
            each.host.frozen_until = 0.0

    def end(self) -> None:
        for each in self.candidates:
            each.stop(for_good=True)
        self.world.run_until(self.world.now + 100)
        assert all(each.host.over for each in self.candidates)


def live(seed: int) -> int:
    """Live through one history; return how often the leader changed."""
    history = Round(seed)
    world, slowest = history.world, history.slowest
    world.run_until(history.quiet_from)
    # A request takes half a renew deadline at most, three times that if it comes too late; then a
    # lease runs out, a thief's perhaps, and is looked at again.
    longest = max(each.renew for each in history.candidates)
    retry = max(each.retry for each in history.candidates)
    world.run_until(world.now + 2 * longest + slowest + retry * (1 + JITTER_FACTOR) + 1)
    (leader,) = (each.name for each in history.candidates if each.elector.is_leader)
    assert history.leaders[-1][1] == leader == history.store.holder
    world.run_until(world.now + slowest)
    assert history.leaders[-1][1] == leader, "nothing has happened, and it leads no more"
    history.end()
    return len(history.leaders) - 1


@pytest.mark.parametrize("ten", range(scaled(10)))
def test_never_two_leaders_and_always_one_again(ten: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = []
    for seed in range(10 * ten, 10 * ten + 10):
        monkeypatch.setattr(backoff, "_random", random.Random(seed))
        changes.append(live(seed))
    assert sum(changes) >= 5, "nothing was tried"


@pytest.mark.parametrize("seed", range(scaled(20)))
def test_a_killed_leader_is_followed_within_lease_and_retry(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "_random", random.Random(seed))
    history = Round(seed, calm=True)
    world = history.world
    killed_at = random.Random(seed).uniform(0.5, 20)
    world.run_until(killed_at)
    (leader,) = (each for each in history.candidates if each.elector.is_leader)
    leader.host.freeze(1000)
    retry = max(each.retry for each in history.candidates)
    # Requests take up to a tenth of a second, there and back; two of them are needed.
    world.run_until(killed_at + math.ceil(leader.lease) + retry + 0.4)
    (follower,) = (each for each in history.candidates if each.elector.is_leader)
    assert follower is not leader
    history.heal()
    history.end()


def test_the_same_seed_is_the_same_history(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for _ in range(2):
        monkeypatch.setattr(backoff, "_random", random.Random(7))
        history = Round(7)
        history.world.run_until(history.quiet_from)
        told.append((history.leaders, history.store.writes))
        history.end()
    assert told[0] == told[1]
