"""Shrink the perturbations of a failing run to a small set that still fails.

A failure may depend on timing. If all of the seed fails each time, a set counts as failing if it
fails twice in a row; else if one of two runs fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.clock import Deadline

MAX_RUNS = 40
"""Runs that the shrinking of one failure may take."""

_CONFIRMATIONS = 3
"""Runs of the result."""

_RESERVE = 3 * _CONFIRMATIONS
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
    """

    only: list[str] | None = None
    failed: int = 0
    runs: int = 0
    is_complete: bool = True

    @property
    def is_confirmed(self) -> bool:
        """True if a further run has failed."""
        return self.failed > 0

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
    decisions: Sequence[str], attempt: Callable[[list[str] | None], Trial], budget: Budget
) -> Shrunk:
    """Shrink the perturbations of a failing run.

    Args:
        decisions: those that were applied, as `NAME@EVENT`.
        attempt: runs the test under the same seed with these alone; None for all of the seed.
        budget: the runs and the time that this may take.
    """
    search = _Search(attempt, budget)
    bare = search.count([], 1, _RESERVE)
    if not bare.failed:
        bare = bare.plus(search.count([], 1, _RESERVE))
    if bare.failed:
        again = search.count([], _CONFIRMATIONS)
        # If it fails no more, the run that failed is still true.
        return search.result([], again if again.failed else bare.plus(again))
    whole = search.count(None, 2, _RESERVE)
    if not whole.failed:
        whole = whole.plus(search.count(None, 1, _RESERVE))
    if not whole.failed:
        return search.result(None, whole)
    search.is_stable = whole.failed == whole.runs
    names = minimize(_names_of(decisions), search.fails, budget.allows)
    remaining = [
        decision for decision in search.applied or decisions if _name_of(decision) in names
    ]
    if search.fails(remaining):
        minimize(remaining, search.fails, budget.allows)
    return search.choose(whole)


class _Count(NamedTuple):
    failed: int
    runs: int

    def plus(self, other: _Count) -> _Count:
        return _Count(self.failed + other.failed, self.runs + other.runs)


class _Search:
    """Runs sets and remembers the decisions of the last run that failed."""

    def __init__(self, attempt: Callable[[list[str] | None], Trial], budget: Budget) -> None:
        self._attempt = attempt
        self._budget = budget
        self.is_stable = False
        """True if all of the seed fails each time; its parts are to do so as well."""
        self.applied: list[str] = []
        self._failing: list[list[str]] = []
        """The sets that failed, each smaller than the one before, or of single decisions."""

    def run(self, only: list[str] | None, reserve: int = _RESERVE) -> bool:
        """Run a set once, if the budget allows it; return whether it failed."""
        return self.count(only, 1, reserve).failed > 0

    def fails(self, only: list[str]) -> bool:
        """Return whether a set counts as failing."""
        if self.is_stable:
            failed = self.run(only) and self.run(only)
        else:
            failed = self.run(only) or self.run(only)
        if failed:
            self._failing.append(only)
        return failed

    def count(self, only: list[str] | None, number: int, reserve: int = 0) -> _Count:
        """Run a set a number of times, as far as the budget allows."""
        counts = _Count(0, 0)
        while counts.runs < number and self._budget.allows(reserve):
            self._budget.used += 1
            trial = self._attempt(only)
            counts = counts.plus(_Count(int(trial.failed), 1))
            if trial.failed:
                self.applied = list(trial.decisions)
        return counts

    def choose(self, whole: _Count) -> Shrunk:
        """Return the smallest set that fails in most runs, else the one that fails most often.

        Args:
            whole: the runs with all of the seed.
        """
        results: list[tuple[list[str] | None, _Count]] = [(None, whole)]
        for only in reversed(self._failing):
            counts = self.count(only, _CONFIRMATIONS)
            if 2 * counts.failed > counts.runs or not (counts.runs or results[1:]):
                # It is the smallest one if no run is left to confirm it.
                return self.result(only, counts)
            if counts.runs:
                results.append((only, counts))
        return self.result(*max(results, key=lambda result: result[1].failed / result[1].runs))

    def result(self, only: list[str] | None, counts: _Count) -> Shrunk:
        return Shrunk(only, counts.failed, counts.runs, not self._budget.is_exhausted)


def _names_of(decisions: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(_name_of, decisions)))


def _name_of(decision: str) -> str:
    return decision.partition("@")[0]
