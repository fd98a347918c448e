from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kwait.clock import Deadline
from pytest_kwait.suite.explore.shrink import MAX_RUNS, Budget, Shrunk, Trial, minimize, shrink
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Collection

_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A machine may be busy."""

ITEMS = [str(number) for number in range(24)]


@_UNTIMED
@given(st.sets(st.sampled_from(ITEMS), max_size=6))
def test_what_a_failure_needs_is_found(needed: set[str]) -> None:
    def fails(part: list[str]) -> bool:
        return needed <= set(part)

    found = minimize(ITEMS, fails)
    # A list is never tried empty: that is a run of its own.
    assert set(found) == (needed or {found[0]})
    assert found == sorted(found, key=ITEMS.index)


@_UNTIMED
@given(st.lists(st.booleans(), max_size=60))
def test_the_result_has_failed_whatever_fails(outcomes: list[bool]) -> None:
    failed = [ITEMS]

    def record(part: list[str]) -> bool:
        if outcomes and outcomes.pop():
            failed.append(part)
            return True
        return False

    assert minimize(ITEMS, record) == failed[-1]


@_UNTIMED
@given(st.integers(0, 30))
def test_the_bound_holds(bound: int) -> None:
    tried: list[list[str]] = []

    def fails(part: list[str]) -> bool:
        tried.append(part)
        return {"3", "17"} <= set(part)

    found = minimize(ITEMS, fails, lambda: len(tried) < bound)
    assert len(tried) <= bound
    assert {"3", "17"} <= set(found)


class Race:
    """A test that fails if all of `needed` are among its perturbations.

    Args:
        decisions: all that its seed makes.
        passes: the numbers of trials, from 1, that pass whatever is perturbed.
    """

    def __init__(
        self, decisions: list[str], needed: set[str], passes: tuple[int, ...] = ()
    ) -> None:
        self.decisions = decisions
        self.needed = needed
        self.passes = passes
        self.trials: list[list[str] | None] = []

    def attempt(self, only: list[str] | None) -> Trial:
        self.trials.append(only)
        applied = [
            each
            for each in self.decisions
            if only is None or each in only or each.partition("@")[0] in only
        ]
        failed = self.needed <= set(applied) and len(self.trials) not in self.passes
        return Trial(failed, applied)

    def shrink(self, runs: int = MAX_RUNS, harmless: Collection[str] = ()) -> Shrunk:
        budget = Budget(Deadline.after(60, FakeClock()), runs)
        return shrink(self.decisions, self.attempt, budget, harmless)


DECISIONS = [
    f"{name}@{kind} {number}"
    for name in ("work-delay", "watch-delay", "conflict")
    for kind in ("pods", "services")
    for number in (1, 2, 3)
]


def test_a_failure_is_shrunk_to_single_decisions() -> None:
    race = Race(DECISIONS, {"watch-delay@services 2"})
    result = race.shrink()
    assert result == Shrunk(["watch-delay@services 2"], 3, 3, True, 3, 3)
    assert len(race.trials) <= MAX_RUNS
    # The first runs are without any perturbation.
    assert race.trials[:2] == [[], []]


def test_decisions_that_no_passed_run_had_are_tried_first() -> None:
    suspects = ["work-delay@pods 1", "watch-delay@services 2"]
    race = Race(DECISIONS, {"watch-delay@services 2"})
    assert race.shrink(harmless={*DECISIONS} - {*suspects}).only == ["watch-delay@services 2"]
    assert race.trials[5:] == [*[suspects] * 2, suspects[:1], *[suspects[1:]] * 5]


def test_decisions_of_passed_runs_are_tried_too() -> None:
    race = Race(DECISIONS, {"watch-delay@services 2", "conflict@services 1"})
    result = race.shrink(100, harmless=["watch-delay@services 2"])
    assert result.only == ["watch-delay@services 2", "conflict@services 1"]


def test_a_failure_that_needs_two_perturbations_keeps_both() -> None:
    race = Race(DECISIONS, {"watch-delay@pods 2", "conflict@services 1"})
    assert race.shrink(100).only == ["watch-delay@pods 2", "conflict@services 1"]


def test_a_failure_without_perturbations_is_found_first() -> None:
    race = Race(DECISIONS, set())
    assert race.shrink() == Shrunk([], 3, 3)
    assert race.trials == [[], [], [], []]


def test_a_failure_without_perturbations_that_does_not_return_has_the_run_that_failed() -> None:
    assert Race(DECISIONS, set(), passes=(2, 3, 4, 5, 6)).shrink() == Shrunk([], 1, 6)
    assert Race(DECISIONS, set(), passes=(1, 3, 4, 5, 6, 7)).shrink() == Shrunk([], 1, 7)


def test_a_failure_that_does_not_return_is_reported_so() -> None:
    race = Race(DECISIONS, {"nothing of this"})
    assert race.shrink() == Shrunk(None, 0, 5, True, 0, 5)
    assert race.trials == [[], [], *[None] * 5]


@pytest.mark.parametrize("passes", [(3, 4, 5, 6), (4, 5, 6, 7)])
def test_a_failure_that_returns_once_is_not_shrunk(passes: tuple[int, ...]) -> None:
    race = Race(DECISIONS, {"watch-delay@pods 1"}, passes)
    assert race.shrink() == Shrunk(None, 1, 5, True, 1, 5)
    assert race.trials == [[], [], *[None] * 5]


def test_three_failures_in_a_row_make_a_failure_certain_and_two_do_not() -> None:
    assert Race(DECISIONS, {"watch-delay@pods 1"}).shrink().seed_runs == 3
    result = Race(DECISIONS, {"watch-delay@pods 1"}, passes=(5,)).shrink()
    assert (result.seed_failed, result.seed_runs) == (4, 5)
    assert result.only == ["watch-delay@pods 1"]


@pytest.mark.parametrize(("failures", "trials"), [(2, 5), (3, 3), (4, 2)])
def test_the_rarer_a_failure_the_more_often_a_set_is_run(failures: int, trials: int) -> None:
    # Of all of the seed, the first runs pass; of its parts, all do.
    first = 3 + 5 - failures
    race = Race(DECISIONS, {"watch-delay@pods 1"}, (*range(3, first), *range(8, 200)))
    result = race.shrink()
    assert (result.only, result.failed, result.runs) == (None, failures, 5)
    parts = [["work-delay"], ["watch-delay", "conflict"]]
    assert race.trials[7 : 7 + 2 * trials] == [part for part in parts for _ in range(trials)]


def test_a_set_that_fails_by_chance_is_no_result_of_one_that_always_fails() -> None:
    # The first trial of a part fails, the second does not.
    chance = iter([True])

    def attempt(only: list[str] | None) -> Trial:
        if only == []:
            return Trial(False)
        failed = only is None or {"conflict", "work-delay"} <= {each[:10] for each in only}
        return Trial(failed or next(chance, False), DECISIONS)

    result = shrink(DECISIONS, attempt, Budget(Deadline.after(60, FakeClock())))
    assert result.only == ["work-delay", "conflict"]


def test_a_set_that_fails_less_than_half_as_often_as_the_seed_is_no_result() -> None:
    # It fails twice while shrinking, and once of five runs afterwards.
    outcomes = [True, True, False, True, False, False, False]

    def attempt(only: list[str] | None) -> Trial:
        failed = only is None or (only == ["x"] and outcomes.pop(0))
        return Trial(failed, ["x@1", "y@1"])

    result = shrink(["x@1", "y@1"], attempt, Budget(Deadline.after(60, FakeClock())))
    assert result == Shrunk(None, 3, 3, True, 3, 3)
    assert not outcomes


class Chance:
    """A test that fails by chance if all of `needed` are among its perturbations.

    Args:
        rate: how often it fails then.
        noise: how often it fails with any perturbations.
    """

    def __init__(self, seed: int, needed: set[str], rate: float, noise: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.needed = needed
        self.rate = rate
        self.noise = noise
        self.runs = 0

    def attempt(self, only: list[str] | None) -> Trial:
        self.runs += 1
        applied = [
            each
            for each in DECISIONS
            if only is None or each in only or each.partition("@")[0] in only
        ]
        rate = self.rate if self.needed <= set(applied) else self.noise if applied else 0.0
        return Trial(self.random.random() < rate, applied)

    def shrink(self) -> Shrunk:
        return shrink(DECISIONS, self.attempt, Budget(Deadline.after(60, FakeClock())))


NEEDED = {"watch-delay@services 2"}


@pytest.mark.parametrize(("rate", "least"), [(1.0, 100), (0.9, 80), (0.6, 60), (0.4, 30), (0.1, 0)])
def test_failures_by_chance_are_shrunk_or_counted(rate: float, least: int) -> None:
    tests = [Chance(seed, NEEDED, rate) for seed in range(100)]
    results = [test.shrink() for test in tests]
    shrunk = [result for result in results if result.only == [*NEEDED]]
    assert max(test.runs for test in tests) <= MAX_RUNS
    assert len(shrunk) >= least
    for result in results:
        # No set without the cause is a result; whatever is not shrunk has its counts.
        assert result.only is None or {*result.only} & {*NEEDED, "watch-delay"}
        if result.only is None:
            assert (result.failed, result.runs) == (result.seed_failed, result.seed_runs)
        elif result.runs:
            assert result.failed / result.runs >= result.seed_failed / result.seed_runs / 2
        else:
            assert not result.is_complete


def test_a_cause_is_seldom_missed_among_failures_of_other_causes() -> None:
    results = [Chance(seed, NEEDED, 0.9, noise=0.05).shrink() for seed in range(100)]
    wrong = [
        result.only
        for result in results
        if result.only and not {*result.only} & {*NEEDED, "watch-delay"}
    ]
    assert len(wrong) <= 5


@pytest.mark.parametrize("runs", range(10, 30))
def test_runs_are_bounded_and_the_result_fails(runs: int) -> None:
    race = Race(DECISIONS, {"watch-delay@services 2"})
    result = race.shrink(runs)
    assert len(race.trials) <= runs
    if result.only is not None:
        assert {"watch-delay@services 2", "watch-delay"} & set(result.only)


def test_time_is_bounded() -> None:
    clock = FakeClock()
    race = Race(DECISIONS, {"watch-delay@services 2"})

    def attempt(only: list[str] | None) -> Trial:
        clock.advance(7)
        return race.attempt(only)

    result = shrink(DECISIONS, attempt, Budget(Deadline.after(40, clock)))
    assert not result.is_complete
    assert len(race.trials) == 6
