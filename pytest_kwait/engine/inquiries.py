"""What is asked about an object whose status does not say why nothing comes of it: its events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.engine.condition import HasDeferredSource
from pytest_kwait.engine.deferred_checks import DeferredCheck
from pytest_kwait.engine.shared_stream import enter_list

if TYPE_CHECKING:
    from pytest_kwait.engine.verdicts import Failed, Pending

__all__ = ["DeferredSourceCheck"]


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
