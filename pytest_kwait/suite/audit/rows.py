"""Rows of audited waits: what the audit counts of a met wait, as values for other processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.active_waits import WaitObserver

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


class AuditCollector(WaitObserver):
    """Collects the rows of met waits once their observation has ended.

    Args:
        test: returns the id of the running test; empty between tests.
    """

    def __init__(self, test: Callable[[], str]) -> None:
        self._test = test
        self._lock = threading.Lock()
        self._observed: dict[ActiveWait, Row] = {}
        self._rows: list[Row] = []

    def on_end(self, wait: ActiveWait) -> None:
        """Begin the row of a met wait that a suite has called."""
        call = wait.call
        if wait.outcome != "met" or not call.name or wait.inner:
            return
        row = [
            *(call.name, call.site, self._test(), call.is_precondition),
            *(wait.seconds, round(wait.limit, 3), call.limit_name, wait.met_at_first_look),
        ]
        with self._lock:
            self._observed[wait] = row

    def on_change(self, wait: ActiveWait) -> None:
        """Complete the row of a wait whose observation has ended."""
        with self._lock:
            row = self._observed.pop(wait, None)
            if row is not None and wait.holding is not None:
                self._rows.append([*row, wait.holding.unchecked, *_break(wait.holding)])

    def take_rows(self) -> list[Row]:
        """Return the rows of waits whose observation has ended since the last call."""
        with self._lock:
            rows, self._rows = self._rows, []
        return rows
