"""What must hold for anything to come at all: that the namespace takes new objects.

What is not there yet cannot be created in a namespace that is being deleted. No watch of
its own is opened for that: the namespace is read once the object has been missing for a while, and
again at growing intervals. A set of objects counts as missing while there is none of them: to list
a large one anew would cost more than it tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.engine.condition import Condition
from pytest_kwait.engine.deferred_checks import DeferredCheck
from pytest_kwait.engine.verdicts import Failed, Patience

if TYPE_CHECKING:
    from pytest_kwait.engine.verdicts import Pending

__all__ = ["NamespaceTerminatingCheck"]


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
