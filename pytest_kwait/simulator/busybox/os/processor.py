"""The embedded nodes' processor: which process has its turn, and how long.

All containers share the one process that the cluster is. Those that do a little have their turn at
once; a container that wants to compute all the time (an endless loop) has what is left, so that it
costs neither the API server nor other pods their time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.process_table import ProcessTable, Task
    from pytest_kwait.simulator.clock import SimClock

__all__ = ["CpuCredit", "CpuScheduler", "get_cpu_scheduler"]

# Seconds that a container may compute at a stretch, and what it gains of them in a second; those
# that are in debt share that gain, however many they are.
_MAX_CREDIT = 0.1
_CREDIT_GAIN = 0.1
_MAX_DEBT = -0.5
# Seconds of one turn of all, and how much longer than its turn a busy container's pause is.
_TIME_SLICE = 0.004
_DEBTOR_PAUSE_FACTOR = 4.0
# Seconds that one step is taken to have cost at least.
_MIN_STEP_SECONDS = 2e-5


class CpuCredit:
    """What a container may still compute at once.

    Args:
        clock: the cluster's time.
    """

    __slots__ = ("__weakref__", "_clock", "_debtors", "_left", "_seen")

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._left = _MAX_CREDIT
        self._seen = clock.monotonic()
        self._debtors = get_cpu_scheduler(clock).debtors

    def spend(self, seconds: float) -> None:
        """Note what was computed."""
        self._left = max(self._left - seconds, _MAX_DEBT)
        if self._left <= 0:
            self._debtors.add(self)

    @property
    def good(self) -> bool:
        """Whether any is left."""
        now = self._clock.monotonic()
        gain = (now - self._seen) * _CREDIT_GAIN
        self._seen = now
        if self._left > 0:
            self._left = min(_MAX_CREDIT, self._left + gain)
            return True
        self._left += gain / max(1, len(self._debtors))
        if self._left > 0:
            self._debtors.discard(self)
        return self._left > 0


class CpuScheduler:
    """Gives processes their turns.

    Args:
        clock: the cluster's time.
    """

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._ready: deque[tuple[ProcessTable, Task]] = deque()
        self._busy: deque[tuple[ProcessTable, Task]] = deque()
        self._planned = False
        self._plodding = False
        self._woken_at = 0.0
        self._woken = 0.0
        self.debtors: WeakSet[CpuCredit] = WeakSet()
        """Those that have computed more than they may."""

    def schedule(self, tasks: ProcessTable, task: Task) -> None:
        """Let a process go on in one of the next turns."""
        if tasks.credit.good:
            self._ready.append((tasks, task))
            if not self._planned:
                self._planned = True
                self._clock.call_later(0, self._run)
        else:
            self._busy.append((tasks, task))
            if not self._plodding:
                self._plodding = True
                self._clock.call_later(_TIME_SLICE, self._run_debtors, scaled=False)

    def _run(self) -> None:
        self._planned = False
        spent = 0.0
        try:
            for _ in range(len(self._ready)):
                if spent > _TIME_SLICE or not self._ready:
                    break
                spent += self.turn(*self._ready.popleft())
        finally:
            if self._ready and not self._planned:
                self._planned = True
                self._clock.call_later(0, self._run)

    def run_now(self, tasks: ProcessTable) -> None:
        """Let a container's processes have their turns now, for as long as one turn of all lasts.

        A kubelet looks at containers every second: what ends at once it never sees at work.
        """
        mine = deque(each for each in self._ready if each[0] is tasks)
        self._ready = deque(each for each in self._ready if each[0] is not tasks)
        spent = 0.0
        while mine and spent <= _TIME_SLICE:
            before = len(self._ready)
            spent += self.turn(*mine.popleft())
            # What that has let go on comes next.
            news = [self._ready.pop() for _ in range(len(self._ready) - before)]
            for each in reversed(news):
                (mine if each[0] is tasks else self._ready).append(each)
        self._ready.extend(mine)

    def wake(self, tasks: ProcessTable, task: Task) -> None:
        """Let a process go on now whose pause is over, unless many have just done so."""
        now = self._clock.monotonic()
        if now - self._woken_at > 2 * _TIME_SLICE:
            self._woken_at, self._woken = now, 0.0
        if self._woken > _TIME_SLICE:
            task.queued = True
            self.schedule(tasks, task)
        else:
            self._woken += self.turn(tasks, task)

    def _run_debtors(self) -> None:
        self._plodding = False
        spent = 0.0
        try:
            for _ in range(len(self._busy)):
                if spent > _TIME_SLICE:
                    break
                spent += self.turn(*self._busy.popleft())
        finally:
            if self._busy and not self._plodding:
                self._plodding = True
                self._clock.call_later(
                    max(spent, _TIME_SLICE) * _DEBTOR_PAUSE_FACTOR, self._run_debtors, scaled=False
                )

    def turn(self, tasks: ProcessTable, task: Task) -> float:
        """Let a process go on now; seconds that it took."""
        began = self._clock.monotonic()
        steps = tasks.advance(task)
        spent = max(self._clock.monotonic() - began, steps * _MIN_STEP_SECONDS)
        tasks.credit.spend(spent)
        return spent


def get_cpu_scheduler(clock: SimClock) -> CpuScheduler:
    """The one processor of a cluster, which is there as long as its clock."""
    found = clock.attached.get("processor")
    if not isinstance(found, CpuScheduler):
        found = clock.attached["processor"] = CpuScheduler(clock)
    return found
