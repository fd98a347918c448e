"""Hears of the waits of a process and writes them down as they begin, end and are explained."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING

from pytest_kwait.suite.report.journal import JournalEntry, WaitStarted
from pytest_kwait.suite.report.records import record_ended_wait, record_explanation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.suite.report.journal import Journal

__all__ = ["WaitRecorder"]

_MAX_UNEXPLAINED = 100
"""How many waits may be without an explanation at a time; the oldest then stay without."""


class WaitRecorder:
    """Writes what it hears of waits to a journal; keeps nothing but what is not over.

    Args:
        journal: where to.
        run: the id of the run's record.
        shard: the run's shard; may be empty.
        worker: this process among those of pytest-xdist; may be empty.
        test: returns the id of the test that runs; empty between tests.
    """

    def __init__(
        self, journal: Journal, run: str, shard: str, worker: str, test: Callable[[], str]
    ) -> None:
        self.journal = journal
        self._run = run
        self._shard = shard
        self._worker = worker
        self._test = test
        self._numbers = itertools.count(1)
        self._begun: dict[int, WaitStarted] = {}
        self._unexplained: deque[tuple[str, ActiveWait]] = deque(maxlen=_MAX_UNEXPLAINED)
        self._lock = threading.Lock()

    def begun(self, wait: ActiveWait) -> None:
        """Write down that a wait has begun: should it be the last of this process, it is known."""
        self.explain()
        clock = wait.deadline.clock
        # A wait may have used a part of its limit before it is heard of.
        before = max(clock.monotonic() - wait.started, 0.0)
        begun = self._begun[id(wait)] = WaitStarted(
            id=f"{self._run}.{self._worker or 'main'}.{next(self._numbers)}",
            run=self._run,
            subject=wait.hide(wait.subject),
            goal=wait.hide(wait.goal),
            started=round(clock.time() - before, 3),
            shard=self._shard,
            worker=self._worker,
            test=self._test(),
        )
        self.journal.write(JournalEntry(begun=begun))

    def over(self, wait: ActiveWait) -> None:
        """Write down how a wait ended."""
        begun = self._begun.pop(id(wait), None)
        if begun is None:
            return
        record = record_ended_wait(wait, begun.id, self._run, begun.started)
        record.shard, record.worker, record.test = begun.shard, begun.worker, begun.test
        self.journal.write(JournalEntry(wait=record))
        if wait.outcome in ("doomed", "timed out"):
            with self._lock:
                self._unexplained.append((begun.id, wait))

    def explain(self) -> None:
        """Write down the evidence of waits that are over, as far as it has been gathered."""
        if not self._unexplained:
            return
        with self._lock:
            waits = list(self._unexplained)
            self._unexplained.clear()
            self._unexplained.extend(each for each in waits if each[1].report is None)
        for id, wait in waits:
            if wait.report is not None:
                self.journal.write(JournalEntry(explained=record_explanation(id, wait.report)))
