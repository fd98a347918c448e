"""Active waits of this process, listed for live status and observers.

A wait is added once and removed once; nothing is done per event. Its latest verdict is read from
its timeline on demand. A run that waits for nothing loads this module alone of the engine, so it
imports nothing that costs.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.failure.report import WaitReport
    from pytest_kwait.engine.failure.timeline import Timeline

    # Where nothing waits, this module is all that is loaded: making a protocol costs more.
    class WaitObserver(Protocol):
        """Who is told of waits that begin and end; called in the thread that waits."""

        def begun(self, wait: ActiveWait) -> None:
            """Hear that a wait has begun."""
            ...

        def over(self, wait: ActiveWait) -> None:
            """Hear that a wait is over, however it ended; it is not in the list any more."""
            ...


__all__ = ["ACTIVE_WAITS", "OUTCOMES", "ActiveWait", "ActiveWaits"]

OUTCOMES = ("met", "failed early", "timed out", "error", "interrupted")
"""How a wait can end: an error is one of the API, interrupted is whatever else ended it."""


class ActiveWait:
    """One wait that is not over.

    Args:
        subject: what it is about: `job ci-1/sleepers`.
        goal: what is awaited of it, as a verb: `have 3 pods Running`.
        deadline: when it ends at the latest.
        timeline: how its verdict has changed.
        started: when it began, in seconds of the deadline's clock.
    """

    def __init__(
        self, subject: str, goal: str, deadline: Deadline, timeline: Timeline, started: float
    ) -> None:
        self.subject = subject
        self.goal = goal
        self.deadline = deadline
        self.timeline = timeline
        self.started = started
        self.inner = False
        """Whether it is a part of another wait of the same thread."""
        self.outcome = ""
        """How it ended, one of `OUTCOMES`; empty while it lasts."""
        self.retries = 0
        """How many errors of the API it has lived through; known once it is over."""
        self.trouble = ""
        """The last of them, or the one that ended it; known once it is over."""
        self.report: WaitReport | None = None
        """The facts of one that did not come true; gathered after it is over."""
        self.hide: Callable[[str], str] = str
        """Takes out of a text what must not be shown."""

    @property
    def failed_early(self) -> bool:
        """Whether it has ended because what is awaited can no longer come."""
        return self.outcome == "failed early"

    @property
    def left(self) -> str:
        """How much time is left, in whole seconds."""
        return _whole_seconds(self.deadline.remaining)

    @property
    def text(self) -> str:
        """What is awaited and what was seen last, in one line."""
        last = " ".join(self.timeline.last.split()) or "nothing seen yet"
        return f"{self.subject} to {self.goal}: {last}"

    def __str__(self) -> str:
        elapsed = _whole_seconds(self.deadline.clock.monotonic() - self.started)
        return f"{self.text} (after {elapsed}, {self.left} left)"


class ActiveWaits:
    """The list of waits that are not over; safe to use from any thread, and in signal handlers."""

    def __init__(self) -> None:
        # Without a lock: a signal handler may ask while the thread that it stopped is entering.
        self._waits: dict[int, ActiveWait] = {}
        self._onlookers: tuple[WaitObserver, ...] = ()
        self._lock = threading.Lock()
        self._depth = threading.local()

    def waits(self) -> list[ActiveWait]:
        """Return them, the oldest first."""
        return list(self._waits.values())

    @contextlib.contextmanager
    def entered(self, wait: ActiveWait) -> Iterator[None]:
        """Keep a wait in the list for as long as the context lasts."""
        depth = getattr(self._depth, "value", 0)
        wait.inner = depth > 0
        self._depth.value = depth + 1
        self._waits[id(wait)] = wait
        try:
            for onlooker in self._onlookers:
                onlooker.begun(wait)
            yield
        finally:
            self._depth.value = depth
            wait.outcome = wait.outcome or "interrupted"
            del self._waits[id(wait)]
            for onlooker in self._onlookers:
                onlooker.over(wait)

    def add(self, onlooker: WaitObserver) -> None:
        """Tell somebody of waits from now on."""
        with self._lock:
            self._onlookers = (*self._onlookers, onlooker)

    def remove(self, onlooker: WaitObserver) -> None:
        """Tell somebody no more; nothing if he is not told."""
        with self._lock:
            self._onlookers = tuple(each for each in self._onlookers if each is not onlooker)


ACTIVE_WAITS = ActiveWaits()
"""The waits of this process."""


def _whole_seconds(seconds: float) -> str:
    # Runs that wait for nothing load this module, too, and need no durations.
    from pytest_kwait.apimachinery.durations import format_duration

    return format_duration(float(round(seconds)))
