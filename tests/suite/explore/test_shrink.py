from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kwait.clock import Deadline
from pytest_kwait.suite.explore.shrink import MAX_RUNS, Budget, Shrunk, Trial, minimize, shrink
from pytest_kwait.testing import FakeClock

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

    def shrink(self, runs: int = MAX_RUNS) -> Shrunk:
        return shrink(self.decisions, self.attempt, Budget(Deadline.after(60, FakeClock()), runs))


DECISIONS = [
    f"{name}@{kind} {number}"
    for name in ("work-delay", "watch-delay", "conflict")
    for kind in ("pods", "services")
    for number in (1, 2, 3)
]


def test_a_failure_is_shrunk_to_single_decisions() -> None:
    race = Race(DECISIONS, {"watch-delay@services 2"})
    result = race.shrink()
    assert result == Shrunk(["watch-delay@services 2"], 3, 3)
    assert len(race.trials) <= MAX_RUNS
    # The first runs are without any perturbation.
    assert race.trials[:2] == [[], []]


def test_a_failure_that_needs_two_perturbations_keeps_both() -> None:
    race = Race(DECISIONS, {"watch-delay@pods 2", "conflict@services 1"})
    assert race.shrink(100).only == ["watch-delay@pods 2", "conflict@services 1"]


def test_a_failure_without_perturbations_is_found_first() -> None:
    race = Race(DECISIONS, set())
    assert race.shrink() == Shrunk([], 3, 3)
    assert race.trials == [[], [], [], []]


def test_a_failure_without_perturbations_that_does_not_return_has_the_run_that_failed() -> None:
    assert Race(DECISIONS, set(), passes=(2, 3, 4)).shrink() == Shrunk([], 1, 4)
    assert Race(DECISIONS, set(), passes=(1, 3, 4, 5)).shrink() == Shrunk([], 1, 5)


def test_a_failure_that_does_not_return_is_reported_so() -> None:
    race = Race(DECISIONS, {"nothing of this"})
    assert race.shrink() == Shrunk(None, 0, 3)
    assert race.trials == [[], [], None, None, None]


def test_a_failure_that_does_not_always_return_needs_one_of_two_runs() -> None:
    # The first run of the seed happens to pass, and the first one of each set thereafter.
    race = Race(DECISIONS, {"conflict@pods 1"}, passes=(3, 5, 7))
    assert race.shrink().only == ["conflict@pods 1"]


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


def test_the_set_that_fails_more_often_is_the_result() -> None:
    outcomes = {"x": iter([True, False] + [False] * 9)}

    def attempt(only: list[str] | None) -> Trial:
        if only is None:
            # It passes first: a failure that does not always return.
            return Trial(next(whole), ["x@1", "y@1"])
        if only == ["x"]:
            return Trial(next(outcomes["x"]), ["x@1"])
        return Trial(False)

    whole = iter([False, True])
    result = shrink(["x@1", "y@1"], attempt, Budget(Deadline.after(60, FakeClock())))
    assert (result.only, result.failed, result.runs) == (None, 1, 2)


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
