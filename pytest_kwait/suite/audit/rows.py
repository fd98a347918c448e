"""Rows of audited waits: what the audit counts of a met wait, as values for other processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.suite.report.records import WaitRecord

Row = list[Any]
"""Name, site, test, whether it is a precondition, seconds, limit, its name, whether it was met at
the first look; then why it was not observed (None without an audit), after how many seconds it
broke, and the verdict then."""


def make_row(wait: WaitRecord) -> Row:
    """Return the row of a recorded wait."""
    audit = wait.audit
    observed = (None, None, "") if audit is None else (audit.unchecked, *_break(audit))
    return [
        *(wait.name, wait.site, wait.test, wait.precondition),
        *(wait.seconds, wait.limit, wait.limit_name, wait.first_look),
        *observed,
    ]


def _break(audit: Any) -> tuple[float | None, str]:
    return audit.broke_after, audit.reason


class AuditCollector:
    """Observer that collects met waits until their observation has ended.

    Args:
        test: returns the id of the running test; empty between tests.
    """

    def __init__(self, test: Callable[[], str]) -> None:
        self._test = test
        self._lock = threading.Lock()
        self._waits: list[tuple[ActiveWait, Row]] = []

    def on_start(self, wait: ActiveWait) -> None:
        """Handle the start of a wait."""

    def on_end(self, wait: ActiveWait) -> None:
        """Collect a met wait that a suite has called."""
        call = wait.call
        if wait.outcome != "met" or not call.name or wait.inner:
            return
        row = [
            *(call.name, call.site, self._test(), call.is_precondition),
            *(wait.seconds, round(wait.limit, 3), call.limit_name, wait.met_at_first_look),
        ]
        with self._lock:
            self._waits.append((wait, row))

    def take_rows(self) -> list[Row]:
        """Return the rows of waits whose observation has ended since the last call."""
        with self._lock:
            waits = self._waits
            self._waits = [each for each in waits if each[0].holding is None]
        return [
            [*row, wait.holding.unchecked, *_break(wait.holding)]
            for wait, row in waits
            if wait.holding is not None
        ]
