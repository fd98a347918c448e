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
    """What the wait makes of a verdict.

    Args:
        verdict: what the condition said.
        final: whether the wait ends with it.
        due: when the ruling must be looked at again even if nothing changes, in the clock's
            monotonic seconds; infinite where only a change can alter it.
        ask_at: when to rule again without listing anything anew, by what is asked late.
    """

    verdict: Verdict
    final: bool
    due: float = math.inf
    ask_at: float = math.inf


class Evaluator:
    """Holds a condition's verdicts against the graces and the stability that a wait was given.

    Args:
        condition: what is awaited.
        settings: the wait's options.
        clock: what graces are measured by.
        late_looks: what is asked where what is awaited does not come.
        started: when the wait began, in the clock's monotonic seconds; None for now.
    """

    def __init__(
        self,
        condition: Condition,
        settings: WaitSettings,
        clock: Clock,
        late_looks: Sequence[DeferredCheck[Any]] = (),
        started: float | None = None,
    ) -> None:
        self._condition = condition
        self._settings = settings
        self._clock = clock
        self._late_looks = late_looks
        timed = hasattr(condition, "set_time")
        self._timed = cast("Timed", condition) if timed else None
        self._started = clock.monotonic() if started is None else started
        self._met_since: float | None = None
        self._doomed_since: float | None = None
        self._hopeless_since: float | None = None
        self._untold: tuple[float, Pending] | None = None
        self.timeline = Timeline()

    @property
    def elapsed(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._started

    def rule(
        self, *, fresh: bool = False, asking: bool = False, in_passing: bool = False
    ) -> Evaluation:
        """Ask the condition, and say what its verdict means for the wait.

        Args:
            fresh: whether everything has been listed since the last ruling's due moment. A grace
                or a time of stability that has run out is final only then: on what was seen before
                a connection went dead, both would lie.
            asking: whether this is the caller's thread, and the moment to ask what is asked late.
            in_passing: whether the next ruling follows at once: a verdict that is pending is then
                recorded only if it is the last one before `tell`.

        Raises:
            Exception: whatever code of the user raises in the verdict.
        """
        now = self._clock.monotonic()
        if self._timed is not None:
            self._timed.set_time(now, fresh=fresh)
        self._untold = None
        verdict = self._condition.verdict()
        for look in self._late_looks:
            if isinstance(verdict, Pending):
                verdict = look.judge(verdict, now, fresh=fresh, asking=asking)
        match verdict:
            case Met():
                ruling = self._rule_met(verdict, now, fresh)
            case Failed():
                ruling = self._rule_failed(verdict, now, fresh)
            case Pending():
                due = math.inf if self._timed is None else self._timed.due
                ask_at = math.inf
                for look in self._late_looks:
                    if look.lists_first:
                        due = min(due, look.due)
                    else:
                        ask_at = min(ask_at, look.due)
                ruling = Evaluation(verdict, final=False, due=due, ask_at=ask_at)
                self._untold = (now, verdict)
                if not in_passing:
                    self.tell()
        if not isinstance(verdict, Met):
            self._met_since = None
        if not isinstance(verdict, Failed):
            self._doomed_since = self._hopeless_since = None
        return ruling

    def tell(self) -> None:
        """Record the last verdict if it was ruled on in passing; before anything else changes."""
        untold, self._untold = self._untold, None
        if untold is not None:
            now, verdict = untold
            self._record(now, verdict.reason)

    def note(self, text: str) -> None:
        """Record what is known before a verdict can be asked for."""
        self._record(self._clock.monotonic(), text)

    def _rule_met(self, verdict: Met, now: float, fresh: bool) -> Evaluation:
        if self._met_since is None:
            self._met_since = now
        due = self._met_since + self._settings.stable_for
        if not self._settings.stable_for or (fresh and now >= due):
            self._record(now, "met")
            return Evaluation(verdict, final=True)
        held = format_duration(self._settings.stable_for)
        self._record(now, f"met, and must hold for {held}")
        # A part of it may change with time before that.
        due = due if self._timed is None else min(due, self._timed.due)
        return Evaluation(verdict, final=False, due=due)

    def _rule_failed(self, verdict: Failed, now: float, fresh: bool) -> Evaluation:
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
        if self._doomed_since is None:
            self._doomed_since = now
        if verdict.patience is not Patience.SHORT:
            self._hopeless_since = None
        elif self._hopeless_since is None:
            self._hopeless_since = now
        since = verdict.since
        if since is None:
            hopeless = self._hopeless_since
            long_enough = self._doomed_since + self._settings.long_grace
            if hopeless is not None:
                return min(hopeless + self._settings.short_grace, long_enough)
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
