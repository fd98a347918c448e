"""Timers for conditions that must hold for a duration, per predicate and object.

One clock reading serves a whole verdict. The end of a timer may change the count of an unchanged
object: `TimedTally` evaluates such objects again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.engine.condition import Failed, Met, Pending, Verdict
from pytest_kwait.engine.object_sinks import ObjectCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.engine.object_sinks import ObjectState


class Timers:
    """The timers of one wait's condition.

    Set `key` before evaluating a test: the UID of the object, or empty if there is only one.
    """

    def __init__(self) -> None:
        self.key = ""
        self.now = 0.0
        self.fresh = False
        self._timers: list[HoldTimer] = []

    def __bool__(self) -> bool:
        """Return whether the condition has any timer."""
        return bool(self._timers)

    def timer(self, seconds: float, *, from_now: bool) -> HoldTimer:
        """Return a new timer of this condition.

        Args:
            seconds: the duration without a break.
            from_now: whether the first break is final, instead of restarting the timer.
        """
        made = HoldTimer(self, seconds, from_now=from_now)
        self._timers.append(made)
        return made

    @property
    def due(self) -> float:
        """The time at which the first running timer ends; infinite while none runs."""
        return min((timer.due for timer in self._timers), default=math.inf)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict, and whether everything has just been listed."""
        self.now, self.fresh = now, fresh

    def over(self) -> Iterator[str]:
        """Yield the keys of objects whose running timers have ended by now."""
        for timer in self._timers:
            yield from timer.over()

    def runs(self, key: str) -> bool:
        """Return whether a timer of that object runs."""
        return any(timer.runs(key) for timer in self._timers)

    def forget(self, key: str) -> None:
        """Remove the timers of a deleted object; a new one starts from zero."""
        for timer in self._timers:
            timer.forget(key)


class HoldTimer:
    """The time that one test has held, per object.

    Args:
        timers: supplies the time and the current object.
        seconds: the duration without a break.
        from_now: whether the first break is final, instead of restarting the timer.
    """

    def __init__(self, timers: Timers, seconds: float, *, from_now: bool) -> None:
        self._timers = timers
        self._seconds = seconds
        self._from_now = from_now
        # In order of start time, so the first entry ends first.
        self._since: dict[str, float] = {}
        self._held: set[str] = set()
        self._broken: dict[str, Failed] = {}

    @property
    def due(self) -> float:
        """The time at which the first running timer ends; infinite while none runs."""
        return next(iter(self._since.values()), math.inf) + self._seconds

    def over(self) -> list[str]:
        """Return the keys of objects whose running timers have ended by now."""
        keys = []
        for key, since in self._since.items():
            if since + self._seconds > self._timers.now:
                break
            keys.append(key)
        return keys

    def runs(self, key: str) -> bool:
        """Return whether the object's timer runs."""
        return key in self._since

    def forget(self, key: str) -> None:
        """Remove the timer of a deleted object."""
        self._since.pop(key, None)
        self._held.discard(key)
        self._broken.pop(key, None)

    def evaluate(self, verdict: Verdict) -> Verdict:
        """Return the verdict on a test, given how long it has held.

        Args:
            verdict: the current verdict of the test on the current object.
        """
        key, now = self._timers.key, self._timers.now
        if key in self._broken:
            return self._broken[key]
        if self._from_now and key in self._held:
            return Met()
        if isinstance(verdict, Met):
            return self._evaluate_met(verdict, key, now)
        since = self._since.pop(key, None)
        self._held.discard(key)
        if not self._from_now:
            return verdict
        text = "it does not hold to begin with"
        if since is not None:
            text = f"it held for {format_duration(round(now - since, 1))} only"
        broken = self._broken[key] = Failed(f"{text}: {verdict.reason}")
        return broken

    def _evaluate_met(self, verdict: Met, key: str, now: float) -> Verdict:
        if key in self._held:
            return Met(verdict.objects)
        since = self._since.setdefault(key, now)
        # Objects seen before a connection broke do not show that the test still holds.
        if self._timers.fresh and now >= since + self._seconds:
            del self._since[key]
            self._held.add(key)
            return Met(verdict.objects)
        return Pending(f"it holds, and must for {format_duration(self._seconds)}")


class TimedTally(ObjectCounter):
    """A counter of many objects, each with its own timers.

    Args:
        classify: returns an object's state from its fields and its terminal state so far.
        timers: the timers; `key` is set to the object being evaluated.
    """

    def __init__(
        self,
        classify: Callable[[dict[str, Any], TerminalState | None], ObjectState],
        timers: Timers,
    ) -> None:
        super().__init__(classify)
        self._timers = timers
        self._running: dict[str, tuple[dict[str, Any], bytes]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Add an object, or replace its previous version."""
        if not self._timers:
            super().put(obj, raw, now)
            return
        # Other lists may follow: nothing is fresh before all have arrived.
        self._timers.set_time(now, fresh=False)
        self._evaluate_now(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Remove an object; no-op for an unknown one."""
        super().drop(uid)
        self._timers.forget(uid)
        self._running.pop(uid, None)

    def reevaluate(self) -> None:
        """Evaluate again the objects whose timers have ended."""
        for uid in dict.fromkeys(self._timers.over()):
            obj, raw = self._running[uid]
            self._evaluate_now(obj, raw, self._timers.now)

    def _evaluate_now(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
        self._timers.key = uid
        super().put(obj, raw, now)
        if self._timers.runs(uid):
            self._running[uid] = (obj, raw)
        else:
            self._running.pop(uid, None)
