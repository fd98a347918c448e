"""Objects counted along by tests that need time: an object may count otherwise without a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import ObjectCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.object_counter import ObjectState, TerminalState
    from pytest_kwait.framework.timers import Timers

__all__ = ["TimedTally"]


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
