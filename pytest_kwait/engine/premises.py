"""What must hold for anything to come at all: that the namespace takes new objects.

What is not there yet cannot be created in a namespace that is being deleted. No watch of
its own is opened for that: the namespace is read once the object has been missing for a while, and
again at growing intervals. A set of objects counts as missing while there is none of them: to list
a large one anew would cost more than it tells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kwait.api.resource import NAMESPACES
from pytest_kwait.engine.verdicts import Failed, Patience, Pending
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.api.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Condition

__all__ = ["Premise"]

PER_LOOK = 5.0
"""Seconds that reading the namespace may take: the wait goes on without the answer."""

LONGEST_PAUSE = 60.0


class Premise:
    """The namespace of what is awaited and not there takes new objects.

    Args:
        session: who asks the server.
        condition: what is awaited.
        deadline: when the wait must be over.
        delay: seconds that it must be missing before the namespace is read.
    """

    def __init__(
        self, session: Session, condition: Condition, deadline: Deadline, delay: float
    ) -> None:
        self._session = session
        self._condition = condition
        self._deadline = deadline
        self._pause = delay
        self._next: float | None = None
        self._lost: Failed | None = None

    @property
    def due(self) -> float:
        """When to look, in monotonic seconds; infinite for never."""
        return math.inf if self._next is None else self._next

    def judge(self, verdict: Pending, now: float, *, fresh: bool) -> Pending | Failed:
        """Return the verdict, or that it can no longer change.

        Args:
            verdict: what the condition says.
            now: the clock's monotonic seconds.
            fresh: whether all that the condition looks at has just been listed.
        """
        if not verdict.absent or self._namespace() is None:
            self._next = self._lost = None
            return verdict
        if self._next is None:
            self._next = now + self._pause
        if fresh and (self._lost is not None or now >= self._next):
            self._lost = self._look()
            self._next = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return self._lost or verdict

    def _namespace(self) -> str | None:
        """Return where something is missing; None for what is cluster-scoped."""
        missing = (s.namespace for s in self._condition.sources() if not s.book.uids())
        return next(filter(None, missing), None)

    def _look(self) -> Failed | None:
        namespace = self._namespace()
        if namespace is None:
            return None
        limit = self._deadline.at_most(PER_LOOK)
        try:
            found = self._session.get(NAMESPACES, namespace, deadline=limit)
        except (ApiError, DeadlineExceeded):
            # Not everybody may read namespaces, and one that is not there may still come.
            return None
        if not (found.get("metadata") or {}).get("deletionTimestamp"):
            return None
        text = f"namespace {namespace} is being deleted: nothing can be created in it"
        return Failed(text, Patience.SHORT)
