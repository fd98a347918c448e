"""The evaluator: applies grace periods and stability to a condition's verdicts."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.failure.timeline import Timeline
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.clock import Clock
    from pytest_kwait.engine.condition import Condition, Timed
    from pytest_kwait.engine.deferred_checks import DeferredCheck
    from pytest_kwait.engine.options import WaitSettings

__all__ = ["Evaluation", "Evaluator"]

_log = logging.getLogger("pytest_kwait.wait")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict, and its effect on the wait.

    Args:
        verdict: the condition's verdict.
        final: whether it ends the wait.
        due: when to list everything and evaluate again without a change, in monotonic seconds;
            infinite if only a change can alter the verdict.
        ask_at: when to evaluate again for a deferred check, without listing anything.
    """

    verdict: Verdict
    final: bool
    due: float = math.inf
    ask_at: float = math.inf


class Evaluator:
    """Applies grace periods and stability to the verdicts of one wait.

    Args:
        condition: the awaited condition.
        settings: the wait's options.
        clock: the clock of the grace periods.
        deferred_checks: the checks of a stuck wait.
        started: when the wait began, in monotonic seconds; None for now.
    """

    def __init__(
        self,
        condition: Condition,
        settings: WaitSettings,
        clock: Clock,
        deferred_checks: Sequence[DeferredCheck[Any]] = (),
        started: float | None = None,
    ) -> None:
        self._condition = condition
        self._settings = settings
        self._clock = clock
        self._deferred_checks = deferred_checks
        timed = hasattr(condition, "set_time")
        self._timed = cast("Timed", condition) if timed else None
        self._started = clock.monotonic() if started is None else started
        self._met_since: float | None = None
        self._terminal_since: float | None = None
        self._permanent_since: float | None = None
        self._unrecorded: tuple[float, Pending] | None = None
        self.timeline = Timeline()

    @property
    def elapsed(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._started

    def evaluate(
        self, *, fresh: bool = False, asking: bool = False, in_passing: bool = False
    ) -> Evaluation:
        """Return the condition's verdict and its effect on the wait.

        Args:
            fresh: whether everything was listed since the last due time. An expired grace or
                stability period is final only then: a dead connection would hide changes.
            asking: whether deferred checks may send requests, in the caller's thread.
            in_passing: whether another evaluation follows at once; a pending verdict is then
                recorded only if it is the last before `record_last`.

        Raises:
            Exception: raised by user code in the verdict.
        """
        now = self._clock.monotonic()
        if self._timed is not None:
            self._timed.set_time(now, fresh=fresh)
        self._unrecorded = None
        verdict = self._condition.verdict()
        for check in self._deferred_checks:
            if isinstance(verdict, Pending):
                verdict = check.apply(verdict, now, fresh=fresh, asking=asking)
        match verdict:
            case Met():
                evaluation = self._evaluate_met(verdict, now, fresh)
            case Failed():
                evaluation = self._evaluate_failed(verdict, now, fresh)
            case Pending():
                due = math.inf if self._timed is None else self._timed.due
                ask_at = math.inf
                for check in self._deferred_checks:
                    if check.lists_first:
                        due = min(due, check.due)
                    else:
                        ask_at = min(ask_at, check.due)
                evaluation = Evaluation(verdict, final=False, due=due, ask_at=ask_at)
                self._unrecorded = (now, verdict)
                if not in_passing:
                    self.record_last()
        if not isinstance(verdict, Met):
            self._met_since = None
        if not isinstance(verdict, Failed):
            self._terminal_since = self._permanent_since = None
        return evaluation

    def record_last(self) -> None:
        """Record the last verdict if it was evaluated in passing; call before the next change."""
        unrecorded, self._unrecorded = self._unrecorded, None
        if unrecorded is not None:
            now, verdict = unrecorded
            self._record(now, verdict.reason)

    def record_text(self, text: str) -> None:
        """Record a text before the first verdict."""
        self._record(self._clock.monotonic(), text)

    def _evaluate_met(self, verdict: Met, now: float, fresh: bool) -> Evaluation:
        if self._met_since is None:
            self._met_since = now
        due = self._met_since + self._settings.stable_for
        if not self._settings.stable_for or (fresh and now >= due):
            self._record(now, "met")
            return Evaluation(verdict, final=True)
        held = format_duration(self._settings.stable_for)
        self._record(now, f"met, and must hold for {held}")
        # Part of the condition may change with time before that.
        due = due if self._timed is None else min(due, self._timed.due)
        return Evaluation(verdict, final=False, due=due)

    def _evaluate_failed(self, verdict: Failed, now: float, fresh: bool) -> Evaluation:
        if not self._settings.fail_fast:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=False)
        if verdict.patience is Patience.NONE:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=True)
        due = self._end_of_patience(verdict, now)
        if fresh and now >= due:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=True)
        grace = self._grace(verdict.patience)
        self._record(now, f"final if it holds for {format_duration(grace)}: {verdict.reason}")
        return Evaluation(verdict, final=False, due=due)

    def _end_of_patience(self, verdict: Failed, now: float) -> float:
        if self._terminal_since is None:
            self._terminal_since = now
        if verdict.patience is not Patience.SHORT:
            self._permanent_since = None
        elif self._permanent_since is None:
            self._permanent_since = now
        since = verdict.since
        if since is None:
            permanent = self._permanent_since
            long_enough = self._terminal_since + self._settings.long_grace
            if permanent is not None:
                return min(permanent + self._settings.short_grace, long_enough)
            return long_enough
        return since + self._grace(verdict.patience)

    def _grace(self, patience: Patience) -> float:
        short = patience is Patience.SHORT
        return self._settings.short_grace if short else self._settings.long_grace

    def _record(self, now: float, text: str) -> None:
        if self.timeline.record(now - self._started, text) and _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s to %s: after %s: %s",
                self._condition.subject,
                self._condition.goal,
                format_duration(round(now - self._started, 1)),
                text,
            )
