"""The work queue of controllers: keys of objects, delays and rate-limited retries.

Source: client-go, util/workqueue, tools/cache/store.go (`MetaNamespaceKeyFunc`).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.no_exploration import UnexploredQueue
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

# Seconds, as in upstream's default controller rate limiter.
BASE_DELAY = 0.005
MAX_DELAY = 1000.0

# Maximum seconds of work in one turn of the event loop, so that requests are served.
_TIME_SLICE = 0.005

# The maximum number of keys of one queue that wait for webhooks at a time. Source:
# kube-controller-manager's defaults of `--concurrent-*-syncs`.
_WORKERS = 5


def key_of(obj: Obj) -> str:
    """Return `namespace/name`, the key of an object in work queues."""
    return f"{namespace_of(obj)}/{name_of(obj)}"


def split_key(key: str) -> tuple[str, str]:
    """Return the namespace and the name of a key."""
    namespace, _, name = key.partition("/")
    return namespace, name


def calculate_delay(
    failures: int, base_delay: float = BASE_DELAY, max_delay: float = MAX_DELAY
) -> float:
    """Return the delay in seconds after earlier failures: doubling from the base to the maximum."""
    return min(base_delay * 2.0 ** min(failures, 40), max_delay)


class Workqueue(Generic[Key]):
    """Calls `handle` with each added key, later and in order.

    A key that is added again before it is handled is handled once. A `StatusError` of `handle`
    requeues the key with a growing delay, which a success resets.

    While the work for a key is suspended, other keys are handled. The same key, added again, waits
    for the end of that work.

    Args:
        cluster: its time scales the delays, which are constants of controllers.
        handle: does the work for one key.
        name: the name in the log and in explorations.
        base_delay: the delay in seconds after the first failure.
        max_delay: the longest delay in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        handle: Callable[[Key], None],
        name: str,
        *,
        base_delay: float = BASE_DELAY,
        max_delay: float = MAX_DELAY,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._handle = handle
        self.name = name
        self._delays = (base_delay, max_delay)
        self._ready: dict[Key, None] = {}
        self._waiting: dict[Key, ScheduledCall] = {}
        self._failures: dict[Key, int] = {}
        self._suspended: dict[Key, bool] = {}
        """Suspended keys, and whether they were added again meanwhile."""
        self._scheduled = False
        self._timed: dict[Key, None] = {}
        """Delayed keys that wait for a moment of the wall clock."""
        self.explored: UnexploredQueue[Key] = UnexploredQueue(self)
        """The keys that an exploration holds back."""
        cluster.clock.listen_to_jumps(self._on_jump)

    def __len__(self) -> int:
        """Return the number of due and delayed keys, without suspended ones."""
        return len(self._ready) + len(self._waiting) + len(self.explored)

    def add(self, key: Key) -> None:
        """Handle `key` in one of the next turns."""
        if key in self._ready:
            self.schedule()
            return
        self._cluster.exploration.explore_queue(self)
        self.explored.add(key)

    def make_ready(self, key: Key, *, is_first: bool = False) -> None:
        """Handle `key` in the next turn, before the others if `is_first`."""
        if is_first:
            self._ready = {key: None, **self._ready}
        else:
            self._ready[key] = None
        self.schedule()

    def add_after(self, key: Key, seconds: float, *, scaled: bool = True) -> None:
        """Handle `key` after `seconds`; the earlier one of two delays counts.

        Args:
            seconds: the delay; zero or less is at once.
            scaled: False for delays from manifests, which are real seconds.
        """
        if seconds <= 0:
            self.add(key)
            return
        real = seconds * self._clock.scale if scaled else seconds
        when = self._clock.monotonic() + real
        waiting = self._waiting.get(key)
        if waiting is not None:
            if waiting.when <= when:
                return
            waiting.cancel()
        self._waiting[key] = self._clock.call_later(real, lambda: self._due(key), scaled=False)

    def add_at(self, key: Key, moment: float) -> None:
        """Handle `key` at a moment of the wall clock; a jump of the clock handles it at once.

        Args:
            moment: seconds since the epoch.
        """
        self.add_after(key, moment - self._clock.time(), scaled=False)
        if key in self._waiting:
            self._timed[key] = None

    def forget(self, key: Key) -> None:
        """Drop `key` with its pending work and its failures."""
        self._ready.pop(key, None)
        self._failures.pop(key, None)
        self._timed.pop(key, None)
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.cancel()
        self.explored.forget(key)

    def _due(self, key: Key) -> None:
        del self._waiting[key]
        self._timed.pop(key, None)
        self.add(key)

    def _on_jump(self) -> None:
        """Handle the keys that wait for a moment of the wall clock, which may have come."""
        for key in list(self._timed):
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.cancel()
                self._due(key)
        self._timed.clear()

    def schedule(self) -> None:
        """Handle the keys that are ready in the next turn."""
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_later(0, self._process_next)

    def _process_next(self) -> None:
        self._scheduled = False
        if self.explored.is_paused:
            return  # the end of the pause resumes it
        until = self._clock.monotonic() + _TIME_SLICE
        # Keys added meanwhile are handled in the next turn, so that a busy key does not starve the
        # others.
        for key in list(self._ready):
            if len(self._suspended) >= _WORKERS:
                return  # the next one that ends resumes the others
            # The work before this one may have handled or removed the key.
            if self._ready.pop(key, 0) is not None:
                continue
            if key in self._suspended:
                self._suspended[key] = True
            elif self._cluster.tasks.may_suspend():
                self._begin(key)
            else:
                self._one(key)
            if self._clock.monotonic() > until:
                break
        if self._ready:
            self.schedule()

    def _begin(self, key: Key) -> None:
        """Start the work for a key in a form that can be suspended."""
        # Imported late: few clusters have webhooks.
        from pytest_kwait.simulator.suspendable import SuspendableTask, raise_error

        def done(task: SuspendableTask[None]) -> None:
            if self._suspended.pop(key):
                self.add(key)
            elif self._ready:
                self.schedule()
            raise_error(task)

        self._suspended[key] = False
        SuspendableTask(lambda: self._one(key), done)

    def _one(self, key: Key) -> None:
        try:
            self._handle(key)
        except StatusError as error:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            _log.debug("%s: %s: %s, try %d", self.name, key, error.message, failures + 1)
            self.add_after(key, calculate_delay(failures, *self._delays))
        else:
            self._failures.pop(key, None)
