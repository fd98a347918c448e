"""Deferred checks: requests that run only after a wait has been stuck for a while.

A wait that makes progress sends no requests beyond its watches.

`NamespaceTerminatingCheck` fails a wait whose namespace is terminating, because no object can be
created in it. It reads the namespace once an object has been missing for a while, and again at
growing intervals. An empty collection counts as missing. `DeferredSourceCheck` lists the events of
an object whose status does not explain its lack of progress.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.engine.condition import Condition, HasDeferredSource
from pytest_kwait.engine.verdicts import Failed, Patience
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.verdicts import Pending

__all__ = ["DeferredCheck", "DeferredSourceCheck", "NamespaceTerminatingCheck"]

LONGEST_PAUSE = 60.0

CHECK_TIMEOUT = 5.0
"""Seconds that one request may take; the wait continues without its answer."""

_Condition = TypeVar("_Condition")
_Answer = TypeVar("_Answer")


class DeferredCheck(Generic[_Condition]):
    """A check that runs after `delay` seconds without progress, and at growing intervals.

    A failure that it finds is confirmed by another run before it ends the wait.

    Args:
        session: the session of its requests.
        condition: the awaited condition.
        deadline: the deadline of the wait.
        delay: seconds without progress before the first run.
    """

    lists_first = True
    """True if all sources are listed before each run, not only before a final one."""

    def __init__(
        self, session: Session, condition: _Condition, deadline: Deadline, delay: float
    ) -> None:
        self.session = session
        self.condition = condition
        self._deadline = deadline
        self._pause = delay
        self._next: float | None = None
        self._lost: Failed | None = None
        self.stuck_since = 0.0
        """The time when the wait got stuck, in monotonic seconds."""

    @property
    def due(self) -> float:
        """The time of the next run, in monotonic seconds; infinite for none."""
        return math.inf if self._next is None else self._next

    def apply(self, verdict: Pending, now: float, *, fresh: bool, asking: bool) -> Pending | Failed:
        """Return the verdict, or the failure that the check found.

        Args:
            verdict: the condition's verdict.
            now: the clock's monotonic seconds.
            fresh: whether all sources have just been listed.
            asking: whether the check may send its request now.
        """
        if not self.is_needed(verdict):
            self._next = self._lost = None
            return verdict
        if self._next is None:
            self.stuck_since = now
            self._next = now + self._pause
        may = fresh or (asking and not self.lists_first)
        if may and (self._lost is not None or now >= self._next):
            self._lost = self.run()
            self._next = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return self._lost or verdict

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the wait is stuck in a way that this check can explain."""
        raise NotImplementedError

    def run(self) -> Failed | None:
        """Send the request; return the failure that it shows."""
        raise NotImplementedError

    def request(self, send: Callable[[Deadline], _Answer]) -> _Answer | None:
        """Return the answer; None without one, or if the request is forbidden."""
        try:
            return send(self._deadline.at_most(CHECK_TIMEOUT))
        except (ApiError, DeadlineExceeded):
            return None


class NamespaceTerminatingCheck(DeferredCheck[Condition]):
    """Fail a wait for a missing object whose namespace is terminating."""

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether a namespaced object is missing."""
        return verdict.absent and self._namespace() is not None

    def _namespace(self) -> str | None:
        """Return the namespace of a missing object; None for cluster-scoped kinds."""
        missing = (s.namespace for s in self.condition.sources() if not s.sink.uids())
        return next(filter(None, missing), None)

    def run(self) -> Failed | None:
        """Read the namespace; return the failure if it is being deleted."""
        namespace = self._namespace()
        if namespace is None:
            return None
        found = self.request(
            lambda deadline: self.session.get(NAMESPACES, namespace, deadline=deadline)
        )
        # A missing namespace may still be created.
        if found is None or not (found.get("metadata") or {}).get("deletionTimestamp"):
            return None
        text = f"namespace {namespace} is being deleted: nothing can be created in it"
        return Failed(text, Patience.SHORT)


class DeferredSourceCheck(DeferredCheck[HasDeferredSource]):
    """List the deferred source of a condition once it is stuck."""

    lists_first = False

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the condition has a deferred source now."""
        return self.condition.deferred_source() is not None

    def run(self) -> Failed | None:
        """List the source; return the failure it shows, dated from when the wait got stuck."""
        source = self.condition.deferred_source()
        if source is None:
            return None
        answer = self.request(
            lambda deadline: self.session.list(
                source.resource,
                source.namespace,
                label_selector=source.selector,
                field_selector=source.field_selector,
                deadline=deadline,
                type=source.fields,
            )
        )
        if answer is None:
            return None
        items = [(item.object, item.raw) for item in answer.items]
        source.replace(items, self.session.clock.monotonic())
        found = self.condition.deferred_verdict()
        if found is None or found.since is not None:
            return found
        return replace(found, since=self.stuck_since)
