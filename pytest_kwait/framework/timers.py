"""Timers for conditions that must hold for a time, per predicate and object.

One clock reading serves a whole verdict. An object may count differently without having
changed, since its time is over: `TimedTally` counts such objects again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.object_counter import ObjectCounter
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.engine.object_counter import ObjectState, TerminalState

__all__ = ["TimedTally", "Timer", "Timers"]


class Timers:
    """The times that the parts of one wait's condition have held.

    Whoever has a test judged says before of which object: `key` is its UID, or empty where there is
    one object only.
    """

    def __init__(self) -> None:
        self.key = ""
        self.now = 0.0
        self.fresh = False
        self._timers: list[Timer] = []

    def __bool__(self) -> bool:
        """Whether the condition has any part with a time."""
        return bool(self._timers)

    def timer(self, seconds: float, *, from_now: bool) -> Timer:
        """Return a new time of this condition.

        Args:
            seconds: how long something must hold without a break.
            from_now: whether the first break is final, instead of starting the time anew.
        """
        made = Timer(self, seconds, from_now=from_now)
        self._timers.append(made)
        return made

    @property
    def due(self) -> float:
        """When the first of the times is over that run; infinite while none runs."""
        return min((timer.due for timer in self._timers), default=math.inf)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of, and whether everything has just been listed."""
        self.now, self.fresh = now, fresh

    def over(self) -> Iterator[str]:
        """Yield the objects of which a time that runs is over by now."""
        for timer in self._timers:
            yield from timer.over()

    def runs(self, key: str) -> bool:
        """Return whether a time of that object runs."""
        return any(timer.runs(key) for timer in self._timers)

    def forget(self, key: str) -> None:
        """Note that an object is gone: another one starts anew."""
        for timer in self._timers:
            timer.forget(key)


class Timer:
    """How long one test has held, of each object that it is made of.

    Args:
        timers: who knows the time and the object.
        seconds: how long it must hold without a break.
        from_now: whether the first break is final, instead of starting the time anew.
    """

    def __init__(self, timers: Timers, seconds: float, *, from_now: bool) -> None:
        self._timers = timers
        self._seconds = seconds
        self._from_now = from_now
        # In the order in which they began, so that the first is over first.
        self._since: dict[str, float] = {}
        self._held: set[str] = set()
        self._broken: dict[str, Failed] = {}

    @property
    def due(self) -> float:
        """When the first time that runs is over; infinite while none runs."""
        return next(iter(self._since.values()), math.inf) + self._seconds

    def over(self) -> list[str]:
        """Return the objects whose time runs and is over by now."""
        keys = []
        for key, since in self._since.items():
            if since + self._seconds > self._timers.now:
                break
            keys.append(key)
        return keys

    def runs(self, key: str) -> bool:
        """Return whether the object's time runs."""
        return key in self._since

    def forget(self, key: str) -> None:
        """Note that an object is gone."""
        self._since.pop(key, None)
        self._held.discard(key)
        self._broken.pop(key, None)

    def judge(self, verdict: Verdict) -> Verdict:
        """Return what a verdict on the test is, given how long it has held.

        Args:
            verdict: of the test, on the object that is being judged, at this moment.
        """
        key, now = self._timers.key, self._timers.now
        if key in self._broken:
            return self._broken[key]
        if self._from_now and key in self._held:
            return Met()
        if isinstance(verdict, Met):
            return self._judge_met(verdict, key, now)
        since = self._since.pop(key, None)
        self._held.discard(key)
        if not self._from_now:
            return verdict
        text = "it does not hold to begin with"
        if since is not None:
            text = f"it held for {format_duration(round(now - since, 1))} only"
        broken = self._broken[key] = Failed(f"{text}: {verdict.reason}")
        return broken

    def _judge_met(self, verdict: Met, key: str, now: float) -> Verdict:
        if key in self._held:
            return verdict
        since = self._since.setdefault(key, now)
        # What was seen before a connection went dead does not show that it still holds.
        if self._timers.fresh and now >= since + self._seconds:
            del self._since[key]
            self._held.add(key)
            return verdict
        return Pending(f"it holds, and must for {format_duration(self._seconds)}")


class TimedTally(ObjectCounter):
    """The book of a source of many objects, each with times of its own.

    Args:
        judge: what an object counts as, given its fields and its doom so far.
        timers: the times; those of the object that is judged while it is.
    """

    def __init__(
        self, judge: Callable[[dict[str, Any], TerminalState | None], ObjectState], timers: Timers
    ) -> None:
        super().__init__(judge)
        self._timers = timers
        self._running: dict[str, tuple[dict[str, Any], bytes]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count an object, instead of what it counted as before."""
        if not self._timers:
            super().put(obj, raw, now)
            return
        # A list may be followed by others: what it says is not fresh before all have come.
        self._timers.set_time(now, fresh=False)
        self._evaluate_now(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Count an object no more; nothing where it was not counted."""
        super().drop(uid)
        self._timers.forget(uid)
        self._running.pop(uid, None)

    def reevaluate(self) -> None:
        """Count those objects anew of which a time is over."""
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
