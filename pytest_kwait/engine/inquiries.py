"""What is asked about an object whose status does not say why nothing comes of it: its events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.engine.late_looks import LateLook
from pytest_kwait.engine.stream import enter_list
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.api.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Inquirer
    from pytest_kwait.engine.verdicts import Failed, Pending

__all__ = ["Inquiry"]

PER_LOOK = 5.0
"""Seconds that the list may take: the wait goes on without the answer."""


class Inquiry(LateLook):
    """The source that a condition names while something is wanting, listed late.

    Args:
        session: who asks the server.
        condition: what is awaited.
        deadline: when the wait must be over.
        delay: seconds that something must be wanting before the source is listed.
    """

    lists_first = False

    def __init__(
        self, session: Session, condition: Inquirer, deadline: Deadline, delay: float
    ) -> None:
        super().__init__(delay)
        self._session = session
        self._condition = condition
        self._deadline = deadline

    def wants(self, verdict: Pending) -> bool:
        """Return whether the condition has something to ask."""
        return self._condition.inquiry() is not None

    def look(self) -> Failed | None:
        """List the source; return the verdict, which is as old as the want that it explains."""
        source = self._condition.inquiry()
        if source is None:
            return None
        try:
            answer = self._session.list(
                source.resource,
                source.namespace,
                label_selector=source.selector,
                field_selector=source.field_selector,
                deadline=self._deadline.at_most(PER_LOOK),
                type=source.fields,
            )
        except (ApiError, DeadlineExceeded):
            # Not everybody may read events, and what only explains may be done without.
            return None
        items = [(item.object, item.raw) for item in answer.items]
        enter_list(source, items, self._session.clock.monotonic())
        found = self._condition.finding()
        if found is None or found.since is not None:
            return found
        return replace(found, since=self.wanting_since)
