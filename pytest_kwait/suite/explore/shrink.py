"""Shrink the perturbations of a failing run to a small set that still fails.

A failure may depend on timing as well, as of programs in pods. So all of the seed runs up to five
times first:

- It fails three times in a row: a set counts as failing if it fails twice in a row.
- It fails at least twice: a set counts as failing if one of so many runs fails that a set which
  fails as often as the seed is missed in at most one of ten cases.
- It fails once or never: nothing is shrunk.

A result fails at least half as often as all of the seed, in up to five more runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kwait.clock import Deadline

MAX_RUNS = 60
"""Runs that the shrinking of one failure may take."""

_REPETITIONS = 5
"""Runs of all of the seed, and of the result."""

_CERTAIN = 3
"""Failures in a row, of the first runs, after which no further one is needed."""

_THRESHOLD = 2
"""Failures of all of the seed below which nothing is shrunk."""

_MISSED = 0.1
"""Share of sets that fail as often as all of the seed, but whose runs happen to pass."""

_RESULT_SHARE = 0.5
"""Share of the seed's rate of failures that the result has at least."""

_RESERVE = 3 * _REPETITIONS
"""Runs that are kept for the result, and for two others if it does not fail again."""


class Trial(NamedTuple):
    """One run of the test.

    Args:
        failed: whether it failed as the run that is shrunk.
        decisions: the decisions that were applied, as `NAME@EVENT`.
    """

    failed: bool
    decisions: Sequence[str] = ()


@dataclass(slots=True)
class Shrunk:
    """The result of shrinking.

    Args:
        only: the perturbations or decisions that still fail, empty for a failure without any; None
            for all of the seed.
        failed: the number of runs that failed with them.
        runs: the number of runs with them.
        is_complete: whether it ended before its bounds.
        seed_failed: the number of runs that failed with all of the seed.
        seed_runs: the number of runs with all of the seed; 0 if it fails without any.
    """

    only: list[str] | None = None
    failed: int = 0
    runs: int = 0
    is_complete: bool = True
    seed_failed: int = 0
    seed_runs: int = 0

    @property
    def is_confirmed(self) -> bool:
        """True if a further run has failed."""
        return self.failed > 0

    @property
    def is_probabilistic(self) -> bool:
        """True if all of the seed fails in some runs alone."""
        return self.seed_failed < self.seed_runs

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The order of results for one failure, the best first."""
        return not self.is_confirmed, self.only is None, len(self.only or ())


class Budget:
    """The runs and the time that shrinking may take.

    Args:
        deadline: the end of its time.
        runs: its runs, with those that confirm the result.
    """

    def __init__(self, deadline: Deadline, runs: int = MAX_RUNS) -> None:
        self.used = 0
        self.is_exhausted = False
        self._deadline = deadline
        self._runs = runs

    def allows(self, reserve: int = _RESERVE) -> bool:
        """Return whether a further run may begin.

        Args:
            reserve: the runs that are kept for later.
        """
        allowed = not self._deadline.expired and self.used < self._runs - reserve
        self.is_exhausted = self.is_exhausted or not allowed
        return allowed


def minimize(
    items: Sequence[str],
    fails: Callable[[list[str]], bool],
    allows: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Return a part of `items` that fails, of which no single one can be left out.

    Args:
        items: a list that fails.
        fails: whether a part of it fails.
        allows: whether a further part may be tried; else the smallest one so far is returned.

    Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, ddmin.
    """
    current, parts = list(items), 2
    while len(current) >= 2:
        chunks = _split(current, min(parts, len(current)))
        failing_part = None
        for candidate in _candidates(chunks):
            if not allows():
                return current
            if fails(candidate):
                failing_part = candidate
                break
        if failing_part is None:
            if parts >= len(current):
                return current
            parts = min(2 * parts, len(current))
        else:
            # A chunk is split in two again; of a complement the other chunks stay.
            parts = max(parts - 1, 2) if len(failing_part) > len(chunks[0]) else 2
            current = failing_part
    return current


def _split(items: list[str], parts: int) -> list[list[str]]:
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[bounds[part] : bounds[part + 1]] for part in range(parts)]


def _candidates(chunks: list[list[str]]) -> list[list[str]]:
    """Return each chunk, then each complement of one; of two chunks they are the same."""
    if len(chunks) == 2:
        return chunks
    complements = [
        [item for other_chunk in chunks if other_chunk is not chunk for item in other_chunk]
        for chunk in chunks
    ]
    return [*chunks, *complements]


def shrink(
    decisions: Sequence[str],
    attempt: Callable[[list[str] | None], Trial],
    budget: Budget,
    harmless: Collection[str] = (),
) -> Shrunk:
    """Shrink the perturbations of a failing run.

    Args:
        decisions: those that were applied, as `NAME@EVENT`.
        attempt: runs the test under the same seed with these alone; None for all of the seed.
        budget: the runs and the time that this may take.
        harmless: decisions of runs that passed; those that no such run had are tried first.
    """
    search = _Search(attempt, budget)
    bare = search.count([], 1, _RESERVE)
    if not bare.failed:
        bare = bare.plus(search.count([], 1, _RESERVE))
    if bare.failed:
        again = search.count([], _REPETITIONS)
        # If it fails no more, the run that failed is still true.
        return search.result([], again if again.failed else bare.plus(again))
    search.whole = whole = search.count(None, _REPETITIONS, _RESERVE)
    if whole.failed < min(_THRESHOLD, whole.runs) or not whole.failed:
        return search.result(None, whole)
    suspects = [decision for decision in decisions if decision not in harmless]
    if 0 < len(suspects) < len(decisions) and search.fails(suspects):
        minimize(suspects, search.fails, budget.allows)
        return search.choose()
    names = minimize(_names_of(decisions), search.fails, budget.allows)
    remaining = [
        decision for decision in search.applied or decisions if _name_of(decision) in names
    ]
    if search.fails(remaining):
        minimize(remaining, search.fails, budget.allows)
    return search.choose()


class _Count(NamedTuple):
    failed: int
    runs: int

    def plus(self, other: _Count) -> _Count:
        return _Count(self.failed + other.failed, self.runs + other.runs)

    @property
    def is_certain(self) -> bool:
        """True if each of the runs has failed."""
        return self.failed == self.runs

    @property
    def rate(self) -> float:
        """The share of the runs that failed; 0 without runs."""
        return self.failed / self.runs if self.runs else 0.0


class _Search:
    """Runs sets and remembers the decisions of the last run that failed."""

    def __init__(self, attempt: Callable[[list[str] | None], Trial], budget: Budget) -> None:
        self._attempt = attempt
        self._budget = budget
        self.whole = _Count(0, 0)
        """The runs with all of the seed."""
        self.applied: list[str] = []
        self._failing: list[list[str]] = []
        """The sets that failed, each smaller than the one before, or of single decisions."""

    def fails(self, only: list[str]) -> bool:
        """Return whether a set counts as failing."""
        if self.whole.is_certain:
            failed = self._run(only) and self._run(only)
        else:
            trials = math.ceil(math.log(_MISSED) / math.log(1 - self.whole.rate))
            failed = any(self._run(only) for _ in range(trials))
        if failed:
            self._failing.append(only)
        return failed

    def count(self, only: list[str] | None, number: int, reserve: int = 0) -> _Count:
        """Run a set a number of times, as far as the budget allows, or until it is certain."""
        counts = _Count(0, 0)
        while counts.runs < number and self._budget.allows(reserve):
            self._budget.used += 1
            trial = self._attempt(only)
            counts = counts.plus(_Count(int(trial.failed), 1))
            if trial.failed:
                self.applied = list(trial.decisions)
            if counts.is_certain and counts.runs == _CERTAIN:
                break
        return counts

    def choose(self) -> Shrunk:
        """Return the smallest set that fails often enough, else all of the seed."""
        was_confirmed = False
        for only in reversed(self._failing):
            counts = self.count(only, _REPETITIONS)
            if counts.failed and counts.rate >= _RESULT_SHARE * self.whole.rate:
                return self.result(only, counts)
            if not (counts.runs or was_confirmed):
                # It is the smallest one if no run is left to confirm it.
                return self.result(only, counts)
            was_confirmed = True
        return self.result(None, self.whole)

    def result(self, only: list[str] | None, counts: _Count) -> Shrunk:
        is_complete = not self._budget.is_exhausted
        return Shrunk(only, counts.failed, counts.runs, is_complete, *self.whole)

    def _run(self, only: list[str]) -> bool:
        """Run a set once, if the budget allows it; return whether it failed."""
        return self.count(only, 1, _RESERVE).failed > 0


def _names_of(decisions: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(_name_of, decisions)))


def _name_of(decision: str) -> str:
    return decision.partition("@")[0]
