"""The process that owns the exploration: gives out tests, counts their runs, draws the progress.

With pytest-xdist it is the controller, and workers ask it; otherwise the process itself.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.plugin.live_status import show_progress, write_line
from pytest_kwait.suite.explore.verdict import ExploredFailure, ExploredRun, Verdict, count_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_kwait.clock import Clock
    from pytest_kwait.suite.explore.plan import Assignment, Plan

_LINE_INTERVAL = 30.0
"""Seconds between two lines of progress without a terminal."""

_BAR_WIDTH = 20


class CollectedTest(NamedTuple):
    """A collected test.

    Args:
        id: its node id.
        location: where it is defined, as in pytest's reports.
        unit: the number of its module; tests of one unit run together.
        name: its node id without what pytest-xdist adds to it.
    """

    id: str
    location: tuple[str, int | None, str]
    unit: int
    name: str


class Coordinator:
    """Gives out tests and counts their runs; thread-safe.

    Args:
        plan: what is run next.
        maxfail: the number of distinct failures that end the exploration; 0 for none.
        remove: removes a folder of artifacts that is needed no more.
    """

    def __init__(
        self,
        config: pytest.Config,
        plan: Plan,
        maxfail: int,
        remove: Callable[[str], object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.plan = plan
        self.tests: list[CollectedTest] = []
        self.verdict = Verdict(0)
        self._config = config
        self._maxfail = maxfail
        self._remove = remove
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[str, Assignment] = {}
        self._shrinking: dict[str, ExploredRun] = {}
        """The failed runs that workers shrink, which are not counted yet."""
        self._first = ""
        self._has_ended = False
        self._started = self._shown = clock.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the first test."""
        return self._clock.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        """True once nothing is given out any more."""
        return bool(self._first) and self.plan.is_over

    def join(self, worker: str, tests: list[CollectedTest]) -> str:
        """Take over the tests of a worker.

        Returns:
            why it cannot take part: it has other tests than the first one; empty if it can.
        """
        with self._lock:
            if not self._first:
                self._first = worker or "main"
                self._started = self._shown = self._clock.monotonic()
                self.tests = tests
                self.verdict = Verdict(len(tests))
                units: dict[int, list[int]] = {}
                for index, test in enumerate(tests):
                    units.setdefault(test.unit, []).append(index)
                self.plan.open(list(units.values()))
            elif [test.id for test in tests] != [test.id for test in self.tests]:
                self.plan.stop()
                return f"{worker} collected other tests than {self._first}"
        self._show()
        return ""

    def next(self, worker: str) -> Assignment | None:
        """Return what a worker runs next; None at the end."""
        with self._lock:
            assignment = self.plan.next()
            if assignment is None:
                self._running.pop(worker, None)
            else:
                self._running[worker] = assignment
            return assignment

    def add(self, worker: str, result: ExploredRun) -> bool:
        """Count a run; return whether the exploration goes on."""
        with self._lock:
            if self._has_ended:
                # Its tests have been logged.
                return False
            self._shrinking.pop(worker, None)
            running = self._running.get(worker)
            if running is not None:
                tests = [test for test in running.tests if test != result.test]
                self._running[worker] = running._replace(tests=tests)
            test = self.verdict.tests[result.test]
            unneeded = test.add(result)
            if not test.is_explored:
                self.plan.leave_out(result.test)
            if 0 < self._maxfail <= self.verdict.distinct:
                self.plan.stop()
        if unneeded:
            self._remove(unneeded)
        self._show()
        return not self.plan.is_stopped

    def shrink(self, worker: str, result: ExploredRun) -> None:
        """Note that a worker shrinks a failure, until it adds its run.

        Args:
            result: the run, which counts as it is if the worker ends before.
        """
        with self._lock:
            self._shrinking[worker] = result
        self._show()

    def record_crash(self, worker: str) -> None:
        """Count the run in which a worker crashed; another worker runs what was left."""
        with self._lock:
            shrunk = self._shrinking.pop(worker, None)
            running = self._running.pop(worker, None)
        if running is None or not running.tests:
            return
        crashed, *rest = running.tests
        self.plan.give_back(running._replace(tests=rest))
        failure = ExploredFailure("crashed", "the worker crashed while it ran this test")
        result = ExploredRun(crashed, running.seed, "failed", failure=failure)
        self.add(worker, result if shrunk is None else shrunk)

    def finish(self) -> None:
        """End the exploration: failures that are being shrunk are counted, and no more runs."""
        self.plan.stop()
        for worker, result in list(self._shrinking.items()):
            self.add(worker, result)
        with self._lock:
            self._has_ended = True
        show_progress(self._config, "")

    def _show(self) -> None:
        if self._has_ended:
            return
        if show_progress(self._config, f"exploring {self._bar()}{self._counts()}"):
            return
        with self._lock:
            now = self._clock.monotonic()
            due = now - self._shown >= _LINE_INTERVAL
            if due:
                self._shown = now
        if due and self._config.get_verbosity() > -2:
            write_line(self._config, f"exploring: {self._counts()}")

    def _bar(self) -> str:
        total, left = self.plan.total(), self.plan.left
        if total:
            part = self.verdict.runs / total
        elif left is not None:
            part = 1 - left / self.plan.effort.seconds
        else:
            return ""
        filled = round(_BAR_WIDTH * min(max(part, 0.0), 1.0))
        return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] "

    def _counts(self) -> str:
        from pytest_kwait.apimachinery.times import format_duration

        verdict, total, left = self.verdict, self.plan.total(), self.plan.left
        runs = count_runs(verdict.runs, total)
        if left is not None:
            runs = f"{count_runs(verdict.runs)}, {format_duration(round(left))} left"
        failed = f"{verdict.failed} failed"
        if verdict.failed:
            failed += f", {verdict.distinct} distinct"
        return f"{runs}, {failed}" + (", shrinking" if self._shrinking else "")
