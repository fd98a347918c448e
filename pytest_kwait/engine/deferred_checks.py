"""Deferred checks: requests that run only after a wait has been stuck for a while.

A wait that goes well pays nothing for them: it costs no more than what it watches.

One check fails a wait whose namespace is terminating: what is not there yet cannot be created in
it. No watch is opened for that: the namespace is read once the object has been missing for a
while, and again at growing intervals. A set of objects counts as missing while it is empty: to
list a large one anew would cost more than it tells. The other check lists the events about an
object whose status does not explain why it makes no progress.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.engine.condition import Condition, HasDeferredSource
from pytest_kwait.engine.shared_stream import enter_list
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
"""Seconds that one request may take: the wait goes on without the answer."""

_Condition = TypeVar("_Condition")
_Answer = TypeVar("_Answer")


class DeferredCheck(Generic[_Condition]):
    """Something is wanting, and the server may know that it will not come.

    It is asked after `delay` seconds of want, and again at growing intervals; where it has said
    so, once more before that is believed.

    Args:
        session: who asks the server.
        condition: what is awaited.
        deadline: when the wait must be over.
        delay: seconds that something must be wanting before the server is asked.
    """

    lists_first = True
    """Whether all that the condition looks at is listed before each look, and not only before one
    that ends the wait."""

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
        """When the want began that lasts, in monotonic seconds."""

    @property
    def due(self) -> float:
        """When to look, in monotonic seconds; infinite for never."""
        return math.inf if self._next is None else self._next

    def judge(self, verdict: Pending, now: float, *, fresh: bool, asking: bool) -> Pending | Failed:
        """Return the verdict, or that it can no longer change.

        Args:
            verdict: what the condition says.
            now: the clock's monotonic seconds.
            fresh: whether all that the condition looks at has just been listed.
            asking: whether a look may be taken that needs no list before it.
        """
        if not self.is_needed(verdict):
            self._next = self._lost = None
            return verdict
        if self._next is None:
            self.stuck_since = now
            self._next = now + self._pause
        may = fresh or (asking and not self.lists_first)
        if may and (self._lost is not None or now >= self._next):
            self._lost = self.look()
            self._next = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return self._lost or verdict

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether something is wanting that the server may know more of."""
        raise AssertionError("said by each look")

    def look(self) -> Failed | None:
        """Ask the server; return the verdict if it will not come."""
        raise AssertionError("said by each look")

    def asked(self, ask: Callable[[Deadline], _Answer]) -> _Answer | None:
        """Return what the server answers; None where it does not, or may not.

        What only explains may be done without: not everybody may read it.
        """
        try:
            return ask(self._deadline.at_most(CHECK_TIMEOUT))
        except (ApiError, DeadlineExceeded):
            return None


class NamespaceTerminatingCheck(DeferredCheck[Condition]):
    """The namespace of what is awaited and not there takes new objects."""

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether anything is missing that belongs into a namespace."""
        return verdict.absent and self._namespace() is not None

    def _namespace(self) -> str | None:
        """Return where something is missing; None for what is cluster-scoped."""
        missing = (s.namespace for s in self.condition.sources() if not s.sink.uids())
        return next(filter(None, missing), None)

    def look(self) -> Failed | None:
        """Read the namespace; return the verdict if it is being deleted."""
        namespace = self._namespace()
        if namespace is None:
            return None
        found = self.asked(
            lambda deadline: self.session.get(NAMESPACES, namespace, deadline=deadline)
        )
        # One that is not there may still come.
        if found is None or not (found.get("metadata") or {}).get("deletionTimestamp"):
            return None
        text = f"namespace {namespace} is being deleted: nothing can be created in it"
        return Failed(text, Patience.SHORT)


class DeferredSourceCheck(DeferredCheck[HasDeferredSource]):
    """The source that a condition names while something is wanting, listed late."""

    lists_first = False

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the condition has something to ask."""
        return self.condition.deferred_source() is not None

    def look(self) -> Failed | None:
        """List the source; return the verdict, which is as old as the want that it explains."""
        source = self.condition.deferred_source()
        if source is None:
            return None
        answer = self.asked(
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
        enter_list(source, items, self.session.clock.monotonic())
        found = self.condition.deferred_verdict()
        if found is None or found.since is not None:
            return found
        return replace(found, since=self.stuck_since)
