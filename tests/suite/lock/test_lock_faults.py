"""Processes that share a lock and everything that can go wrong, in virtual time."""

from __future__ import annotations

import itertools
import random

import pytest

from pytest_kwait.wait import backoff
from tests.examples import scaled
from tests.leaderelection.virtual_time import VirtualTime
from tests.suite.lock.lock_world import Leases, Process, Span

DURATION = 6.0


def at_once(one: Span, other: Span, now: float) -> bool:
    """Return whether an exclusive test ran in parallel to another one."""
    if one.shared and other.shared:
        return False
    ends = [now if each.over is None else each.over for each in (one, other)]
    return max(one.begun, other.begun) < min(ends)


class Round:
    """One history: accidents for a while, then none."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        rng = self.rng = random.Random(seed)
        self.world = VirtualTime(lambda: None)
        self.leases = Leases()
        self.killed: set[str] = set()
        self.processes = [
            Process(
                self.world,
                self.leases,
                name,
                rng,
                [
                    (f"{name}{n}", rng.random() < 0.6, rng.uniform(0.1, 8), rng.uniform(0, 3))
                    for n in range(8)
                ],
                duration=DURATION,
            )
            for name in "abcd"[: rng.choice((3, 4))]
        ]
        if calm:
            return
        for each in self.processes:
            each.trouble(rng.choice((0.0, 0.1, 0.4)))
        for _ in range(12):
            self.world.at(rng.uniform(0, 60), self.harm)
        self.world.at(60.0, self.heal)

    def harm(self) -> None:
        victim = self.rng.choice(self.processes)
        lasts = self.rng.uniform(0.2, 3) * DURATION
        what = self.rng.choice(("freeze", "freeze", "freeze", "cut", "cut", "kill"))
        if what == "freeze":
            victim.freeze(lasts)
        elif what == "cut":
            victim.trouble(0.1, cut_off=True)
            self.world.at(self.world.now + lasts, lambda: victim.trouble(0.1))
        elif len(self.killed) < len(self.processes) - 2:
            self.killed.add(victim.name)
            victim.kill()

    def heal(self) -> None:
        for each in self.processes:
            each.trouble(0.0)

    def spans(self) -> list[tuple[str, Span]]:
        return [(each.name, span) for each in self.processes for span in each.spans]

    def unknown(self) -> list[str]:
        """Return overlaps of tests without a detected loss."""
        found = []
        for (whose, one), (others, other) in itertools.combinations(self.spans(), 2):
            if whose == others or not at_once(one, other, self.world.now):
                continue
            gone = {whose for each, whose in ((one, whose), (other, others)) if each.over is None}
            if not (one.lost or other.lost or gone & self.killed):
                found.append(f"{one.test} and {other.test} at {max(one.begun, other.begun)}")
        return found


@pytest.mark.parametrize("ten", range(scaled(4)))
def test_exclusive_tests_run_alone_or_detect_loss_and_all_finish(
    ten: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = 0
    for seed in range(10 * ten, 10 * ten + 10):
        monkeypatch.setattr(backoff, "_random", random.Random(seed))
        history = Round(seed)
        history.world.run_until(700.0)
        assert history.unknown() == [], seed
        left = [each.name for each in history.processes if not each.over]
        assert set(left) <= history.killed, (seed, left, history.leases.queue)
        assert all(len(each.spans) == 8 for each in history.processes if each.over), seed
        lost += sum(span.lost for _, span in history.spans())
    assert lost, "nothing was tried"


@pytest.mark.parametrize("seed", range(5))
def test_no_lock_is_lost_without_faults(seed: int) -> None:
    history = Round(seed, calm=True)
    history.world.run_until(400.0)

    spans = history.spans()
    assert not [span.test for _, span in spans if span.lost]
    assert len(spans) == 8 * len(history.processes)
    assert history.leases.queue == []
    assert not [
        (one.test, other.test)
        for (whose, one), (others, other) in itertools.combinations(spans, 2)
        if whose != others and at_once(one, other, 400.0)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_shared_tests_do_not_starve_an_exclusive_one(seed: int) -> None:
    rng, world, leases = random.Random(seed), VirtualTime(lambda: None), Leases()
    for name in "abc":
        Process(world, leases, name, rng, [(name, True, rng.uniform(1, 3), 0.0)] * 60)
    serial = Process(world, leases, "s", rng, [("s", False, 1.0, 20.0)])
    world.run_until(30.0)

    (span,) = serial.spans
    # The longest test, a look, and some requests.
    assert span.begun - span.asked < 3 + 0.5 + 1.5


@pytest.mark.parametrize("seed", range(3))
def test_exclusive_tests_do_not_starve_a_shared_one(seed: int) -> None:
    rng, world, leases = random.Random(seed), VirtualTime(lambda: None), Leases()
    streams = [Process(world, leases, name, rng, [(name, False, 2.0, 0.0)] * 60) for name in "ab"]
    shared = Process(world, leases, "s", rng, [("s", True, 1.0, 20.0)])
    world.run_until(32.0)

    (span,) = shared.spans
    passed = [each for one in streams for each in one.spans if span.asked < each.begun < span.begun]
    assert len(passed) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_exclusive_tests_run_in_the_order_of_request(seed: int) -> None:
    rng, world, leases = random.Random(seed), VirtualTime(lambda: None), Leases()
    Process(world, leases, "first", rng, [("first", False, 20.0, 0.0)])
    others = [
        Process(world, leases, f"p{n}", rng, [(f"t{n}", False, 1.0, 2.0 + 2 * n)]) for n in range(5)
    ]
    world.run_until(60.0)

    begun = {each.spans[0].test: each.spans[0].begun for each in others}
    assert sorted(begun, key=begun.__getitem__) == ["t0", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_killed_holder_expires_after_its_duration(seed: int, shared: bool) -> None:
    rng, world, leases = random.Random(seed), VirtualTime(lambda: None), Leases()
    killed = Process(world, leases, "k", rng, [("k", shared, 100.0, 0.0)], duration=DURATION)
    other = Process(world, leases, "o", rng, [("o", False, 1.0, 3.0)], duration=DURATION)
    world.run_until(10.0)
    assert killed.spans
    assert not other.spans
    killed.kill()
    # Two seconds may have passed since it was renewed; it is seen within a look.
    world.run_until(10.0 + DURATION + 2)

    (span,) = other.spans
    assert span.begun > 10.0 + DURATION * 2 / 3 - 0.2
    assert other.said[-1] == ("shared by k: k" if shared else "held by k: k")


def test_paused_holder_detects_loss() -> None:
    rng, world, leases = random.Random(1), VirtualTime(lambda: None), Leases()
    paused = Process(world, leases, "p", rng, [("p", False, 3.0, 0.0), ("p2", True, 1.0, 0.0)])
    other = Process(world, leases, "o", rng, [("o", False, 30.0, 1.0)])
    world.run_until(2.0)
    paused.freeze(20.0)
    world.run_until(60.0)

    assert [span.lost for span in paused.spans] == [True, False]
    assert not other.spans[0].lost
    assert paused.spans[1].begun > (other.spans[0].over or 0.0)


def test_paused_holder_without_contention_keeps_the_lock() -> None:
    rng, world, leases = random.Random(1), VirtualTime(lambda: None), Leases()
    paused = Process(world, leases, "p", rng, [("p", False, 3.0, 0.0)])
    world.run_until(2.0)
    paused.freeze(20.0)
    world.run_until(60.0)

    assert [span.lost for span in paused.spans] == [False]


def test_timed_out_waiter_leaves_the_queue() -> None:
    rng, world, leases = random.Random(1), VirtualTime(lambda: None), Leases()
    Process(world, leases, "h", rng, [("h", False, 30.0, 0.0)])
    waiting = Process(world, leases, "w", rng, [("w", False, 1.0, 1.0)], limit=5.0)
    world.run_until(10.0)

    assert waiting.refused == ["held by h: h"]
    assert leases.queue == ["h"]
