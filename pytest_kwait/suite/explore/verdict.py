"""The verdict of an exploration: runs, distinct failures, and the commands that reproduce them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.suite.explore.shrink import Shrunk  # noqa: TC001 - read by decoders

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_SHOWN = 8
"""Perturbations of a failure that are listed."""

_MAX_INLINE = 300
"""Characters of a list of perturbations in a command; a longer one is a file."""


@dataclass(slots=True)
class ExploredFailure:
    """How a run failed.

    Args:
        signature: equal for failures that are the same.
        headline: the failure in one line.
        applied: the number of perturbations in the run; None if it is not known.
        shrunk: the perturbations that still fail; None if that was not tried.
        folder: the folder of its artifacts; empty for none.
    """

    signature: str
    headline: str
    applied: int | None = None
    shrunk: Shrunk | None = None
    folder: str = ""


@dataclass(slots=True)
class ExploredRun:
    """One run of a test.

    Args:
        test: the index of the test.
        outcome: `passed`, `failed`, `skipped` or `xfailed`.
        is_explored: whether it used the cluster, so that it can be perturbed.
        failure: how it failed; None if it did not.
        reports: pytest's reports, of the first passed run and of the first run of a failure.
    """

    test: int
    seed: int
    outcome: str
    is_explored: bool = True
    failure: ExploredFailure | None = None
    reports: list[Any] = field(default_factory=list)


class DistinctFailure:
    """A failure of one or more runs of a test.

    Args:
        result: the run that stands for them: of the smallest confirmed perturbations.
    """

    def __init__(self, result: ExploredRun) -> None:
        self.result = result
        self.runs = 1

    @property
    def failure(self) -> ExploredFailure:
        """How the run failed."""
        if self.result.failure is None:
            raise ValueError("the run did not fail")
        return self.result.failure

    def add(self, result: ExploredRun) -> str:
        """Count a further run.

        Returns:
            the folder of artifacts that is needed no more; empty for none.
        """
        self.runs += 1
        old, new = self.failure, result.failure
        if new is None or not result.reports:
            return ""
        if old.shrunk is None or (new.shrunk is not None and new.shrunk.rank < old.shrunk.rank):
            self.result = result
            return old.folder
        return new.folder


class TestVerdict:
    """The runs of one test, and its distinct failures."""

    __test__ = False

    def __init__(self) -> None:
        self.runs = 0
        self.failed = 0
        self.is_explored = False
        self.outcome = ""
        """The outcome of the runs that did not fail."""
        self.reports: list[Any] = []
        """pytest's reports of a run that did not fail."""
        self._failures: dict[str, DistinctFailure] = {}

    @property
    def passed(self) -> int:
        """The number of runs that did not fail."""
        return self.runs - self.failed

    @property
    def failures(self) -> list[DistinctFailure]:
        """The distinct failures, the most frequent first."""
        return sorted(self._failures.values(), key=lambda failure: -failure.runs)

    def add(self, result: ExploredRun) -> str:
        """Count a run.

        Returns:
            the folder of artifacts that is needed no more; empty for none.
        """
        self.runs += 1
        self.is_explored = self.is_explored or result.is_explored
        if result.failure is None:
            self.outcome = self.outcome or result.outcome
            self.reports = self.reports or result.reports
            return ""
        self.failed += 1
        known = self._failures.get(result.failure.signature)
        if known is None:
            self._failures[result.failure.signature] = DistinctFailure(result)
            return ""
        return known.add(result)

    def __str__(self) -> str:
        if not self.failed and self.outcome == "skipped":
            return "skipped"
        if not self.is_explored:
            return "not explored: it does not use the cluster"
        return f"{self.passed} of {self.runs} passed"


class Verdict:
    """The runs of all tests.

    Args:
        tests: the number of tests.
    """

    def __init__(self, tests: int) -> None:
        self.tests = [TestVerdict() for _ in range(tests)]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(test.runs for test in self.tests)

    @property
    def failed(self) -> int:
        """The number of failed runs."""
        return sum(test.failed for test in self.tests)

    @property
    def distinct(self) -> int:
        """The number of distinct failures of all tests."""
        return sum(len(test.failures) for test in self.tests)


def count_runs(number: int, of: int | None = None) -> str:
    """Return `1 run`, `7 runs` or `7 of 20 runs`."""
    if of is not None:
        return f"{number} of {of} {'run' if of == 1 else 'runs'}"
    return f"{number} {'run' if number == 1 else 'runs'}"


def describe_cause(failure: ExploredFailure) -> list[str]:
    """Return lines that say which perturbations a failure needs, and how surely."""
    shrunk = failure.shrunk
    if shrunk is None:
        if failure.applied is None:
            return ["not shrunk"]
        return [f"not shrunk: {_count_perturbations(failure.applied)} in this run"]
    number = _count_perturbations(failure.applied)
    bounded = "" if shrunk.is_complete else "; the bounds of shrinking were reached"
    again = f"failed in {count_runs(shrunk.failed, shrunk.runs)}"
    if shrunk.only == [] and shrunk.is_confirmed:
        return [f"fails without perturbations ({again}{bounded})"]
    if shrunk.only is None:
        if not shrunk.runs:
            return [f"not shrunk: {number} in this run; the time was up"]
        if shrunk.failed < shrunk.runs:
            heading = "not reproducible" if shrunk.is_confirmed else "not reproduced"
            return [f"{heading}: {number} in this run; it {again} with the same seed{bounded}"]
        return [f"all {number} of the seed ({again}{bounded})"]
    if shrunk.is_probabilistic:
        again += f", all {number} of the seed in {shrunk.seed_failed} of {shrunk.seed_runs}"
    again += bounded
    confirmed = again if shrunk.runs else "not confirmed: the time was up"
    decisions, hidden_count = shrunk.only[:_MAX_SHOWN], len(shrunk.only) - _MAX_SHOWN
    return [
        f"{_count_perturbations(len(shrunk.only))} ({confirmed}):",
        *(f"  {decision}" for decision in decisions),
        *([f"  and {hidden_count} more"] if hidden_count > 0 else []),
    ]


def _count_perturbations(number: int | None) -> str:
    return f"{number or 0} {'perturbation' if number == 1 else 'perturbations'}"


def make_command(
    test: str,
    seed: int,
    level: str,
    only: Sequence[str] | None,
    options: Sequence[str] = (),
    file: str = "",
) -> str:
    """Return the command that reproduces a failure, in one line to be copied.

    Args:
        test: the test as pytest takes it.
        level: the level of the exploration.
        only: the perturbations that still fail; None for all of the seed.
        options: further options of this run.
        file: a file with the perturbations, in place of a long list.
    """
    words = ["pytest", test]
    if only is None or only:
        words += ["--kwait-explore", "1", "--kwait-seed", str(seed)]
        if level != "usual":
            words += ["--kwait-explore-level", level]
        if file:
            # With a blank pytest would take the file for one of arguments.
            words += [f"--kwait-perturbations=@{file}"]
        elif only and not needs_file(only):
            words += ["--kwait-perturbations", ",".join(only)]
    return shlex.join([*words, *options])


def needs_file(only: Sequence[str] | None) -> bool:
    """Return whether perturbations are too many for a command."""
    return len(",".join(only or ())) > _MAX_INLINE
