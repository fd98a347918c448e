"""Whether waits end when they must, on a machine that is busy with other things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.engine.failure import evidence

if TYPE_CHECKING:
    from e2e.faults.stalls import ProcessStalls
    from e2e.faults.trial import Outcome, Trial

__all__ = ["LATE", "TRIES", "ends_at_its_limit", "ends_at_once"]

LATE = 1.0
"""Seconds after the moment it must within which a wait has ended, but for those that nobody had."""

SLACK = 3.0
"""Seconds that a machine may take for what a wait does not: it is busy with other workers."""

PATIENCE = 70.0
"""Seconds after which a wait hangs."""

TRIES = 3
"""How often a wait is tried, alone from the second time on.

A busy machine lets end late what ends in time, and nothing the other way round: a wait whose fault
it is ends late each time.
"""


def ends_at_its_limit(trial: Trial, outcome: Outcome, limit: float, stalls: ProcessStalls) -> bool:
    """Say whether a wait that comes to its limit ends there, and its evidence soon after.

    Args:
        trial: the wait; its fault lasts.
        outcome: how it ended first.
        limit: its limit in seconds.
        stalls: when nothing here could run.
    """
    for _ in range(TRIES):
        if outcome.waited < limit:
            return False
        end = outcome.begun + outcome.waited
        held_up = stalls.between(outcome.begun + limit, end)
        # What follows is evidence. The wall clock includes what other threads of a test do.
        spent = outcome.seconds - outcome.waited - stalls.between(end, outcome.ended)
        if outcome.waited < limit + LATE + held_up and spent < evidence.LIMIT + SLACK:
            return True
        trial.begin(limit)
        outcome = trial.outcome(PATIENCE)
    return False


def ends_at_once(trial: Trial, outcome: Outcome, timeout: float, stalls: ProcessStalls) -> bool:
    """Say whether a wait that is refused ends without waiting for anything, or asking again.

    The wait before it over the same proxy may have had a request on its way when it ended: that is
    counted here once, and not when it is tried again.

    Args:
        trial: the wait; its fault lasts.
        outcome: how it ended first.
        timeout: what it is given when it is tried again, in seconds.
        stalls: when nothing here could run.
    """
    for _ in range(TRIES):
        late = outcome.seconds >= LATE + stalls.between(outcome.begun, outcome.ended)
        if not late and len(outcome.requests) <= max(trial.family.watches, 1):
            return True
        trial.proxy.forget()
        trial.begin(timeout)
        outcome = trial.outcome(PATIENCE)
    return False
