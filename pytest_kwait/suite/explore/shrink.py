"""Shrink the perturbations of a failing run to a small set that still fails.

A failure may depend on timing: a set counts as failing if one of a few runs fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.clock import Deadline

__all__ = ["MAX_RUNS", "Budget", "Shrunk", "Trial", "minimize", "shrink"]

MAX_RUNS = 40
"""Runs that the shrinking of one failure may take."""

_TRIES = 2
"""Runs of one set until it counts as passing."""

_CONFIRMATIONS = 3
"""Runs of the result."""


class Trial(NamedTuple):
    """One run of the test.

    Args:
        failed: whether it failed as the run that is shrunk.
        decisions: the decisions that were applied, as `NAME@EVENT`.
    """

    failed: bool
    decisions: Sequence[str] = ()


class Shrunk(msgspec.Struct, omit_defaults=True):
    """The result of shrinking.

    Args:
        only: the perturbations or decisions that still fail, empty for a failure without any; None
            for all of the seed.
        failed: the number of runs that failed with them.
        runs: the number of runs with them.
        trials: the number of runs that shrinking took.
        is_complete: whether it ended before its bounds.
    """

    only: list[str] | None = None
    failed: int = 0
    runs: int = 0
    trials: int = 0
    is_complete: bool = True

    @property
    def is_confirmed(self) -> bool:
        """Whether a further run has failed."""
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

    def allows(self, reserve: int = _CONFIRMATIONS) -> bool:
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
        found = None
        for candidate in _candidates(chunks):
            if not allows():
                return current
            if fails(candidate):
                found = candidate
                break
        if found is None:
            if parts >= len(current):
                return current
            parts = min(2 * parts, len(current))
        else:
            # A chunk is split in two again; of a complement the other chunks stay.
            parts = max(parts - 1, 2) if len(found) > len(chunks[0]) else 2
            current = found
    return current


def _split(items: list[str], parts: int) -> list[list[str]]:
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[bounds[part] : bounds[part + 1]] for part in range(parts)]


def _candidates(chunks: list[list[str]]) -> list[list[str]]:
    """Return each chunk, then each complement of one; of two chunks they are the same."""
    if len(chunks) == 2:
        return chunks
    complements = [
        [item for other in chunks if other is not chunk for item in other] for chunk in chunks
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
    plain = search.count([], _TRIES)
    if plain.failed:
        again = search.count([], _CONFIRMATIONS - plain.runs, all_of_them=True)
        counts = _Count(plain.failed + again.failed, plain.runs + again.runs)
        return search.result([], counts)
    whole = search.count(None, _CONFIRMATIONS)
    if not whole.failed:
        return search.result(None, whole)
    names = minimize(_names_of(decisions), search.fails, budget.allows)
    remaining = [each for each in search.applied or decisions if _name_of(each) in names]
    if not search.fails(remaining):
        # Other decisions of these names matter, or nothing more may be run.
        return search.confirm([names], whole)
    return search.confirm([minimize(remaining, search.fails, budget.allows), names], whole)


class _Count(NamedTuple):
    failed: int
    runs: int


class _Search:
    """Runs sets and remembers the decisions of the last one that failed."""

    def __init__(self, attempt: Callable[[list[str] | None], Trial], budget: Budget) -> None:
        self._attempt = attempt
        self._budget = budget
        self.applied: list[str] = []

    def fails(self, only: list[str] | None) -> bool:
        """Return whether one of a few runs fails."""
        return self.count(only, _TRIES).failed > 0

    def count(self, only: list[str] | None, tries: int, *, all_of_them: bool = False) -> _Count:
        """Run a set until it fails, or a number of times."""
        failed = runs = 0
        reserve = 0 if all_of_them else _CONFIRMATIONS
        while runs < tries and self._budget.allows(reserve):
            self._budget.used += 1
            trial = self._attempt(only)
            runs += 1
            if trial.failed:
                failed += 1
                self.applied = list(trial.decisions)
                if not all_of_them:
                    break
        return _Count(failed, runs)

    def confirm(self, sets: list[list[str]], whole: _Count) -> Shrunk:
        """Return the first set that fails again, else all of the seed.

        Args:
            sets: the sets, the smallest first.
            whole: the runs with all of the seed.
        """
        for only in sets:
            counts = self.count(only, _CONFIRMATIONS, all_of_them=True)
            if counts.failed or not counts.runs:
                # It fails again, or no time was left for it.
                return self.result(only, counts)
        return self.result(None, whole)

    def result(self, only: list[str] | None, counts: _Count) -> Shrunk:
        """Return the result."""
        return Shrunk(
            only, counts.failed, counts.runs, self._budget.used, not self._budget.is_exhausted
        )


def _names_of(decisions: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(_name_of, decisions)))


def _name_of(decision: str) -> str:
    return decision.partition("@")[0]
